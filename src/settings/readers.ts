import { X509Certificate } from 'node:crypto'
import { isAbsolute, join } from 'node:path'

import { quoteText } from '../observability/log.ts'

/** What a setting's text means, or what is wrong with it and how to write it instead. */
export type Reading<T> = { value: T } | { problem: string; remedy: string }

/** What reading a setting may need beside its text. */
export interface ReadingContext {
  /** Folder of the settings file: relative file names start there. Null: in the current directory. */
  folder: string | null
  /** The text of a file; throws when there is none. */
  readFile(path: string): string
}

/** Turns the text of a setting, trimmed, into its value. Strict: nothing is guessed, nothing rounded. */
export type Reader<T> = (text: string, context: ReadingContext) => Reading<T>

/** Reads a text by a function that answers null where it can't. `problem` says what the text is instead: `is not a date`. */
export function reader<T>(problem: string, remedy: string, read: (text: string) => T | null): Reader<T> {
  return (text) => {
    const value = read(text)
    return value === null ? misfit(text, problem, remedy) : { value }
  }
}

/** A problem that quotes the text, unless that may hold a password, as the part of an address before an @ does. */
export function misfit(text: string, problem: string, remedy: string): Reading<never> {
  return { problem: `${text.includes('@') ? 'the value' : quote(text)} ${problem}`, remedy }
}

/** A whole number in decimal digits. */
export function integer(minimum: number, maximum: number): Reader<number> {
  const remedy = `write a number from ${minimum} to ${maximum}`
  return number(/^[+-]?\d{1,15}$/, 'is not an integer', minimum, maximum, remedy)
}

/** A whole number of seconds where 0 means the same as leaving the setting out. */
export function secondsOrNone(maximum: number): Reader<number | null> {
  const read = integer(0, maximum)
  return (text, context) => {
    const reading = read(text, context)
    return 'value' in reading ? { value: reading.value || null } : reading
  }
}

/** A time span in seconds, above zero unless zero is allowed; a fraction may be given to the millisecond. */
export function seconds(maximum: number, least: 'above 0' | 'from 0' = 'above 0'): Reader<number> {
  const remedy = `write a number of seconds ${least}${least === 'above 0' ? ' and up' : ''} to ${maximum}`
  const minimum = least === 'above 0' ? 0.001 : 0
  return number(/^[+-]?\d{1,9}(\.\d{1,3})?$/, 'is not a number', minimum, maximum, remedy)
}

function number(
  form: RegExp,
  problem: string,
  minimum: number,
  maximum: number,
  remedy: string,
): Reader<number> {
  return (text) => {
    if (!form.test(text)) return misfit(text, problem, remedy)
    const value = Number(text)
    return value < minimum || value > maximum ? misfit(text, 'is out of range', remedy) : { value }
  }
}

/** Another reader's value, or none where the text is empty. */
export function orNone<T>(read: Reader<T>): Reader<T | null> {
  return (text, context) => (text === '' ? { value: null } : read(text, context))
}

const booleans = new Map([
  ...['true', 'on', 'yes', '1'].map((word) => [word, true] as const),
  ...['false', 'off', 'no', '0'].map((word) => [word, false] as const),
])

/** `true`, `on`, `yes`, `1` or `false`, `off`, `no`, `0`, in any case. Anything else is a problem: a typo must not allow writes. */
export const boolean = reader(
  'is neither true nor false',
  'write true or false',
  (text) => booleans.get(text.toLowerCase()) ?? null,
)

/** One of a few words. */
export function choice<T extends string>(...choices: T[]): Reader<T> {
  const remedy = `write ${choices.join(' or ')}`
  return reader('is none of the choices', remedy, (text) => choices.find((word) => word === text) ?? null)
}

/** One line of text. */
export const text: Reader<string> = (given, context) => {
  if (given === '') return { problem: 'is empty', remedy: 'write a text' }
  return prefix(given, context)
}

