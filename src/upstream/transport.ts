import { RecentMap } from '../domain/bounded.ts'
import { codeOf } from './answer.ts'
import type { Address } from './request.ts'

export interface FetchRequest {
  method: 'GET' | 'POST' | 'DELETE'
  url: Address
  headers: Record<string, string>
  body?: string
  /** Whether a long body is handed on as a stream when the status is 200. */
  isStreamed?: boolean
}

type Tls = { ca: string } | undefined

/** What is known of an origin. */
interface Origin {
  /** Until when HTTP/2 is not tried, because it is not offered; 0: it is offered. Null: nobody knows yet. */
  withoutHttp2UntilMs: number | null
  /** The same of HTTP/1.1, for lists. */
  withoutHttp1UntilMs: number | null
  /** Until when calls open connections of their own. */
  avoidsConnectionsUntilMs: number
}

/**
 * For how long an origin is believed not to offer a version of HTTP. A short time where it did before and a handshake broke, which may
 * have had another reason; not else, because each failed handshake takes several round trips.
 */
const withoutVersionMs = 600_000
const brokenHandshakeMs = 10_000
/** How long others wait for the first call to an origin. It is over by then at any distance where the storage answers. */
const firstCallMs = 3000
const maxOrigins = 1000
const avoidConnectionsMs = 60_000

/** Carries requests over HTTP/2 or HTTP/1.1, and keeps the runtime from sending a write twice. */
export class Transport {
  readonly #origins = new RecentMap<string, Origin>(maxOrigins)
  /** Ends of the first calls to origins of which nothing is known yet. */
  readonly #firstCalls = new Map<string, Promise<void>>()

  /** `http2`: whether it is used where it is offered over TLS; `now`: a clock in ms. */
  constructor(private readonly options: { http2: boolean; now(): number }) {}

  async fetch(request: FetchRequest, signal: AbortSignal, tls: Tls): Promise<Response> {
    const { origin } = request.url
    const protocol = this.#protocolOf(origin, request)
    if (protocol === 'http2') {
      const isKnown = this.#origins.get(origin)?.withoutHttp2UntilMs != null
      return await (isKnown
        ? this.#fetchOverHttp2(request, signal, tls)
        : this.#fetchFirst(request, signal, tls))
    }
    const isList = protocol === 'http1.1' && request.isStreamed === true && request.method === 'GET'
    if (isList) return await this.#fetchListOverHttp1(request, signal, tls)
    return await this.#fetchOver(protocol, request, signal, tls)
  }

  /**
   * A call got no answer at all. A firewall that has forgotten connections, or a host that died, leaves them silent, and each of those
   * that are idle would cost another call its time. So further calls open connections of their own for a minute.
   */
  avoidConnections(origin: string): void {
    this.#originOf(origin).avoidsConnectionsUntilMs = this.options.now() + avoidConnectionsMs
  }

  /** Whether calls to an origin share a connection, as far as is known. */
  readonly sharesConnection = (origin: string): boolean =>
    this.#protocolOf(origin, { method: 'POST' }) === 'http2'

  #originOf(origin: string): Origin {
    const known = this.#origins.get(origin)
    if (known) return known
    const made = { withoutHttp2UntilMs: null, withoutHttp1UntilMs: null, avoidsConnectionsUntilMs: 0 }
    this.#origins.set(origin, made)
    return made
  }

