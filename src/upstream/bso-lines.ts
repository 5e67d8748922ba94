interface Cut {
  /** Where the first line of another form begins. */
  readTo: number
  writtenTo: number
  /** The number of records. */
  count: number
}

/** A chunk of lines, and what is known of all its bytes. */
export interface Chunk {
  bytes: Buffer
  /** The bytes as 32-bit words; the first begins at `wordsAt`. */
  words: Int32Array
  wordsAt: number
  /** The first space that is not before the lines read so far; the chunk's length if there is none. */
  spaceAt: number
}

export function toChunk(bytes: Buffer): Chunk {
  const { buffer, byteOffset, length } = bytes
  const wordsAt = Math.min(-byteOffset & 3, length)
  const words = new Int32Array(buffer, byteOffset + wordsAt, (length - wordsAt) >> 2)
  return { bytes, words, wordsAt, spaceAt: indexOfSpace(bytes, 0) }
}

/** Maximum size of the output for a size of input: a record has at least 49 bytes and grows by 5. */
export function maxOutputBytes(lineBytes: number): number {
  return lineBytes + (lineBytes >> 3) + 8
}

/**
 * Converts lines into exposed records, separated by commas, up to the first line that is not of the form that storages send:
 *
 *     {"id":"…","modified":1234567890.12,"payload":"…","sortindex":-5}
 *
 * `sortindex` may be absent, and encrypted records have no spaces. Neither `","modified":` nor `,"` can occur inside a JSON string, where
 * quotes are escaped, so both are found without reading the payload. Both ends of a line and control characters are checked; the caller
 * has checked that it is UTF-8. A line must end at `to`, and `out` must have room for everything.
 */
export function cutLines(chunk: Chunk, from: number, to: number, out: Buffer, outFrom: number): Cut {
  const { bytes } = chunk
  let count = 0
  let readTo = from
  let copiedTo = from
  let writtenTo = outFrom
  while (readTo < to && continuesWith(bytes, readTo, opening)) {
    const idEnd = endOfId(bytes, readTo + opening.length)
    const end = idEnd === 0 ? 0 : endOfRecord(bytes, idEnd)
    if (end === 0 || hasSpace(chunk, readTo, end) || hasControls(chunk, readTo, end)) break
    // One copy spans from timestamp to timestamp; the line break in it becomes a comma.
    const commaAt = writtenTo + readTo - 1 - copiedTo
    writtenTo += bytes.copy(out, writtenTo, copiedTo, idEnd)
    if (count > 0) out[commaAt] = comma
    const secondsAt = idEnd + modified.length
    writtenTo = writeMilliseconds(bytes, secondsAt, out, writtenTo)
    copiedTo = secondsAt + secondsLength
    readTo = end + 1
    count += 1
  }
  if (count > 0) writtenTo += bytes.copy(out, writtenTo, copiedTo, readTo - 1)
  return { readTo, writtenTo, count }
}

const opening = Buffer.from('{"id":"')
const modified = Buffer.from('","modified":')
const lastModified = Buffer.from('","last_modified":')
const payload = Buffer.from(',"payload":"')
const nextField = Buffer.from(',"')
const sortindex = Buffer.from(',"sortindex":')
const lineBreak = 0x0a
const comma = 0x2c
const quote = 0x22
const backslash = 0x5c
const closingBrace = 0x7d
const space = 0x20
const zero = 0x30
const minus = 0x2d
const dot = 0x2e

/** Ten digits, a dot and two digits. */
const secondsLength = 13
const maxIntegerDigits = 12

/** The position of the quote after the id of a line; 0 if the line has another form. An id is not empty. */
function endOfId(bytes: Buffer, idAt: number): number {
  const end = bytes.indexOf(modified, idAt)
  if (end <= idAt) return 0
  for (let at = idAt; at < end; at += 1) if (bytes[at] === quote || bytes[at] === backslash) return 0
  return end
}

/** The position of the line break after a record, given the end of its id; 0 if it has another form. */
function endOfRecord(bytes: Buffer, idEnd: number): number {
  const secondsAt = idEnd + modified.length
  const payloadAt = secondsAt + secondsLength
  if (!isSeconds(bytes, secondsAt) || !continuesWith(bytes, payloadAt, payload)) return 0
  const textAt = payloadAt + payload.length
  const fieldAt = bytes.indexOf(nextField, textAt)
  const isSorted = fieldAt !== -1 && continuesWith(bytes, fieldAt, sortindex)
  const closingAt = isSorted
    ? endOfInteger(bytes, fieldAt + sortindex.length)
    : bytes.indexOf(lineBreak, textAt) - 1
  const textEnd = (isSorted ? fieldAt : closingAt) - 1
  // Another field before the line break.
  if (!isSorted && fieldAt !== -1 && fieldAt < closingAt) return 0
  if (bytes[closingAt] !== closingBrace || bytes[closingAt + 1] !== lineBreak) return 0
  const isClosed = textEnd >= textAt && bytes[textEnd] === quote && bytes[textEnd - 1] !== backslash
  return isClosed ? closingAt + 1 : 0
}

/** Whether a range has a space, which is in no usual line, but around a further field that `,"` does not find. */
function hasSpace(chunk: Chunk, from: number, to: number): boolean {
  if (chunk.spaceAt < from) chunk.spaceAt = indexOfSpace(chunk.bytes, from)
  return chunk.spaceAt < to
}

function indexOfSpace(bytes: Buffer, from: number): number {
  const at = bytes.indexOf(space, from)
  return at === -1 ? bytes.length : at
}

/** Whether a range may have a byte below 0x20. It reads words, and also finds 0x80 to 0x9f, which some non-ASCII characters contain. */
function hasControls({ bytes, words, wordsAt }: Chunk, from: number, to: number): boolean {
  const last = (to - wordsAt) >> 2
  let index = (from - wordsAt + 3) >> 2
  let bits = ~0
  for (; index + 7 < last; index += 8) {
    bits &= seventh(words[index]!) & seventh(words[index + 1]!) & seventh(words[index + 2]!)
    bits &= seventh(words[index + 3]!) & seventh(words[index + 4]!) & seventh(words[index + 5]!)
    bits &= seventh(words[index + 6]!) & seventh(words[index + 7]!)
  }
  for (; index < last; index += 1) bits &= seventh(words[index]!)
  for (let at = wordsAt + 4 * index; at < to; at += 1) if (bytes[at]! < space) return true
  return (bits & seventhBits) !== seventhBits
}

/** Sets the seventh bit of each byte from 0x20 to 0x7f: these have their sixth or seventh bit. */
function seventh(word: number): number {
  return word | (word << 1)
}

const seventhBits = 0x40404040

function continuesWith(bytes: Buffer, at: number, part: Buffer): boolean {
  for (let index = 0; index < part.length; index += 1) {
    if (bytes[at + index] !== part[index]) return false
  }
  return true
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
