import { appendFileSync } from 'node:fs'

/**
 * Keeps what a bridge under test has printed. The runner of all tests names the file, and looks for secrets in it at the
 * end; without one nothing is kept.
 */
export function keepPrinted(lines: readonly string[]): void {
  const path = process.env.PRINTED_BY_BRIDGES
  if (path && lines.length > 0) appendFileSync(path, `${lines.join('\n')}\n`)
}
