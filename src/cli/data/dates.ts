import { refuse } from '../command.ts'

const dateForm = /^(\d{4}-\d\d-\d\d)(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)?)?$/
const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A time in ms since 1970, which may depend on the present one. */
export type Moment = (nowMs: number) => number

/** Reads the value of an option: an ISO date with or without a local time, or how long ago: `30m`, `12h` or `7d`. */
export function readMoment(text: string): Moment {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  if (unit) return (nowMs) => Math.max(0, nowMs - Number(count) * unitMs[unit]!)
  const [, day] = dateForm.exec(text) ?? []
  // East of Greenwich, the first day of 1970 begins before 1970.
  const ms = day === undefined ? NaN : Math.max(0, Date.parse(day === text ? `${text}T00:00` : text))
  // February 30 would parse as a day in March.
  if (ms >= 0 && new Date(`${day}T00:00Z`).toISOString().startsWith(day!)) return () => ms
  return refuse('Write a date such as 2026-01-31 or 2026-01-31T18:00, or how long ago: 30m, 12h, 7d.')
}
