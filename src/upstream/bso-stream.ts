import { isUtf8 } from 'node:buffer'
import { UpstreamError } from '../domain/errors.ts'
import { listClosing, listOpening } from '../domain/list.ts'
import { toExposedJson } from '../domain/record.ts'
import { readBso } from './bso.ts'

interface BsoRewriterOptions {
  /** Only records with these ids. Without it all, which is much faster because no line is parsed. */
  keep?(id: string): boolean
  /** The number of records to leave out at the beginning, of those that would be kept. */
  skip?: number
}

const maxLineBytes = 16 * 1024 * 1024

const newline = 10
const quote = 34
const comma = 44
const dot = 46
const zero = 48
const braceOpen = 123
const braceClose = 125

const exposedToken = Buffer.from('"last_modified":')

/**
 * Turns the bytes of storage lists (`application/newlines`: one Basic Storage Object per line) into the bytes of
 * the exposed list: the elements of a JSON array without brackets, `modified` in decimal seconds become
 * `last_modified` in integer milliseconds. Takes the pieces as they come, lines may break off anywhere.
 *
 * A line of the usual form, which is recognised from its first byte to its last, is copied around its timestamp; any other
 * line is parsed and printed. Throws `UpstreamError` for a line that is no record.
 */
export class BsoRewriter {
  /** Records read so far. */
  recordCount = 0
  /** Records written so far. */
  keptCount = 0
  /** Whether records may be left out. */
  readonly isSelective: boolean

  readonly #keep: ((id: string) => boolean) | null
  #skip: number

  /** The beginning of a line whose end has not arrived. */
  #carry = Buffer.alloc(0)
  #carryLength = 0

  #out = Buffer.alloc(0)
  #outLength = 0

  constructor({ keep, skip = 0 }: BsoRewriterOptions = {}) {
    this.#keep = keep ?? null
    this.#skip = skip
    this.isSelective = keep !== undefined || skip > 0
  }

  /** What the next piece adds to the list; often nothing. */
  push(piece: Uint8Array): Uint8Array {
    const chunk = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    this.#begin(this.#carryLength + chunk.length)
    let start = 0
    if (this.#carryLength > 0) {
      start = chunk.indexOf(newline) + 1
      this.#hold(chunk, 0, start === 0 ? chunk.length : start)
      if (start === 0) return this.#taken()
      this.#writeLines(this.#carry.subarray(0, this.#carryLength), 0)
      this.#carryLength = 0
    }
    const end = this.#writeLines(chunk, start)
    this.#hold(chunk, end, chunk.length)
    return this.#taken()
  }

  /** Ends one storage list; a last line without a line break counts if it is whole. */
  end(): Uint8Array {
    this.#begin(this.#carryLength)
    requireUtf8(this.#carry.subarray(0, this.#carryLength))
    this.#writeParsed(this.#carry, 0, this.#carryLength)
    this.#carryLength = 0
    return this.#taken()
  }

  /** The JSON document of a list that has come in one piece. */
  pushWhole(piece: Uint8Array): Uint8Array {
    const chunk = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    this.#begin(listOpening.length + chunk.length + listClosing.length)
    this.#write(listOpening)
    const end = this.#writeLines(chunk, 0)
    requireUtf8(chunk.subarray(end))
    this.#writeParsed(chunk, end, chunk.length)
    this.#write(listClosing)
    return this.#taken()
  }

  /** Writes all lines that end in the chunk; returns where the last, unfinished one begins. */
  #writeLines(chunk: Buffer, from: number): number {
    const end = chunk.lastIndexOf(newline) + 1
    if (end <= from) return from
    requireUtf8(chunk.subarray(from, end))
    const lines = new UsualLines(chunk, end)
    let lineStart = from
    // Usual lines that follow one another are copied with what lies between their timestamps in one go.
    let copied = -1
    while (lineStart < end) {
      const isUsual = this.#keep === null && this.#skip === 0 && lines.read(lineStart)
      const lineEnd = isUsual ? lines.end : chunk.indexOf(newline, lineStart)
      if (isUsual) {
        copied = this.#splice(chunk, copied, lineStart, lines.timestampAt)
      } else {
        if (copied !== -1) this.#copy(chunk, copied, lineStart - 1)
        copied = -1
        this.#writeParsed(chunk, lineStart, lineEnd)
      }
      lineStart = lineEnd + 1
    }
    if (copied !== -1) this.#copy(chunk, copied, end - 1)
    return end
  }

