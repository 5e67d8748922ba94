import { UpstreamError } from '../domain/errors.ts'
import { toUpstreamError } from './fetch-failure.ts'
import type { ByteSource } from './answer.ts'

/** Bodies up to this size arrive in one piece. */
const smallBodyBytes = 262_144

/**
 * The body of an answer under way: a pause of more than `stallMs` between two pieces ends it, the time that the
 * reader takes between two reads doesn't count. `finished` is called once, at the end, however it ends.
 */
export class AnswerBody implements ByteSource {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #small: Response | null = null
  #isFinished = false
  #failure: UpstreamError | null = null

  constructor(
    response: Response,
    private readonly host: string,
    private readonly stallMs: number,
    private readonly abort: AbortController,
    private readonly finished: () => void,
  ) {
    const declared = Number(response.headers.get('content-length') ?? Infinity)
    if (response.body === null) this.#finish()
    else if (declared <= smallBodyBytes) this.#small = response
    else this.#reader = response.body.getReader()
  }

  async read(): Promise<Uint8Array | null> {
    if (this.#failure) throw this.#failure
    if (this.#isFinished) return null
    const timer = setTimeout(() => this.abort.abort(this.#stalled()), this.stallMs)
    try {
      if (this.#small) return await this.#readSmall(this.#small)
      const { value } = await this.#reader!.read()
      if (!value) this.#finish()
      return value ?? null
    } catch (error) {
      this.#failure = toUpstreamError(error, this.host)
      this.#finish()
      throw this.#failure
    } finally {
      clearTimeout(timer)
    }
  }

  cancel(): void {
    if (this.#isFinished) return
    this.#finish()
    this.abort.abort()
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
    this.finished()
  }

  #stalled(): UpstreamError {
    return new UpstreamError(
      'timeout',
      `Cannot read the answer of "${this.host}": stalled for ${this.stallMs} ms`,
    )
  }
}

function ignore(): void {}
