import { UpstreamError } from '../domain/errors.ts'
import { toExposedJson } from '../domain/record.ts'
import { readBso } from './bso.ts'
import type { ListFrame } from '../domain/record-storage.ts'

export interface BsoRewriterOptions {
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
 * The bytes of a line are only looked at where the token `"modified":` stands, once and in the expected form; any
 * other line is parsed and printed. Inside a JSON string the token can't occur, because quotes are escaped there.
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
    this.#writeParsed(this.#carry, 0, this.#carryLength)
    this.#carryLength = 0
    return this.#taken()
  }

  /** A list that has come in one piece, with something before and after it, in one piece. */
  pushWhole(piece: Uint8Array, { opening, closing }: ListFrame): Uint8Array {
    const chunk = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    this.#begin(opening.length + chunk.length + closing.length)
    this.#write(opening)
    const end = this.#writeLines(chunk, 0)
    this.#writeParsed(chunk, end, chunk.length)
    this.#write(closing)
    return this.#taken()
  }

  /** Writes all lines that end in the chunk; returns where the last, unfinished one begins. */
  #writeLines(chunk: Buffer, from: number): number {
    const maySplice = this.#keep === null
    let lineStart = from
    let tokenAt = chunk.indexOf(token, from)
    for (;;) {
      const lineEnd = chunk.indexOf(newline, lineStart)
      if (lineEnd === -1) return lineStart
      if (tokenAt !== -1 && tokenAt < lineStart) tokenAt = chunk.indexOf(token, lineStart)
      const nextTokenAt =
        tokenAt === -1 || tokenAt > lineEnd ? tokenAt : chunk.indexOf(token, tokenAt + token.length)
      const isOnce = tokenAt !== -1 && tokenAt < lineEnd && (nextTokenAt === -1 || nextTokenAt > lineEnd)
      const decimalsEnd = isOnce && maySplice ? findDecimalsEnd(chunk, lineStart, tokenAt, lineEnd) : -1
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

/** Where the two decimals of a line's timestamp end; -1 when its form is not the expected one. */
function findDecimalsEnd(chunk: Buffer, lineStart: number, tokenAt: number, lineEnd: number): number {
  const before = chunk[tokenAt - 1]
  if (chunk[lineStart] !== braceOpen || chunk[lineEnd - 1] !== braceClose) return -1
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
