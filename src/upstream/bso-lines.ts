interface Rewritten {
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
 * Converts lines into exposed records, separated by commas, up to the first line that is not of the form that storages send:
 *
 *     {"id":"…","modified":1234567890.12,"payload":"…","sortindex":-5}
 *
 * `sortindex` may be absent. `,"` can't occur inside a JSON string, where quotes are escaped, so the end of a payload is found without
 * reading it. Both ends of a line are checked here; the caller has checked the characters with `arePlainLines`. A line must end at `to`,
 * and `out` must have room for everything.
 */
export function rewriteLines(
  bytes: Buffer,
  from: number,
  to: number,
  out: Buffer,
  outFrom: number,
): Rewritten {
  let count = 0
  let readTo = from
  let copiedTo = from
  let writtenTo = outFrom
  while (readTo < to && continuesWith(bytes, readTo, opening)) {
    const idEnd = endOfId(bytes, readTo + opening.length)
    const end = idEnd === 0 ? 0 : endOfRecord(bytes, idEnd)
    if (end === 0) break
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
const zero = 0x30
const minus = 0x2d
const dot = 0x2e

/** Ten digits, a dot and two digits. */
const secondsLength = 13
const maxIntegerDigits = 12

/** The position of the quote after the id of a line; 0 if the line has another form. An id is not empty. */
function endOfId(bytes: Buffer, idAt: number): number {
  let end = idAt
  while (bytes[end] !== quote && bytes[end] !== backslash && bytes[end] !== lineBreak) end += 1
  return end > idAt && continuesWith(bytes, end, modified) ? end : 0
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
