import { UpstreamError } from '../domain/errors.ts'
import { toUpstreamError } from './fetch-failure.ts'
import type { ByteSource } from './answer.ts'
import type { Call } from './calls-under-way.ts'

/** Bodies up to this size arrive in one piece. */
const smallBodyBytes = 262_144

/** How long may be waited for a body: for its first piece, and then for each further one. */
export interface Patience {
  firstMs: number
  stallMs: number
}

/**
 * The body of an answer under way: a piece that does not come in time ends it, the time that the reader takes between
 * two reads doesn't count. `finished` is called once, at the end, with the failure if it is one.
 */
export class AnswerBody implements ByteSource {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #small: Response | null = null
  #isFinished = false
  #failure: UpstreamError | null = null
  #waitMs: number

  constructor(
    response: Response,
    private readonly host: string,
    private readonly patience: Patience,
    private readonly call: Call,
    private readonly finished: (failure: UpstreamError | null) => void,
  ) {
    this.#waitMs = patience.firstMs
    const declared = response.headers.get('content-length')
    // Looking at `body` makes a stream, which a short answer has no use for.
    if (declared !== null && Number(declared) <= smallBodyBytes) this.#small = response
    else if (response.body === null) this.#finish()
    else this.#reader = response.body.getReader()
  }

  /** Whether it comes in one piece. */
  get isShort(): boolean {
    return this.#small !== null
  }

  async read(): Promise<Uint8Array | null> {
    if (this.#failure) throw this.#failure
    if (this.#isFinished) return null
    this.call.expectWithin(this.#waitMs, () => this.#stalled())
    this.#waitMs = this.patience.stallMs
    try {
      if (this.#small) return await this.#readSmall(this.#small)
      const { value } = await this.#reader!.read()
      if (value) this.call.rest()
      else this.#finish()
      return value ?? null
    } catch (error) {
      this.#failure = toUpstreamError(error, this.host)
      this.#finish()
      throw this.#failure
    }
  }

  cancel(): void {
    if (this.#isFinished) return
    this.#finish()
    this.call.abort()
    // Nobody waits for the rejection that the abort causes in a body that was never read.
    this.#small?.body?.cancel().catch(ignore)
    this.#reader?.cancel().catch(ignore)
  }

  async #readSmall(response: Response): Promise<Uint8Array | null> {
    const bytes = await response.bytes()
    this.#finish()
    return bytes.length > 0 ? bytes : null
  }

  #finish(): void {
    if (this.#isFinished) return
    this.#isFinished = true
    this.finished(this.#failure)
  }

  #stalled(): UpstreamError {
    return new UpstreamError('timeout', `Cannot read the answer of "${this.host}": it stalled`)
  }
}

function ignore(): void {}
