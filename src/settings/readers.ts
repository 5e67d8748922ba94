import { X509Certificate } from 'node:crypto'
import { isAbsolute, join } from 'node:path'
import { canonicalCollection } from '../domain/record.ts'
import { quoteText } from '../observability/log.ts'

/** The value of a setting's text, or the problem with it: `is empty: write some text`, with the remedy after the colon. */
export type Reading<T> = { value: T } | { problem: string }

/** The context of reading a setting. */
interface ReadingContext {
  /** The folder of the settings file, for relative file names. Null: the current directory. */
  folder: string | null
  /** The text of a file; throws when there is none. */
  readFile(path: string): string
}

/** Parses the trimmed text of a setting. Strict: nothing is guessed or rounded. */
export type Reader<T> = (text: string, context: ReadingContext) => Reading<T>

/** Makes a reader from a function that returns null for invalid text. `problem`: `is not a date: write a date such as 2031-12-31`. */
export function reader<T>(problem: string, read: (text: string) => T | null): Reader<T> {
  return (text) => {
    const value = read(text)
    return value === null ? invalidValue(text, problem) : { value }
  }
}

/** A problem that quotes the text, unless it may contain a password, as before the @ of an address. */
export function invalidValue(text: string, problem: string): Reading<never> {
  return { problem: `${text.includes('@') ? 'the value' : quote(text)} ${problem}` }
}

/** A whole number in decimal digits. */
export function integer(minimum: number, maximum: number): Reader<number> {
  const remedy = `write a number from ${minimum} to ${maximum}`
  return number(/^[+-]?\d{1,15}$/, 'an integer', minimum, maximum, remedy)
}

/** A duration in seconds, up to milliseconds. */
export function seconds(maximum: number, minimum = 0.001): Reader<number> {
  const remedy = `write a number of seconds from ${minimum} to ${maximum}`
  return number(/^[+-]?\d{1,9}(\.\d{1,3})?$/, 'a number', minimum, maximum, remedy)
}

function number(form: RegExp, what: string, least: number, most: number, remedy: string): Reader<number> {
  return (text) => {
    if (!form.test(text)) return invalidValue(text, `is not ${what}: ${remedy}`)
    const value = Number(text)
    return value < least || value > most ? invalidValue(text, `is out of range: ${remedy}`) : { value }
  }
}

/** Makes a setting optional: null if its text is empty. */
export function orNull<T>(read: Reader<T>): Reader<T | null> {
  return (text, context) => (text === '' ? { value: null } : read(text, context))
}

/**
 * `true`, `on`, `yes`, `1` or `false`, `off`, `no`, `0`, in any case. Anything else is a problem, because a typo must not enable writes.
 */
export const boolean = reader('is not a boolean: write true or false', (text) => {
  if (/^(true|on|yes|1)$/i.test(text)) return true
  return /^(false|off|no|0)$/i.test(text) ? false : null
})

/** One of several words. */
export function choice<T extends string>(...choices: T[]): Reader<T> {
  const problem = `is not a valid choice: use ${choices.join(' or ')}`
  return reader(problem, (text) => choices.find((word) => word === text) ?? null)
}

/** One line of text. */
export const text: Reader<string> = (given, context) =>
  given === '' ? { problem: 'is empty: write some text' } : prefix(given, context)

/** One line of text that may be empty. */
export const prefix: Reader<string> = (given) => {
  const isPlain = !/[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(given)
  return isPlain ? { value: given } : { problem: 'contains control characters: leave them out' }
}

/** The MAJOR.MINOR version of the exposed protocol, as text because 1.10 is not 1.1. */
export const apiVersion = reader('is not a version: write MAJOR.MINOR, such as 1.5', (text) =>
  /^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})$/.test(text) ? text : null,
)

const publishedSecrets = [
  '0123456789abcdef',
  'fedcba9876543210',
  'deadbeef',
  'b4c96a8692291d88fe5a97dd91846eb4',
]

