import { UpstreamError } from '../domain/errors.ts'
import { openLines } from './list-lines.ts'
import { recordCountOf } from './wire.ts'
import type { ByteSource, UpstreamAnswer } from './answer.ts'
import type { BsoRewriter } from './bso-stream.ts'

/**
 * The elements of a list over one or several pages of the storage, in the exposed form. Fails when a page holds
 * another number of records than it announces, and when the next page can't be had.
 */
export class ListPages implements ByteSource {
  #answer: UpstreamAnswer
  #lines: ByteSource | null = null
  #countBefore = 0
  #isCancelled = false
  #isDone = false

  constructor(
    first: UpstreamAnswer,
    private readonly rewriter: BsoRewriter,
    /** Asks for the page after this answer, which held so many records; null when it was the last. */
    private readonly nextPage: (
      answer: UpstreamAnswer,
      recordCount: number,
    ) => Promise<UpstreamAnswer | null>,
  ) {
    this.#answer = first
  }

  async read(): Promise<Uint8Array | null> {
    while (!this.#isDone) {
      const piece = await this.#readPiece()
      if (piece.length > 0) return piece
    }
    return null
  }

  cancel(): void {
    this.#isCancelled = true
    this.#isDone = true
    this.#answer.body.cancel()
  }

  async #readPiece(): Promise<Uint8Array> {
    try {
      this.#lines ??= await openLines(this.#answer)
      const piece = await this.#lines.read()
      return piece ? this.rewriter.push(piece) : await this.#endPage()
    } catch (error) {
      this.cancel()
      throw error
    }
  }

  async #endPage(): Promise<Uint8Array> {
    const last = this.rewriter.end()
    const recordCount = this.rewriter.recordCount - this.#countBefore
    checkCount(this.#answer, recordCount)
    const next = await this.nextPage(this.#answer, recordCount)
    this.#countBefore = this.rewriter.recordCount
    this.#lines = null
    if (!next) this.#isDone = true
    else this.#answer = next
    // The reader may have left while the next page was asked for.
    if (this.#isCancelled) next?.body.cancel()
    return last
  }
}

/** Throws when another number of records came than the answer announces. */
export function checkCount({ headers }: UpstreamAnswer, count: number): void {
  const announced = recordCountOf(headers)
  if (announced === null || announced === count) return
  throw new UpstreamError(
    'connection-lost',
    `Cannot read a list of the storage: ${count} of ${announced} records came`,
  )
}
