import { UsageError } from './usage-error.ts'
import type { GivenOptions } from '../command-line.ts'

const dateForm = /^(\d{4}-\d\d-\d\d)(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)?)?$/
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
  const [, day] = dateForm.exec(text) ?? []
  // East of Greenwich, the first day of 1970 begins before 1970.
  const ms = day === undefined ? NaN : Math.max(0, Date.parse(day === text ? `${text}T00:00` : text))
  // February 30 would parse as a day in March.
  if (ms >= 0 && new Date(`${day}T00:00Z`).toISOString().startsWith(day!)) return ms
  const forms = 'write a date such as 2026-01-31 or 2026-01-31T18:00, or how long ago: 30m, 12h, 7d'
  throw new UsageError(`--${name} ${JSON.stringify(text)} is not a date: ${forms}`)
}
