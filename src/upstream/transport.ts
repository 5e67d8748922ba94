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

interface Tls {
  ca?: string
  passphrase?: string
}

/**
 * For how long an origin is believed not to offer HTTP/2. A short time where it did before and a handshake broke, which may have had
 * another reason; not else, because each handshake in vain takes several round trips.
 */
const withoutHttp2Ms = 600_000
const brokenHandshakeMs = 10_000
/** How long others wait for the first call to an origin. It is over by then at any distance where the storage answers. */
const firstCallMs = 3000
const maxOrigins = 1000
/**
 * Connections that calls no longer use end when the runtime has kept them idle for five minutes. At one turn a minute, a turn comes
 * again after six.
 */
const turnMs = 60_000
const turns = 6

/** Carries requests over HTTP/2 or HTTP/1.1, and keeps the runtime from sending a write twice. */
export class Transport {
  /** Until when origins are not asked for HTTP/2, because they do not offer it; 0: they do. */
  readonly #withoutHttp2Until = new RecentMap<string, number>(maxOrigins)

  /** Ends of the first calls to origins of which nothing is known yet. */
  readonly #firstCalls = new Map<string, Promise<void>>()

  /** Over which of several sets of connections an origin is called, and since when. */
  readonly #turns = new RecentMap<string, { turn: number; sinceMs: number }>(maxOrigins)

  /** `http2`: whether it is used where it is offered over TLS; `now`: a clock in ms. */
  constructor(private readonly options: { http2: boolean; now(): number }) {}

  fetch(request: FetchRequest, signal: AbortSignal, ca: { ca: string } | undefined): Promise<Response> {
    const { origin } = request.url
    const protocol = this.#protocolOf(origin, request.method, request.isStreamed)
    const turn = this.#turns.get(origin)?.turn
    // The runtime shares connections among calls with the same TLS options. Without a key of ours the passphrase opens nothing.
    const tls = turn === undefined ? ca : { ...ca, passphrase: String(turn) }
    if (protocol !== 'http2') return fetchOver(protocol, request, signal, tls)
    const isKnown = this.#withoutHttp2Until.get(origin) !== undefined
    return isKnown ? this.#fetchOverHttp2(request, signal, tls) : this.#fetchFirst(request, signal, tls)
  }

  /**
   * A call waited in vain for any answer. A firewall that has forgotten connections, or a host that died, leaves them silent, and each
   * of those that are idle would cost another call its time. So further calls over TLS use new ones; at most once a minute.
   */
  leaveConnections(origin: string): void {
    const nowMs = this.options.now()
    const { turn, sinceMs } = this.#turns.get(origin) ?? { turn: 0, sinceMs: -Infinity }
    if (nowMs - sinceMs >= turnMs) this.#turns.set(origin, { turn: (turn % turns) + 1, sinceMs: nowMs })
  }

  /** Whether calls to an origin share a connection, as far as is known. */
  readonly sharesConnection = (origin: string): boolean => this.#protocolOf(origin, 'POST') === 'http2'

  /**
   * When a server refuses a handshake for which several calls wait, the runtime has each of them try one of its own, one after the
   * other. So one read asks, and what comes meanwhile waits for its end.
   */
  async #fetchFirst(request: FetchRequest, signal: AbortSignal, tls: Tls | undefined): Promise<Response> {
    const { method } = request
    const { origin } = request.url
    const first = this.#firstCalls.get(origin)
    if (first) {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true })
        void first.then(resolve)
      })
      const protocol = this.#protocolOf(origin, method)
      if (protocol !== 'http2') return await fetchOver(protocol, request, signal, tls)
    }
    if (first || method !== 'GET') return await this.#fetchOverHttp2(request, signal, tls)
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
  async #fetchOverHttp2(request: FetchRequest, signal: AbortSignal, tls: Tls | undefined): Promise<Response> {
    const { method } = request
    const { origin } = request.url
    const { now } = this.options
    const until = this.#withoutHttp2Until
    const before = until.get(origin)
    // While one call asks again, the others need not.
    if (before !== undefined && before > 0) until.set(origin, now() + brokenHandshakeMs)
    try {
      const response = await fetchOver('http2', request, signal, tls)
      if (until.get(origin) !== 0) until.set(origin, 0)
      return response
    } catch (error) {
      const code = codeOf(error)
      if (!lacksHttp2(code, method)) throw error
      const response = await fetchOver('http1.1', request, signal, tls)
      const forMs = before === 0 && code === 'EPROTO' ? brokenHandshakeMs : withoutHttp2Ms
      until.set(origin, Math.max(until.get(origin) ?? 0, now() + forMs))
      return response
    }
  }

  /** Long lists have connections of their own: a reader who stops would hold the window of all calls on a shared one. */
  #protocolOf(origin: string, method: string, isStreamed = false): 'http2' | 'http1.1' | undefined {
    if (!origin.startsWith('https:')) return undefined
    if (!this.options.http2 || isStreamed) return 'http1.1'
    const untilMs = this.#withoutHttp2Until.get(origin) ?? 0
    // Only a read asks again, because a write can't be repeated when the answer is a broken handshake.
    return untilMs > 0 && (this.options.now() < untilMs || method !== 'GET') ? 'http1.1' : 'http2'
  }
}

/**
 * Whether a TLS server has no HTTP/2. It selects no protocol, or ends the handshake; that looks like a connection that broke
 * later, when a write had been sent.
 */
function lacksHttp2(code: string | null, method: string): boolean {
  return code === 'HTTP2Unsupported' || (code === 'EPROTO' && method === 'GET')
}

function fetchOver(
  protocol: 'http2' | 'http1.1' | undefined,
  { url, method, headers, body }: FetchRequest,
  signal: AbortSignal,
  tls: Tls | undefined,
): Promise<Response> {
  headers['Accept-Encoding'] = 'identity'
  // Over HTTP/2 the runtime repeats by itself what is refused with REFUSED_STREAM. HAProxy refuses so a write that was carried
  // out, when the storage behind it dies. A DELETE has nothing to read: its end would come late, and HAProxy resets it then.
  const isReadOnce = method === 'POST' && protocol === 'http2'
  if (isReadOnce) headers['Content-Length'] = String(Buffer.byteLength(body ?? ''))
  return fetch(url.href, {
    method,
    headers,
    body: isReadOnce ? readableOnce(body) : body,
    signal,
    redirect: 'manual',
    decompress: false,
    // When a pooled connection of HTTP/1.1 dies, the runtime sends a DELETE a second time; a POST it never repeats there.
    keepalive: method !== 'DELETE' || protocol === 'http2',
    protocol,
    tls,
  })
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
