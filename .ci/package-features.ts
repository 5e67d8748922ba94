// `make pages` writes the table of features of docs/clients.md into the pages of both packages.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const project = join(import.meta.dir, '..')

/** The pages by path, with how they spell a name of JavaScript. */
const spellings: Record<string, (name: string) => string> = {
  'src/client/README.md': (name) => name,
  'clients/python/README.md': (name) => (name === 'exportFormats' ? 'EXPORT_FORMATS' : underscored(name)),
}

/** The pages of both packages, with today's table. */
export function packagePages(): [path: string, text: string][] {
  const guide = readFileSync(join(project, 'docs/clients.md'), 'utf8')
  const [table] = guide.match(/^\| To \| Use \|\n(?:\|.*\n)+/m)!
  return Object.entries(spellings).map(([path, spell]) => {
    const own = table.replaceAll(/`([\w.]+)`/g, (_, name: string) => `\`${spell(name)}\``)
    const page = readFileSync(join(project, path), 'utf8')
    return [path, page.replace(/^## Features\n[^]*?(?=^## )/m, () => `## Features\n\n${own}\n`)]
  })
}

/** A name as Python spells it. */
export function underscored(name: string): string {
  return name.replaceAll(/(?<!^)[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

if (import.meta.main) for (const [path, text] of packagePages()) writeFileSync(join(project, path), text)
