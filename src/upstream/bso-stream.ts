import { isUtf8 } from 'node:buffer'
import { UpstreamError } from '../domain/errors.ts'
import { listClosing, listOpening } from '../domain/list.ts'
import { toExposedJson } from '../domain/record.ts'
import { readBso } from './bso.ts'

interface BsoRewriterOptions {
  /** Only records with these ids; without it all, which is much faster because no line has to be parsed. */
  keep?(id: string): boolean
  /** So many of the records that would be kept are left out at the beginning. */
  skip?: number
}

const maxLineBytes = 16 * 1024 * 1024

const newline = 10
const comma = 44
const dot = 46
const braceOpen = 123
const braceClose = 125

const shortBytes = 128

const token = Buffer.from('"modified":')
const exposedToken = Buffer.from('"last_modified":')

/**
 * Turns the bytes of storage lists (`application/newlines`: one Basic Storage Object per line) into the bytes of
 * the exposed list: the elements of a JSON array without brackets, `modified` in decimal seconds become
 * `last_modified` in integer milliseconds. Takes the pieces as they come, lines may break off anywhere.
 *
 * A line of the usual form is copied around its token `"modified":`, after a look at its quotes; any other line is
 * parsed and printed. Inside a JSON string the token can't occur, because quotes are escaped there.
 * Throws `UpstreamError` for a line that is no record.
 */
export class BsoRewriter {
  /** Records read so far. */
  recordCount = 0
  /** Those that were written. */
  keptCount = 0
  /** Whether some may be left out. */
  readonly isSelective: boolean

  readonly #keep: ((id: string) => boolean) | null
  #skip: number

  /** The beginning of a line whose end has not come yet. */
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

  /** The end of one storage list; a last line without its line break counts if it is whole. */
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
    const lines = this.#keep === null ? new UsualRecords(chunk, end) : null
    let lineStart = from
    let tokenAt = chunk.indexOf(token, from)
    for (;;) {
      const lineEnd = chunk.indexOf(newline, lineStart)
      if (lineEnd === -1) return lineStart
      if (tokenAt !== -1 && tokenAt < lineStart) tokenAt = chunk.indexOf(token, lineStart)
      const nextTokenAt =
        tokenAt === -1 || tokenAt > lineEnd ? tokenAt : chunk.indexOf(token, tokenAt + token.length)
      const isOnce = tokenAt !== -1 && tokenAt < lineEnd && (nextTokenAt === -1 || nextTokenAt > lineEnd)
      const decimalsEnd = isOnce && lines?.includes(lineStart, lineEnd) ? findDecimalsEnd(chunk, tokenAt) : -1
      if (decimalsEnd === -1 || this.#skip > 0) this.#writeParsed(chunk, lineStart, lineEnd)
      else this.#splice(chunk, lineStart, tokenAt, decimalsEnd, lineEnd)
      lineStart = lineEnd + 1
      tokenAt = nextTokenAt
    }
  }

  /** Copies a line around its timestamp. */
  #splice(chunk: Buffer, lineStart: number, tokenAt: number, decimalsEnd: number, lineEnd: number): void {
    this.#reserve(lineEnd - lineStart + exposedToken.length)
    const out = this.#out
    let length = this.#outLength
    if (this.keptCount > 0) out[length++] = comma
    // A call costs as much as a hundred bytes that are copied here.
    if (tokenAt - lineStart > shortBytes) length += chunk.copy(out, length, lineStart, tokenAt)
    else for (let at = lineStart; at < tokenAt; at += 1) out[length++] = chunk[at]!
    for (let at = 0; at < exposedToken.length; at += 1) out[length++] = exposedToken[at]!
    // 0.01 is 10 and not 0010, which is no JSON.
    const numberStart = length
    for (let at = tokenAt + token.length; at < decimalsEnd; at += 1) {
      const code = chunk[at]!
      if (code !== dot && (code !== zero || length > numberStart)) out[length++] = code
    }
    out[length++] = zero
    length += chunk.copy(out, length, decimalsEnd, lineEnd)
    this.#outLength = length
    this.recordCount += 1
    this.keptCount += 1
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

