import { isUtf8 } from 'node:buffer'
import { listClosing, listOpening } from '../domain/list.ts'
import { toExposedJson } from '../domain/record.ts'
import { parseJson, unusable } from './answer.ts'
import { readBso } from './bso.ts'

interface BsoRewriterOptions {
  /** Only records with these ids. Without it all, which is much faster because no line is parsed. */
  keep?(id: string): boolean
  /** The number of records to leave out at the beginning, of those that would be kept. */
  skip?: number
}

const maxLineBytes = 16 * 1024 * 1024

const newline = 10

/**
 * Turns the bytes of storage lists (`application/newlines`: one Basic Storage Object per line) into the bytes of
 * the exposed list: the elements of a JSON array without brackets, `modified` in decimal seconds become
 * `last_modified` in integer milliseconds. Takes the pieces as they come, lines may break off anywhere.
 *
 * Lines of the usual form are copied many bytes at a time by `usual-lines.wat`, which looks at each byte; any other line is
 * parsed and printed. Throws `UpstreamError` for a line that is no record.
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

  /** The memory for the beginning of a line, which is small unless a record is long. */
  get carryBytes(): number {
    return this.#carry.length
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
    for (let start = from; start < end;) {
      let next = chunk.lastIndexOf(newline, Math.min(start + windowBytes, end) - 1) + 1
      if (next > start && this.#keep === null) {
        this.#writeWindow(chunk, start, next)
      } else {
        next = chunk.indexOf(newline, start) + 1
        this.#writeParsed(chunk, start, next)
      }
      start = next
    }
    return end
  }

  /** Writes whole lines that fit into the memory of the copier. */
  #writeWindow(chunk: Buffer, start: number, end: number): void {
    const { memory, copyLines, written, count } = (copier ??= createCopier())
    memory.set(chunk.subarray(start, end), inputAt)
    const inputEnd = inputAt + end - start
    for (let at = inputAt; at < inputEnd;) {
      if (this.#skip === 0) {
        at = copyLines(at, inputEnd, outputAt)
        if (count.value > 0) {
          // Each record comes with a comma before it.
          const firstAt = this.keptCount === 0 ? outputAt + 1 : outputAt
          this.#write(memory.subarray(firstAt, written.value))
          this.recordCount += count.value
          this.keptCount += count.value
        }
      }
      if (at === inputEnd) return
      const lineStart = start + at - inputAt
      const lineEnd = chunk.indexOf(newline, lineStart) + 1
      this.#writeParsed(chunk, lineStart, lineEnd)
      at += lineEnd - lineStart
    }
  }

  #writeParsed(chunk: Buffer, lineStart: number, lineEnd: number): void {
    const line = chunk.toString('utf8', lineStart, lineEnd)
    if (line.trim() === '') return
    const record = readBso(parseJson(line))
    if (!record) throw unusable('a line is no record')
    this.recordCount += 1
    if (this.#keep && !this.#keep(record.id)) return
    if (this.#skip > 0) {
      this.#skip -= 1
      return
    }
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
    if (length > maxLineBytes) throw unusable('endless line')
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

/** What `usual-lines.wat` exports. */
interface Copier {
  memory: Uint8Array
  /** Copies the lines of that part of the memory to another part; returns where the first line of another form begins. */
  copyLines(start: number, end: number, outputAt: number): number
  /** The end of what was written last, and the number of records in it. */
  written: WebAssembly.Global<'i32'>
  count: WebAssembly.Global<'i32'>
}

// The memory of the copier. Records grow by 5 bytes and have at least 49; 16 bytes are read and written at once.
const inputAt = 128
const windowBytes = 64 * 1024
const outputAt = inputAt + windowBytes + 128

/** Lists share it, because nothing stays in it from one piece to the next. Most processes never need it. */
let copier: Copier | null = null

/** `usual-lines.wat`, compiled by `bun .ci/compile-copier.ts`. */
const compiledCopier =
  'AGFzbQEAAAABGwVgA39/fwF/YAABf2ACf38Bf2ABfwBgAXsBewMJCAABAgMBAQEEBQQBAQMDBhUEfwFBAAt/AUEAC38BQQALfwFBAAsHKAQGbWVtb3J5AgAHd3JpdHRlbgMCBWNvdW50AwMJY29weUxpbmVzAAAK0gYIOwAgACQAIAIkASACJAJBACQDA0AgACABRgRAIAAPCxABRQRAIAAPCyMAIQAjASQCIwNBAWokAwwACwALjAIBAXsjAUEsOgAAIwFBAWokAUEAQQcQAkUEQEEADwtBBxADIwAtAABBIkYEQEEADwsQBEUEQEEADwtBEEEMEAJFBEBBAA8LIwBBDGokACMA/QAEACEAQf83Qf8/IAAQB/1kcUcEQEEADwsgAP0WAEEwRgRAQQAPCyAA/RYKQS5HBEBBAA8LIwFB0AD9AAQA/QsEACMBQTo6ABAjASAA/QsEESMBIwAvAQs7ARsjAUEwOgAdIwBBDWokACMBQR5qJAFBIEEMEAJFBEBBAA8LQQwQAxAERQRAQQAPC0EwQQ0QAgRAQQ0QAxAGRQRAQQAPCwtBwABBAhACRQRAQQAPC0EBEAMjAEEBaiQAQQELHgBB//8DIwD9AAQAIAD9AAQA/SP9ZHNBICABa3RFCxwAIwEjAP0ABAD9CwQAIwAgAGokACMBIABqJAEL3wEDAn8DewJ/IwAhACMBIQEDQCAA/QAEACECIAEgAv0LBAAgAv0MIiIiIiIiIiIiIiIiIiIiIv0jIQMgAv0MXFxcXFxcXFxcXFxcXFxcXP0jIQQgAyAE/VAgAv0MICAgICAgICAgICAgICAgIP0m/VD9ZCEFIAUEQCAFQQMgBP1kIAP9ZEEBdnFscyEFCyAFRQRAIABBEGohACABQRBqIQEMAQsgBWghBiAAIAZqJAAgASAGaiQBIwAtAABBIkYEQEEBEANBAQ8LEAUhBiAGEAMjACEAIwEhASAGDQALQQALgAECAXsBfyMALQAAQdwARwRAQQAPCyMALQABIQEgAUEiRgRAQQIPCyABQfUARgRAIwD9AAQAIQBBBkEAQTxBPCAAEAcgAEEg/Q/9UEHhAP0P/XFBBv0P/Sb9UP1kcUYbDwtBAkEAIAH9D/0MXC9iZm5ydFxcXFxcXFxcXP0j/VMbC1YBAX8jAC0AAEEtRgRAQQEQAyMALQAAQTBGBEBBAA8LC0F/IwD9AAQAEAf9ZHNoIQAgAEEMSwRAQQAPCyMALQAAQTBGIABBAUdxBEBBAA8LIAAQAyAACxAAIABBMP0P/XFBCv0P/SYLC2AGAEEACwd7ImlkIjoiAEEQCwwsIm1vZGlmaWVkIjoAQSALDCwicGF5bG9hZCI6IgBBMAsNLCJzb3J0aW5kZXgiOgBBwAALAn0KAEHQAAsRLCJsYXN0X21vZGlmaWVkIjo='

function createCopier(): Copier {
  const module = new WebAssembly.Module(Buffer.from(compiledCopier, 'base64'))
  const { memory, ...rest } = new WebAssembly.Instance(module).exports
  return { memory: new Uint8Array((memory as WebAssembly.Memory).buffer), ...rest } as Copier
}

function requireUtf8(bytes: Uint8Array): void {
  if (isUtf8(bytes)) return
  throw unusable('no UTF-8')
}
