interface Copied {
  /** Where the first line of another form begins. */
  readTo: number
  writtenTo: number
  /** The number of records. */
  count: number
}

/** Maximum size of the output for a size of input: a record has at least 49 bytes and grows by 5. */
export function maxOutputBytes(lineBytes: number): number {
  return lineBytes + (lineBytes >> 3) + 8
}

/**
 * Converts lines into exposed records, separated by commas, up to the first line that is not exactly as syncstorage-rs writes it:
 *
 *     {"id":"…","modified":1234567890.12,"payload":"…","sortindex":-5}
 *
 * `sortindex` may be absent. Every byte is checked, so the output is valid JSON if it is valid UTF-8.
 * A line must end at `to`, and `out` must have room for everything.
 */
export function copyCanonicalLines(
  bytes: Buffer,
  from: number,
  to: number,
  out: Buffer,
  outFrom: number,
): Copied {
  const lines = linesOf(bytes)
  let count = 0
  let readTo = from
  let copiedTo = from
  let writtenTo = outFrom
  while (readTo < to) {
    const idEnd = endOfId(lines, readTo)
    const lineEnd = idEnd === 0 ? 0 : endOfLine(lines, idEnd)
    if (lineEnd === 0) break
    // One copy spans from timestamp to timestamp; the line break in it becomes a comma.
    const commaAt = writtenTo + readTo - 1 - copiedTo
    writtenTo += bytes.copy(out, writtenTo, copiedTo, idEnd)
    if (count > 0) out[commaAt] = comma
    writtenTo = writeMilliseconds(bytes, idEnd + modified.length, out, writtenTo)
    copiedTo = idEnd + modified.length + secondsLength
    readTo = lineEnd
    count += 1
  }
  if (count > 0) writtenTo += bytes.copy(out, writtenTo, copiedTo, readTo - 1)
  return { readTo, writtenTo, count }
}

const opening = Buffer.from('{"id":"')
const modified = Buffer.from(',"modified":')
const lastModified = Buffer.from(',"last_modified":')
const payload = Buffer.from(',"payload":"')
const sortindex = Buffer.from(',"sortindex":')
const closing = Buffer.from('}\n')
const comma = 0x2c
const quote = 0x22
const backslash = 0x5c
const space = 0x20
const zero = 0x30
const minus = 0x2d
const dot = 0x2e

/** The bytes of lines, and the same memory as 32-bit words. */
interface Lines {
  bytes: Buffer
  words: Int32Array
  /** The position of the first word. */
  wordsAt: number
}

function linesOf(bytes: Buffer): Lines {
  const { buffer, byteOffset, length } = bytes
  const wordsAt = Math.min(-byteOffset & 3, length)
  return { bytes, words: new Int32Array(buffer, byteOffset + wordsAt, (length - wordsAt) >> 2), wordsAt }
}

/** Ten digits, a dot and two digits. */
const secondsLength = 13
const maxIntegerDigits = 12

/** The position after the id of a line; 0 if it has another form. An id is not empty. */
function endOfId(lines: Lines, at: number): number {
  const idAt = at + opening.length
  if (!continuesWith(lines.bytes, at, opening) || lines.bytes[idAt] === quote) return 0
  return endOfString(lines, idAt)
}

/** The position after a line, given the position after its id; 0 if it has another form. */
function endOfLine(lines: Lines, idEnd: number): number {
  const { bytes } = lines
  const secondsAt = idEnd + modified.length
  if (!continuesWith(bytes, idEnd, modified) || !isSeconds(bytes, secondsAt)) return 0
  const payloadAt = secondsAt + secondsLength
  if (!continuesWith(bytes, payloadAt, payload)) return 0
  const textAt = payloadAt + payload.length
  let end = endOfString(lines, textAt)
  if (end !== 0 && continuesWith(bytes, end, sortindex)) end = endOfInteger(bytes, end + sortindex.length)
  return end !== 0 && continuesWith(bytes, end, closing) ? end + closing.length : 0
}

function continuesWith(bytes: Buffer, at: number, part: Buffer): boolean {
  for (let index = 0; index < part.length; index += 1) {
    if (bytes[at + index] !== part[index]) return false
  }
  return true
}

/** The position after the closing quote of a string; 0 if it is malformed. */
function endOfString({ bytes, words, wordsAt }: Lines, from: number): number {
  let at = from
  for (;;) {
    const byte = bytes[at]!
    if (byte === quote) return at + 1
    if (!(byte >= space)) return 0
    const length = byte === backslash ? escapeLength(bytes, at) : 1
    if (length === 0) return 0
    at += length
    if (((at - wordsAt) & 3) === 0) at = wordsAt + 4 * firstMarked(words, (at - wordsAt) >> 2)
  }
}

/** The index of the next word that may contain a quote, a backslash or a control character. */
function firstMarked(words: Int32Array, from: number): number {
  let index = from
  while (index < words.length && !isMarked(words[index]!)) index += 1
  return index
}

/**
 * Whether a word may contain a byte below 0x23 or a backslash (XORed to 0): the subtraction sets its highest bit. False positives are
 * possible, so callers check each byte.
 */
function isMarked(word: number): boolean {
  return (((word - 0x23232323) | ((word ^ 0x5c5c5c5c) - 0x01010101)) & 0x80808080) !== 0
}

/** The length of the escape at a backslash; 0 if invalid. */
function escapeLength(bytes: Buffer, at: number): number {
  switch (bytes[at + 1]) {
    case quote:
    case backslash:
    case 0x2f: // '/'
    case 0x62: // 'b'
    case 0x66: // 'f'
    case 0x6e: // 'n'
    case 0x72: // 'r'
    case 0x74: // 't'
      return 2
    case 0x75: // 'u'
      for (let index = 2; index < 6; index += 1) if (!isHexDigit(bytes[at + index]!)) return 0
      return 6
    default:
      return 0
  }
}

/** Whether there are ten digits without a leading zero, a dot and two digits. */
function isSeconds(bytes: Buffer, at: number): boolean {
  if (bytes[at] === zero || bytes[at + 10] !== dot) return false
  for (let index = 0; index < 10; index += 1) if (!isDigit(bytes[at + index]!)) return false
  return isDigit(bytes[at + 11]!) && isDigit(bytes[at + 12]!)
}

/** Writes the field name and the seconds as milliseconds; returns the position after them. */
function writeMilliseconds(bytes: Buffer, at: number, out: Buffer, outAt: number): number {
  let end = outAt
  for (let index = 0; index < lastModified.length; index += 1) out[end++] = lastModified[index]!
  for (let index = 0; index < secondsLength; index += 1) if (index !== 10) out[end++] = bytes[at + index]!
  out[end++] = zero
  return end
}

/** The position after a JSON integer of at most twelve digits; 0 if invalid. */
function endOfInteger(bytes: Buffer, from: number): number {
  const isNegative = bytes[from] === minus
  const digitsAt = isNegative ? from + 1 : from
  let end = digitsAt
  while (isDigit(bytes[end]!)) end += 1
  const count = end - digitsAt
  const hasLeadingZero = bytes[digitsAt] === zero && (count > 1 || isNegative)
  return count === 0 || count > maxIntegerDigits || hasLeadingZero ? 0 : end
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= 0x39
}

function isHexDigit(byte: number): boolean {
  const lower = byte | 0x20
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66)
}
