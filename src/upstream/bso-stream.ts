import { isUtf8 } from 'node:buffer'
import { listClosing, listOpening } from '../domain/list.ts'
import { takeListBuffer } from '../load/list-buffers.ts'
import { toExposedJson, type SyncRecord } from '../domain/record.ts'
import { parseJson, unusable } from './response.ts'
import { readBso } from './bso.ts'
import { rewriteLines, maxOutputBytes } from './bso-lines.ts'
import { arePlainLines } from './plain-lines.ts'

interface BsoRewriterOptions {
  /** Selects records. Without it, all records are kept, which is much faster because no line is parsed. */
  keep?: ((record: SyncRecord) => boolean) | null
}

const maxLineBytes = 16 * 1024 * 1024

const newline = 0x0a
const comma = 0x2c

/**
 * Converts storage lists (`application/newlines`: one Basic Storage Object per line) into the elements of an exposed JSON array: `modified`
 * in decimal seconds becomes `last_modified` in integer milliseconds. Takes chunks as they come; lines may be split anywhere.
 * `rewriteLines` copies lines of the usual form; others are parsed and printed. Throws `UpstreamError` for a line that is not a record.
 */
export class BsoRewriter {
  /** Records read so far. */
  recordCount = 0
  /** Records written so far. */
  keptCount = 0
  readonly #keep: ((record: SyncRecord) => boolean) | null

  /** The beginning of an unfinished line. */
  #carry = Buffer.alloc(0)
  #carryLength = 0

  #out = Buffer.alloc(0)
  #outLength = 0

  constructor({ keep = null }: BsoRewriterOptions = {}) {
    this.#keep = keep
  }

  /** The memory of the unfinished line; small unless a record is long. */
  get carryBytes(): number {
    return this.#carry.length
  }

  /** Converts the next chunk; often returns nothing yet. */
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

  /** Ends one storage list; its last line may lack a line break. */
  end(): Uint8Array {
    this.#begin(this.#carryLength)
    requireUtf8(this.#carry.subarray(0, this.#carryLength))
    this.#writeParsed(this.#carry, 0, this.#carryLength)
    this.#carryLength = 0
    return this.#taken()
  }

  /** Converts a list that arrived in one piece into its JSON document. */
  pushWhole(piece: Uint8Array): Uint8Array {
    const chunk = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    this.#out = takeListBuffer(maxOutputBytes(listOpening.length + chunk.length + listClosing.length) + 64)
    this.#outLength = 0
    this.#write(listOpening)
    const end = this.#writeLines(chunk, 0)
    requireUtf8(chunk.subarray(end))
    this.#writeParsed(chunk, end, chunk.length)
    this.#write(listClosing)
    return this.#taken()
  }

  /** Writes all complete lines of the chunk; returns where the unfinished one begins. */
  #writeLines(chunk: Buffer, from: number): number {
    const end = chunk.lastIndexOf(newline) + 1
    if (end <= from) return from
    const arePlain = arePlainLines(chunk, from, end)
    if (!arePlain) requireUtf8(chunk.subarray(from, end))
    for (let start = from; start < end;) {
      // If some lines are not plain, each is checked.
      const plainEnd = arePlain ? end : chunk.indexOf(newline, start) + 1
      if (this.#keep === null && (arePlain || arePlainLines(chunk, start, plainEnd)))
        start = this.#rewriteLines(chunk, start, plainEnd)
      if (start === plainEnd) continue
      const next = chunk.indexOf(newline, start) + 1
      this.#writeParsed(chunk, start, next)
      start = next
    }
    return end
  }

  /** Rewrites lines up to the first one that must be parsed; returns where that begins. */
  #rewriteLines(chunk: Buffer, start: number, end: number): number {
    this.#reserve(maxOutputBytes(end - start))
    if (this.keptCount > 0) this.#out[this.#outLength] = comma
    const outAt = this.#outLength + (this.keptCount > 0 ? 1 : 0)
    const { readTo, writtenTo, count } = rewriteLines(chunk, start, end, this.#out, outAt)
    if (count > 0) this.#outLength = writtenTo
    this.recordCount += count
    this.keptCount += count
    return readTo
  }

  #writeParsed(chunk: Buffer, lineStart: number, lineEnd: number): void {
    const line = chunk.toString('utf8', lineStart, lineEnd)
    if (line.trim() === '') return
    const record = readBso(parseJson(line))
    if (!record) throw unusable('a line is not a record')
    this.recordCount += 1
    if (this.#keep?.(record) === false) return
    const text = (this.keptCount > 0 ? ',' : '') + toExposedJson(record)
    this.#reserve(Buffer.byteLength(text))
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
    if (length > maxLineBytes) throw unusable('a line is longer than 16 MiB')
    if (length > this.#carry.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(4096, length * 2))
      this.#carry.copy(grown, 0, 0, this.#carryLength)
      this.#carry = grown
    }
    chunk.copy(this.#carry, this.#carryLength, start, end)
    this.#carryLength = length
  }

  /** Each chunk gets a new buffer, because the previous one has been handed out. */
  #begin(pieceLength: number): void {
    this.#out = Buffer.allocUnsafeSlow(maxOutputBytes(pieceLength) + 64)
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

function requireUtf8(bytes: Uint8Array): void {
  if (isUtf8(bytes)) return
  throw unusable('it is not valid UTF-8')
}