/** 32 bytes as 64 hexadecimal characters. Rejects well-known values; never quotes the value. */
export const secretBytes: Reader<Uint8Array> = (given) => {
  const refuse = (problem: string) => {
    return { problem: `${problem}: write 64 hexadecimal characters; "sync-bridge init" generates a secret` }
  }
  if (given === '') return refuse('is empty')
  if (!/^[0-9a-fA-F]*$/.test(given)) return refuse('is not hexadecimal')
  if (given.length !== 64) return refuse(`has ${given.length} characters instead of 64`)
  const lower = given.toLowerCase()
  const published = publishedSecrets.some((sample) => sample.repeat(64 / sample.length) === lower)
  if (published || new Set(lower).size === 1) return refuse('is a well-known secret')
  return { value: Uint8Array.fromHex(lower) }
}

const certificatePattern = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** The certificates to trust, from the PEM file of that name. An empty bundle is a problem, because it would trust no server. */
export const caBundle: Reader<string> = (given, context) =>
  readCertificates(given, context, "remove the setting to trust the system's authorities")

/** Reads a PEM file whose certificates are all valid; `otherwise` is the alternative to naming one. */
export function readCertificates(
  given: string,
  { folder, readFile }: ReadingContext,
  otherwise: string,
): Reading<string> {
  const refuse = (problem: string) => {
    return { problem: `${problem}: name a PEM file with at least one certificate, or ${otherwise}` }
  }
  if (given === '') return refuse('is empty')
  const path = isAbsolute(given) ? given : join(folder ?? '', given)
  let pem: string
  try {
    pem = readFile(path)
  } catch (cause) {
    return refuse(`cannot read the file ${quote(path)} (${reasonOf(cause)})`)
  }
  const certificates = pem.match(certificatePattern) ?? []
  if (certificates.length === 0) return refuse(`the file ${quote(path)} contains no certificate`)
  for (const [index, certificate] of certificates.entries()) {
    try {
      void new X509Certificate(certificate)
    } catch {
      const which = `certificate ${index + 1} of ${certificates.length}`
      return refuse(`${which} in the file ${quote(path)} cannot be read`)
    }
  }
  return { value: pem }
}

const dateForm = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/

/**
 * Parses an ISO 8601 date, or date and time, in ms since 1970; null for any other text. Without a zone it is local time, and a space may
 * separate date and time. `required`: only with a zone and a T; a date alone is in UTC.
 */
export function parseDate(text: string, zone: 'optional' | 'required'): number | null {
  const [, day, time, givenZone] = dateForm.exec(text) ?? []
  if (day === undefined) return null
  if (zone === 'required' && time !== undefined && (givenZone === undefined || text.includes(' ')))
    return null
  const atMs = Date.parse(time === undefined && zone === 'optional' ? `${day}T00:00` : text)
  // February 30 would parse as a day in March.
  const isDay = Number.isFinite(atMs) && new Date(`${day}T00:00Z`).toISOString().startsWith(day)
  return isDay ? atMs : null
}

/** An ISO 8601 date (from 00:00 UTC), or date and time with a zone: as text, and in ms since 1970. */
export const isoDate = reader(
  'is not a date: write a date such as 2031-12-31, or a date and time with zone such as 2031-12-31T12:00:00Z',
  (text) => {
    const atMs = parseDate(text, 'required')
    return atMs === null ? null : { text, atMs }
  },
)

/** Quotes a value for a problem: on one line, truncated to a readable length. */
export function quote(given: string): string {
  return quoteText(given, 80)
}

/** Describes in a few words why a file can't be read, without its name. */
export function reasonOf(cause: unknown): string {
  const code = String((cause as { code?: unknown }).code ?? 'unknown reason')
  const reasons: Record<string, string> = {
    ENOENT: 'no such file',
    EACCES: 'permission denied',
    EISDIR: 'is a directory',
    EFBIG: 'too large',
    ENOSPC: 'no space left',
  }
  return reasons[code] ?? code
}

/** Canonical names of collections, separated by commas; null for `all`. */
export const collectionNames: Reader<Set<string> | null> = (given) => {
  if (given.toLowerCase() === 'all') return { value: null }
  const remedy = 'write all, or names such as crypto, tabs'
  const names = given.split(',').map((name) => name.trim())
  const canonical = names.map((name) => canonicalCollection(name))
  if (canonical.includes('all')) return { problem: `combines "all" with other names: ${remedy}` }
  const wrong = names.find((_, place) => canonical[place] === null)
  if (wrong !== undefined) return invalidValue(wrong, `is not a collection name: ${remedy}`)
  return { value: new Set(canonical as string[]) }
}
