import { describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const page = readFileSync(join(import.meta.dir, '../../docs/scale.md'), 'utf8')
const [section] = /^## Sizing\n[^]*?(?=^## )/m.exec(page)!

/** The cells after the first one, of the row that starts with it. */
function row(start: string): string[] {
  const found = section.split('\n').find((line) => line.startsWith(`| ${start} |`))
  if (found === undefined) throw new Error(`"Sizing" has no row "${start}"`)
  return found
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim())
}

/** Two significant digits, and at most two decimals. */
function text(value: number): string {
  if (value < 10) return String(Number(value.toFixed(2)))
  return Number(value.toPrecision(2)).toLocaleString('en').replaceAll(',', ' ')
}

describe('the section "Sizing"', () => {
  it('computes correct results from its figures', () => {
    const [k, n, w, b] = [...'knwb'].map((name) => parseFloat(row(name)[1]!)) as [
      number,
      number,
      number,
      number,
    ]
    const figures = [10_000, 1_000_000].map((users) => {
      const [none, reads, writes] = [users / 600, (3 * users) / 600, users / 3600]
      const processors = ((reads - none) * k + none * n + writes * (k + w)) / 1000
      const calls = reads + 2 * writes
      return {
        'requests a second': text(reads + writes),
        'of them without cached credentials; calls to the token server': text(none),
        'calls to the storage a second': text(calls),
        processors: text(processors),
        'processes, without a spare one': String(Math.ceil(processors / 0.7)),
        'Redis, in MB': text((users / 2) * (b / 1000)),
      }
    })

    for (const name of Object.keys(figures[0]!) as (keyof (typeof figures)[0])[])
      expect([name, ...row(name)]).toEqual([name, ...figures.map((column) => column[name])])
  })
})
