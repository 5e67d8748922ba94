import { UsageError } from './usage-error.ts'
import type { GivenOptions } from '../command-line.ts'

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Reads an option as a time in ms since 1970; null if it is not given. An ISO date with or without a local time, or how long ago: `30m`,
 * `12h` or `7d`. Throws `UsageError`.
 */
export function readMoment(options: GivenOptions, name: string, nowMs: number): number | null {
  const [text] = options.get(name) ?? []
  if (text === undefined) return null
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  if (unit) return Math.max(0, nowMs - Number(count) * unitMs[unit]!)
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const ms = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(isDate ? `${text}T00:00` : text) : NaN
  if (ms >= 0) return ms
  const forms = 'write a date such as 2026-01-31 or 2026-01-31T18:00, or how long ago: 30m, 12h, 7d'
  throw new UsageError(`--${name} ${JSON.stringify(text)} is not a date: ${forms}`)
}