  /**
   * When a server refuses a handshake for which several calls wait, the runtime has each of them try one of its own, one after the
   * other. So one read asks, and what comes meanwhile waits for its end.
   */
  async #fetchFirst(request: FetchRequest, signal: AbortSignal, tls: Tls): Promise<Response> {
    const { origin } = request.url
    const first = this.#firstCalls.get(origin)
    if (first) {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true })
        void first.then(resolve)
      })
      const protocol = this.#protocolOf(origin, request)
      if (protocol !== 'http2') return await this.#fetchOver(protocol, request, signal, tls)
    }
    if (first || request.method !== 'GET') return await this.#fetchOverHttp2(request, signal, tls)
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, firstCallMs)
    this.#firstCalls.set(origin, promise)
    try {
      return await this.#fetchOverHttp2(request, signal, tls)
    } finally {
      clearTimeout(timer)
      this.#firstCalls.delete(origin)
      resolve()
    }
  }

  /** An origin that does not offer HTTP/2 has got nothing before that shows. */
  async #fetchOverHttp2(request: FetchRequest, signal: AbortSignal, tls: Tls): Promise<Response> {
    const { now } = this.options
    const origin = this.#originOf(request.url.origin)
    const before = origin.withoutHttp2UntilMs
    // While one call asks again, the others need not.
    if (before !== null && before > 0) origin.withoutHttp2UntilMs = now() + brokenHandshakeMs
    try {
      const response = await this.#fetchOver('http2', request, signal, tls)
      origin.withoutHttp2UntilMs = 0
      return response
    } catch (error) {
      const code = codeOf(error)
      if (!lacksHttp2(code, request.method)) throw error
      const response = await this.#fetchOver('http1.1', request, signal, tls)
      const forMs = before === 0 && code === 'EPROTO' ? brokenHandshakeMs : withoutVersionMs
      origin.withoutHttp2UntilMs = Math.max(origin.withoutHttp2UntilMs ?? 0, now() + forMs)
      return response
    }
  }

  /** A server that speaks HTTP/2 only ends the handshake of a list. */
  async #fetchListOverHttp1(request: FetchRequest, signal: AbortSignal, tls: Tls): Promise<Response> {
    const { http2, now } = this.options
    const origin = this.#originOf(request.url.origin)
    const before = origin.withoutHttp1UntilMs
    try {
      const response = await this.#fetchOver('http1.1', request, signal, tls)
      origin.withoutHttp1UntilMs = 0
      return response
    } catch (error) {
      const isHttp2Lacking = (origin.withoutHttp2UntilMs ?? 0) > now()
      if (!http2 || isHttp2Lacking || codeOf(error) !== 'EPROTO') throw error
      const response = await this.#fetchOver('http2', request, signal, tls)
      origin.withoutHttp1UntilMs = now() + (before === 0 ? brokenHandshakeMs : withoutVersionMs)
      return response
    }
  }

  /** Long lists have connections of their own: a reader who stops would hold the window of all calls on a shared one. */
  #protocolOf(
    origin: string,
    { method, isStreamed = false }: Pick<FetchRequest, 'method' | 'isStreamed'>,
  ): 'http2' | 'http1.1' | undefined {
    if (!origin.startsWith('https:')) return undefined
    const known = this.#origins.get(origin)
    const nowMs = this.options.now()
    const isHttp1Lacking = (known?.withoutHttp1UntilMs ?? 0) > nowMs
    if (!this.options.http2 || (isStreamed && !isHttp1Lacking)) return 'http1.1'
    const untilMs = known?.withoutHttp2UntilMs ?? 0
    // Only a read asks again, because a write can't be repeated when the answer is a broken handshake.
    return untilMs > 0 && (nowMs < untilMs || method !== 'GET') ? 'http1.1' : 'http2'
  }

  async #fetchOver(
    protocol: 'http2' | 'http1.1' | undefined,
    { url, method, headers, body }: FetchRequest,
    signal: AbortSignal,
    tls: Tls,
  ): Promise<Response> {
    headers['Accept-Encoding'] = 'identity'
    // Over HTTP/2 the runtime repeats by itself what is refused with REFUSED_STREAM. HAProxy refuses so a write that was carried
    // out, when the storage behind it dies. A DELETE has nothing to read: its end would come late, and HAProxy resets it then.
    const isReadOnce = method === 'POST' && protocol === 'http2'
    if (isReadOnce) headers['Content-Length'] = String(Buffer.byteLength(body ?? ''))
    const isAvoiding = (this.#origins.get(url.origin)?.avoidsConnectionsUntilMs ?? 0) > this.options.now()
    // When a pooled connection of HTTP/1.1 dies, the runtime sends a DELETE a second time; a POST it never repeats there.
    const mayBePooled = method !== 'DELETE' || protocol === 'http2'
    return await fetch(url.href, {
      method,
      headers,
      body: isReadOnce ? readableOnce(body) : body,
      signal,
      redirect: 'manual',
      decompress: false,
      keepalive: mayBePooled && !isAvoiding,
      protocol,
      tls,
    })
  }
}

/**
 * Whether a TLS server has no HTTP/2. It selects no protocol, or ends the handshake; that looks like a connection that broke
 * later, when a write had been sent.
 */
function lacksHttp2(code: string | null, method: string): boolean {
  return code === 'HTTP2Unsupported' || (code === 'EPROTO' && method === 'GET')
}

/** A body that the runtime can't send again, because it is gone when it has been read. */
function readableOnce(body = ''): ReadableStream<string> {
  return new ReadableStream({
    pull(controller) {
      if (body !== '') controller.enqueue(body)
      controller.close()
    },
  })
}
