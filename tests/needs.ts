/**
 * `bun tests/needs.ts PROGRAM…` prints the test files that can't run without one of these programs, because a file that they import starts
 * it by name; and after a tab, the number of tests in them.
 */
import { Glob } from 'bun'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

const folder = import.meta.dir
const programs = process.argv.slice(2)
const texts = new Map<string, string>()

for (const file of [...new Glob('**/*.test.ts').scanSync(folder)].toSorted()) {
  const path = join(folder, file)
  if (!filesOf(path).some(startsProgram)) continue
  const count = textOf(path).match(/^\s*it(\.\w+)*\(/gm)?.length ?? 0
  process.stdout.write(`tests/${file}\t${count}\n`)
}

/** The file and everything that it imports from this folder. Types start nothing. */
function filesOf(path: string, found = new Set<string>()): string[] {
  if (found.has(path) || !existsSync(path)) return []
  found.add(path)
  for (const [, target] of textOf(path).matchAll(/^import (?!type )[^']*'(\.[^']+)'/gm)) {
    const imported = normalize(join(dirname(path), target!))
    if (imported.startsWith(folder)) filesOf(imported, found)
  }
  return [...found]
}

/** Whether a command begins with one of the programs, or the code searches for it; `skipIf` can handle both by itself. */
function startsProgram(path: string): boolean {
  const text = textOf(path)
  return programs.some((program) => {
    const skips = text.includes('skipIf(') && text.includes(`which('${program}')`)
    return (
      !skips &&
      ["['", 'words`', "which('"].some((before) =>
        new RegExp(`${RegExp.escape(before + program)}['\\s]`).test(text),
      )
    )
  })
}

function textOf(path: string): string {
  const text = texts.get(path) ?? readFileSync(path, 'utf8')
  texts.set(path, text)
  return text
}
