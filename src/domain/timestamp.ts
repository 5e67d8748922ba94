/**
 * A timestamp of the storage, in integer milliseconds since 1970. The storage counts in 10 ms steps, so its timestamps are multiples of 10.
 * The wire forms (entity tag, Sync seconds, HTTP date) are read and written here; `upstream/bso.ts` and `bso-stream.ts` read the numbers in
 * the storage's JSON.
 */
export type Timestamp = number & { readonly unit: 'ms of a storage timestamp' }

/** The steps of the storage's clock, in ms. A collection can be written once in each; see Sync 1.5 API, "Timestamps". */
export const timestampStepMs = 10

/** The timestamp of a collection or record that does not exist. */
export const zeroTimestamp = 0 as Timestamp

/** Brands a number of milliseconds; the caller ensures that it is a non-negative safe integer. */
export function timestamp(milliseconds: number): Timestamp {
  return milliseconds as Timestamp
}

/**
 * Formats a timestamp as Sync decimal seconds: 1234567890120 ms is "1234567890.12". Rounds down to 10 ms: rounding up could turn "changed
 * since" into "unchanged". See Sync 1.5 API, "Timestamps".
 */
export function toSyncSeconds(value: Timestamp): string {
  const hundredths = Math.floor(value / 10)
  const seconds = Math.floor(hundredths / 100)
  const fraction = hundredths % 100
  return `${seconds}.${fraction < 10 ? '0' : ''}${fraction}`
}

const syncSecondsPattern = /^(\d{1,11})(?:\.(\d{1,2})0*)?$/

/** Parses decimal seconds ("1234567890.12") without floating point; null if invalid. */
export function fromSyncSeconds(text: string | null | undefined): Timestamp | null {
  const match = text ? syncSecondsPattern.exec(text.trim()) : null
  if (!match) return null
  const hundredths = (match[2] ?? '').padEnd(2, '0')
  return timestamp(Number(match[1]) * 1000 + Number(hundredths) * 10)
}

/** The timestamp as a strong entity tag: `"1234567890120"`. */
export function toEntityTag(value: Timestamp): string {
  return `"${value}"`
}

// Proxies that compress a response name the coding in its entity tag, as Apache does, or weaken the tag, as nginx does.
const coding = '(?:(?:--?|;)(?:gzip|br|zstd|deflate))?'
const version = `\\d{1,15}${coding}`

/** The pattern of a version in a header: an entity tag, or its number alone. */
export const entityTagPattern = `(?:W\\/)?"${version}"|${version}`

/** The pattern of a version in a query, where it may also be a weak entity tag without its quotes, which Kinto's clients remove. */
export const versionPattern = `${entityTagPattern}|W\\/"?${version}`

const readPattern = new RegExp(`^(?:W\\/)?"?(\\d{1,15})${coding}"?$`)

/** Reads a version as clients and proxies send it: the one reader of all spellings that the patterns allow; null if there is no number. */
export function readVersion(text: string): Timestamp | null {
  const match = readPattern.exec(text)
  return match ? timestamp(Number(match[1])) : null
}

/** Rounds down to the storage's 10 ms steps, so that no change is missed. */
export function floored(value: Timestamp): Timestamp {
  return timestamp(value - (value % timestampStepMs))
}

/** Rounds up to the storage's 10 ms steps. */
export function raised(value: Timestamp): Timestamp {
  return timestamp(Math.ceil(value / timestampStepMs) * timestampStepMs)
}

/** Formats a timestamp as an HTTP date, truncated to the second; see RFC 9110, 5.6.7. */
export function toHttpDate(value: Timestamp): string {
  return new Date(value).toUTCString()
}
