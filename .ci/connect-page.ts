// `make pages` writes the recipes for Firefox's console into docs/connect.md, from the files that the command and the explorer include.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const docs = join(import.meta.dir, '../docs')
const path = join(docs, 'connect.md')

/** The page with today's recipes, in its order. */
export function connectPage(): string {
  const recipes = ['firefox-console-once', 'firefox-console'].map((name) =>
    readFileSync(join(docs, `examples/${name}.txt`), 'utf8'),
  )
  const page = readFileSync(path, 'utf8')
  return page.replaceAll(/^```js\n\(async[^]*?^```$/gm, () => `\`\`\`js\n${recipes.shift()}\`\`\``)
}

if (import.meta.main) writeFileSync(path, connectPage())
