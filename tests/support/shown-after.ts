import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dir, '../..')

/**
 * What a page says is printed after a code block, on both streams, from the first line on: the block of text that follows it; without one, nothing.
 * "…" stands for any text, alone on a line for any lines. `~` may be printed as `home`, and another time in the name of a backup.
 */
export function shownAfter(name: string, code: string, home = '~'): RegExp {
  const [, after] = readFileSync(join(root, name), 'utf8').split(`${code}\`\`\`\n`)
  if (after === undefined) throw new Error(`No code block in ${name}: ${code}`)
  const [, shown] = /^\n```text\n([^]*?)\n```\n/.exec(after) ?? []
  if (shown === undefined) return /^$/
  const lines = shown.split('\n').map((line) => {
    if (line === '…') return '(?:[^\\n]*\\n)*?'
    const exact = line.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
    const some = exact.replaceAll('…', '[^\\n]*').replaceAll(/2026-01-31T[-\d\\.]+Z/g, '[-.\\dTZ]+')
    return `${some.replaceAll('~/', `${home}/`)}(?:\\n|$)`
  })
  return new RegExp(`^${lines.join('')}`)
}