  /**
   * Writes what is left of the usual line before, when there is one (`copied` is not -1), and this one up to its
   * timestamp, this included. Returns up to where.
   */
  #splice(chunk: Buffer, copied: number, lineStart: number, timestampAt: number): number {
    const start = copied === -1 ? lineStart : copied
    this.#reserve(timestampAt - start + maxInsertedBytes)
    const out = this.#out
    let length = this.#outLength
    if (copied === -1 && this.keptCount > 0) out[length++] = comma
    chunk.copy(out, length, start, timestampAt)
    // The comma takes the place of the line break.
    if (copied !== -1) out[length + lineStart - 1 - copied] = comma
    length += timestampAt - start
    for (let at = 0; at < exposedToken.length; at += 1) out[length++] = exposedToken[at]!
    const secondsEnd = timestampAt + usualTimestampBytes
    for (let at = timestampAt + tokenBytes; at < secondsEnd; at += 1) {
      const code = chunk[at]!
      if (code !== dot) out[length++] = code
    }
    out[length++] = zero
    this.#outLength = length
    this.recordCount += 1
    this.keptCount += 1
    return secondsEnd
  }

  #copy(chunk: Buffer, start: number, end: number): void {
    this.#reserve(end - start)
    this.#outLength += chunk.copy(this.#out, this.#outLength, start, end)
  }

  #writeParsed(chunk: Buffer, lineStart: number, lineEnd: number): void {
    const line = chunk.toString('utf8', lineStart, lineEnd)
    if (line.trim() === '') return
    const record = readBso(parse(line))
    if (!record)
      throw new UpstreamError('bad-response', 'Cannot read a list of the storage: a line is no record')
    this.recordCount += 1
    if (this.#keep && !this.#keep(record.id)) return
    if (this.#skip > 0) {
      this.#skip -= 1
      return
    }
    const text = (this.keptCount > 0 ? ',' : '') + toExposedJson(record)
    this.#reserve(text.length * 3)
    this.#outLength += this.#out.write(text, this.#outLength)
    this.keptCount += 1
  }

  #write(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#out.set(bytes, this.#outLength)
    this.#outLength += bytes.length
  }

  #hold(chunk: Buffer, start: number, end: number): void {
    const length = this.#carryLength + end - start
    if (length > maxLineBytes)
      throw new UpstreamError('bad-response', 'Cannot read a list of the storage: endless line')
    if (length > this.#carry.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(4096, length * 2))
      this.#carry.copy(grown, 0, 0, this.#carryLength)
      this.#carry = grown
    }
    chunk.copy(this.#carry, this.#carryLength, start, end)
    this.#carryLength = length
  }

  /** Each piece gets a buffer of its own: it is handed out, and the next piece must not overwrite it. */
  #begin(pieceLength: number): void {
    this.#out = Buffer.allocUnsafeSlow(pieceLength + (pieceLength >> 6) + 64)
    this.#outLength = 0
  }

  #reserve(length: number): void {
    const needed = this.#outLength + length + 1
    if (needed <= this.#out.length) return
    const grown = Buffer.allocUnsafeSlow(needed + (this.#out.length >> 1))
    this.#out.copy(grown, 0, 0, this.#outLength)
    this.#out = grown
  }

  #taken(): Uint8Array {
    return this.#out.subarray(0, this.#outLength)
  }
}

/** Line breaks stand between records; JSON escapes all other control characters. */
// oxlint-disable-next-line no-control-regex
const controlCharacter = /[\x00-\x09\x0b-\x1f]/
const usualHead = /\{"id":"[^"\\]+","modified":[1-9]\d{9}\.\d\d,"payload":"/y
const usualTail = /(?:,"sortindex":(?:0|-?[1-9]\d{0,11}))?\}\n/y
const escapeForm = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