  /** A buffer of its own for each piece: it is handed out, and the next piece must not write into it. */
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

/** Line breaks stand between records; all other control characters have to be escaped in JSON. */
// oxlint-disable-next-line no-control-regex
const controlCharacter = /[\x00-\x09\x0b-\x1f]/
const escapeForm = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
const numberForm = /-?(?:0|[1-9]\d{0,11})(?:\.\d{1,3})?/y
const quote = 34
const letters = { i: 105, m: 109, p: 112, s: 115 } as const

/**
 * Tells which lines are JSON records of the usual form: objects of the known fields, each once, with values of their
 * types. Such a line may be copied as it is; any other has to be parsed. Only quotes and backslashes are looked at, so a
 * long payload costs hardly more than a short one.
 */
class UsualRecords {
  /** One character for each byte, because in UTF-8 the marks of JSON stand for themselves alone. */
  readonly #text: string
  readonly #isPlain: boolean
  /** Lines are looked at in their order, so the text is searched for backslashes only once. */
  #escapeAt: number

  constructor(chunk: Buffer, end: number) {
    this.#text = chunk.toString('latin1', 0, end)
    this.#isPlain = !controlCharacter.test(this.#text)
    this.#escapeAt = nextEscape(this.#text, 0)
  }

  includes(lineStart: number, lineEnd: number): boolean {
    const text = this.#text
    if (!this.#isPlain || text.charCodeAt(lineStart) !== braceOpen) return false
    let at = lineStart + 1
    let seen = 0
    for (;;) {
      const start = at
      let field = 0
      // One comparison for each field: the letter tells which of the names it could be.
      switch (text.charCodeAt(start + 1)) {
        case letters.p:
          field = 1
          if (text.startsWith('"payload":"', start)) at = this.#endOfString(start + 11)
          break
        case letters.i:
          field = 2
          if (text.startsWith('"id":"', start)) at = this.#endOfString(start + 6)
          break
        case letters.m:
          field = 4
          if (text.startsWith('"modified":', start)) at = endOfNumber(text, start + 11)
          break
        case letters.s:
          field = 8
          if (text.startsWith('"sortindex":', start)) at = endOfNumber(text, start + 12)
      }
      if (at === start) return false
      if (at === -1 || at >= lineEnd || (seen & field) !== 0) return false
      seen |= field
      const mark = text.charCodeAt(at)
      at += 1
      if (mark === braceClose) return at === lineEnd && (seen & 7) === 7
      if (mark !== comma) return false
    }
  }

  /** Where a string ends, behind its quote; -1 when it does not, or an escape in it makes no sense. */
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

/** Where the next backslash stands; behind the text when there is none. */
function nextEscape(text: string, from: number): number {
  const at = text.indexOf('\\', from)
  return at === -1 ? text.length : at
}

function endOfNumber(text: string, from: number): number {
  numberForm.lastIndex = from
  return numberForm.test(text) ? numberForm.lastIndex : -1
}

function requireUtf8(bytes: Uint8Array): void {
  if (isUtf8(bytes)) return
  throw new UpstreamError('bad-response', 'Cannot read a list of the storage: no UTF-8')
}

/** Where the two decimals of a line's timestamp end; -1 when its form is not the expected one. */
function findDecimalsEnd(chunk: Buffer, tokenAt: number): number {
  const before = chunk[tokenAt - 1]
  if (before !== comma && before !== braceOpen) return -1
  const digitsStart = tokenAt + token.length
  let at = digitsStart
  while (isDigit(chunk[at]!)) at += 1
  const after = chunk[at + 3]
  if (at === digitsStart || at - digitsStart > 11 || chunk[at] !== dot) return -1
  if (!isDigit(chunk[at + 1]!) || !isDigit(chunk[at + 2]!)) return -1
  return after === comma || after === braceClose ? at + 3 : -1
}

const zero = 48

function isDigit(code: number): boolean {
  return code >= zero && code <= 57
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
