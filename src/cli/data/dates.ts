import { isoOf } from '../../client/tables.ts'
import { parseDate } from '../../settings/readers.ts'
import { refuse } from '../command.ts'

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A time in ms since 1970, which may depend on the present one. */
export type Moment = (nowMs: number) => number

/** Reads the value of an option: an ISO date with or without a local time, or how long ago: `30m`, `12h` or `7d`. */
export function readMoment(text: string): Moment {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  if (unit) return (nowMs) => Math.max(0, nowMs - Number(count) * unitMs[unit]!)
  const atMs = parseDate(text, 'optional')
  // East of Greenwich, the first day of 1970 begins before 1970.
  if (atMs !== null) return () => Math.max(0, atMs)
  return refuse('Write a date such as 2026-01-31 or 2026-01-31T18:00, or how long ago: 30m, 12h, 7d.')
}

/** Formats a time to the minute, in the local time zone; "-" if it is unknown. */
export function minuteOf(ms: number): string {
  if (!(ms > 0)) return '-'
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return isoOf(local.getTime()).slice(0, 16).replace('T', ' ')
}