/** One line of text that may be empty. */
export const prefix: Reader<string> = (given) => {
  if (/[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(given)) {
    return { problem: 'contains control characters', remedy: 'leave them out' }
  }
  return { value: given }
}

/** The MAJOR.MINOR of the exposed protocol, kept as text: 1.10 is not 1.1. */
export const apiVersion = reader('is not a version', 'write MAJOR.MINOR, such as 1.5', (text) =>
  /^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})$/.test(text) ? text : null,
)

const publishedSecrets = [
  '0123456789abcdef',
  'fedcba9876543210',
  'deadbeef',
  'b4c96a8692291d88fe5a97dd91846eb4',
]

/** 32 bytes as 64 hexadecimal characters. Refuses values that are obviously not random; never quotes the value. */
export const secretBytes: Reader<Uint8Array> = (given) => {
  const remedy = 'write 64 hexadecimal characters; "sync-bridge init" makes a fresh secret'
  if (given === '') return { problem: 'is empty', remedy }
  if (!/^[0-9a-fA-F]*$/.test(given)) return { problem: 'is not hexadecimal', remedy }
  if (given.length !== 64) return { problem: `has ${given.length} characters instead of 64`, remedy }
  const lower = given.toLowerCase()
  const published = publishedSecrets.some((sample) => sample.repeat(64 / sample.length) === lower)
  if (published || new Set(lower).size === 1) return { problem: 'is a well-known secret', remedy }
  return { value: Uint8Array.fromHex(lower) }
}

/** A PEM file that was read and whose certificates were all understood. */
interface CaBundle {
  path: string
  pem: string
}

const certificateForm = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** The name of a PEM file with the certificates to trust. An empty bundle would trust no server, so it is a problem. */
export const caBundle: Reader<CaBundle> = (given, { folder, readFile }) => {
  const remedy =
    'name a PEM file with at least one certificate, or remove the setting to trust the usual authorities'
  if (given === '') return { problem: 'is empty', remedy }
  const path = isAbsolute(given) ? given : join(folder ?? '', given)
  let pem: string
  try {
    pem = readFile(path)
  } catch (cause) {
    return { problem: `cannot read the file ${quote(path)} (${reasonOf(cause)})`, remedy }
  }
  const certificates = pem.match(certificateForm) ?? []
  if (certificates.length === 0) return { problem: `the file ${quote(path)} contains no certificate`, remedy }
  const unreadable = certificates.findIndex((certificate) => !isCertificate(certificate))
  if (unreadable === -1) return { value: { path, pem } }
  const which = `certificate ${unreadable + 1} of ${certificates.length} in the file ${quote(path)}`
  return { problem: `${which} cannot be read`, remedy }
}

const dateForm = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/

/** An ISO 8601 date, which begins at 00:00 UTC, or date and time with its zone: as it was written, and in ms since 1970. */
export const isoDate = reader(
  'is not a date',
  'write a day such as 2031-12-31, or a moment with its zone such as 2031-12-31T12:00:00Z',
  (text) => {
    const day = dateForm.exec(text)?.[1]
    const atMs = day === undefined ? Number.NaN : Date.parse(text)
    // The 30th of February parses as a day in March.
    const isDay = Number.isFinite(atMs) && new Date(`${day}T00:00Z`).toISOString().startsWith(day!)
    return isDay ? { text, atMs } : null
  },
)

/** Shows a value in a problem: on one line, and cut to a readable length. */
export function quote(given: string): string {
  return quoteText(given, 80)
}

/** Why a file can't be read, in a few words without its name. */
export function reasonOf(cause: unknown): string {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const reasons: Record<string, string> = {
    ENOENT: 'there is no such file',
    EACCES: 'permission denied',
    EISDIR: 'it is a directory',
    EFBIG: 'it is too large',
  }
  return reasons[code] ?? (code || 'unknown reason')
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}
