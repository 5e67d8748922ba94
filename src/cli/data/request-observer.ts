import { ClientError } from '../../client/errors.ts'
import { adviceOn, type Places } from '../advice.ts'
import type { ClientOptions } from '../../client/requests.ts'
import type { UpstreamError } from '../../domain/errors.ts'
import type { Insider } from '../../service/observers.ts'

type UpstreamCall = Parameters<NonNullable<Insider['upstreamCall']>>[0]
type Target = UpstreamCall['target']

const names: Record<Target, string> = { token: 'token server', storage: 'storage' }

interface RequestObserverOptions {
  send: NonNullable<ClientOptions['fetch']>
  /** Gets a line for each request; null: they are not shown. */
  show: ((line: string) => void) | null
  /** Prints a line. */
  tell(line: string): void
  places: Places
  /** The address of the token server. */
  tokenServerUrl: string
  /** A monotonic clock in ms. */
  now(): number
}

/** A person who waits longer without a word would think that nothing happens. */
const quietMs = 5000

/**
 * Sees the requests of a command and the calls of its own bridge. A failure gets its cause, which the bridge never sends over HTTP; one with
 * a lasting cause is not retried.
 */
export class RequestObserver implements Insider {
  #failure: UpstreamError | null = null
  #failedTarget: Target = 'token'
  readonly #working = new Set<Target>()
  /** When the last request began; null once it was said that it takes longer. */
  #quietSinceMs: number | null = null

  constructor(private readonly options: RequestObserverOptions) {}

  upstreamCall({ target, method, status, failure, ms }: UpstreamCall): void {
    this.options.show?.(
      `  ${names[target]}: ${method} ${status ?? failure ?? 'aborted'}, ${Math.round(ms)} ms`,
    )
    if (failure === null) this.#working.add(target)
    else {
      this.#failedTarget = target
      this.#sayThatItWaits()
    }
  }

  /** Once for each request, because its bridge tries again by itself, for minutes if a write is in doubt. */
  #sayThatItWaits(): void {
    const { tell, now } = this.options
    if (this.#quietSinceMs === null || now() - this.#quietSinceMs < quietMs) return
    this.#quietSinceMs = null
    tell(
      `The ${names[this.#failedTarget]} does not respond: still trying. You can stop, and run this again later`,
    )
  }

  upstreamFailed(error: UpstreamError): void {
    this.#failure = error
  }

  /** Why the last request failed, for people; null if its bridge runs elsewhere. */
  get reason(): string | null {
    return this.#failure && this.#explain(this.#failure)
  }

  /** Sends a request; see `ClientOptions`. Rejects with `ClientError` if its cause is known, and repeating it would not help. */
  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { send, show, now } = this.options
    const startedAtMs = now()
    this.#quietSinceMs = startedAtMs
    const response = await send(url, init)
    show?.(`${init.method} ${shownAddress(url)} ${response.status}, ${Math.round(now() - startedAtMs)} ms`)
    const failure = this.#failure
    if (response.status !== 503 || failure === null) return response
    const message = this.#explain(failure)
    if (this.#isLasting(failure)) {
      await response.body?.cancel()
      throw new ClientError(message, { status: 503, cause: failure })
    }
    const headers = new Headers()
    for (const name of ['Retry-After', 'Backoff'])
      if (response.headers.has(name)) headers.set(name, response.headers.get(name)!)
    const body = (await response.json()) as object
    return Response.json({ ...body, message }, { status: 503, headers })
  }

  #explain({ message, status }: UpstreamError): string {
    const target = this.#failedTarget
    const host = URL.parse(this.options.tokenServerUrl)?.host ?? ''
    const isStorage = target === 'storage' && status === null
    const places = isStorage
      ? { ...this.options.places, tokenServer: 'the address that the token server names' }
      : this.options.places
    const named = message
      // The host; "Cannot write to" names a collection.
      .replace(/^(?!Cannot write to)([^"]*)"(?=[^"]*")/, `$1the ${names[target]} "`)
      .replace(/the token server(?! ")/, `the token server "${host}"`)
      .replace('token_server_url', places.tokenServer)
    return named + adviceOn(message, places)
  }

  /** Whether a repetition would fail, too. A connection is refused by a server that restarts, or because the address is wrong. */
  #isLasting({ failure, message }: UpstreamError): boolean {
    if (failure === 'bad-response') return true
    if (failure !== 'unreachable') return false
    return /CERT|_ISSUER|TLS|ALTNAME/.test(message) || !this.#working.has(this.#failedTarget)
  }
}

/** Without the query and the bucket's id, which identifies the user's keys. */
function shownAddress(url: string): string {
  const { origin, pathname } = new URL(url)
  const isOfBridge = /^\/(?:\S*\/)?v\d+(?:\/buckets\/[^/]*)?(\/\S*)$/.exec(pathname)
  return isOfBridge ? isOfBridge[1]! : origin + pathname
}