const tokenBytes = '"modified":'.length
const usualTimestampBytes = '"modified":1234567890.12'.length
const headAfterTimestamp = ',"payload":"'.length
const maxInsertedBytes = 64

/**
 * Reads lines of the form in which syncstorage-rs writes records: `id`, `modified`, `payload` and perhaps `sortindex`, without
 * blanks. Such a line is valid JSON and may be copied as it is. Each of its bytes is looked at, but long runs only by
 * searches of the engine, so a long payload costs hardly more than a short one.
 */
class UsualLines {
  /** Of the line that was read: the position of its line break, and that of `"modified":`. */
  end = 0
  timestampAt = 0
  /** One character for each byte: in UTF-8 the bytes of JSON's marks have no other meaning. */
  readonly #text: string
  readonly #isPlain: boolean
  /** Lines are read in their order, so the text is searched for backslashes only once. */
  #escapeAt = -1

  constructor(chunk: Buffer, end: number) {
    this.#text = chunk.toString('latin1', 0, end)
    this.#isPlain = !controlCharacter.test(this.#text)
  }

  /** Whether the line that begins there has the usual form. */
  read(lineStart: number): boolean {
    if (!this.#isPlain) return false
    usualHead.lastIndex = lineStart
    if (!usualHead.test(this.#text)) return false
    const payloadStart = usualHead.lastIndex
    const payloadEnd = this.#endOfEncrypted(payloadStart)
    if (payloadEnd === -1) return false
    usualTail.lastIndex = payloadEnd
    if (!usualTail.test(this.#text)) return false
    this.end = usualTail.lastIndex - 1
    // The match may hold a line break inside a string, which is no valid JSON.
    if (this.#text.indexOf('\n', lineStart) !== this.end) return false
    this.timestampAt = payloadStart - headAfterTimestamp - usualTimestampBytes
    return true
  }

  /** Where a payload ends, behind its quote; fast for the payloads that Firefox encrypts. */
  #endOfEncrypted(from: number): number {
    const text = this.#text
    let at = from
    let before = braceOpen
    while (text.charCodeAt(at) === before) {
      at += 1
      if (text.startsWith('\\"ciphertext\\":\\"', at)) at += 17
      else if (text.startsWith('\\"IV\\":\\"', at)) at += 9
      else if (text.startsWith('\\"hmac\\":\\"', at)) at += 11
      else break
      const quoteAt = text.indexOf('"', at)
      if (text.indexOf('\\', at) !== quoteAt - 1) break
      at = quoteAt + 1
      if (text.charCodeAt(at) === braceClose && text.charCodeAt(at + 1) === quote) return at + 2
      before = comma
    }
    return this.#endOfString(from)
  }

  /** Where a string ends, behind its quote; -1 when it does not end, or has an invalid escape. */
  #endOfString(from: number): number {
    const text = this.#text
    let escapeAt = this.#escapeAt
    if (escapeAt < from) escapeAt = nextEscape(text, from)
    let quoteAt = text.indexOf('"', from)
    while (escapeAt < quoteAt) {
      let at = escapeAt + 2
      if (text.charCodeAt(escapeAt + 1) !== quote) {
        escapeForm.lastIndex = escapeAt
        if (!escapeForm.test(text)) return -1
        at = escapeForm.lastIndex
      }
      escapeAt = nextEscape(text, at)
      if (quoteAt < at) quoteAt = text.indexOf('"', at)
    }
    this.#escapeAt = escapeAt
    return quoteAt === -1 ? -1 : quoteAt + 1
  }
}

/** The position of the next backslash; behind the text when there is none. */
function nextEscape(text: string, from: number): number {
  const at = text.indexOf('\\', from)
  return at === -1 ? text.length : at
}

function requireUtf8(bytes: Uint8Array): void {
  if (isUtf8(bytes)) return
  throw new UpstreamError('bad-response', 'Cannot read a list of the storage: no UTF-8')
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
