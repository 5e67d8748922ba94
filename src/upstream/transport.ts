import { RecentMap } from '../domain/bounded.ts'
import { codeOf } from './response.ts'
import type { Address } from './request.ts'

export interface FetchRequest {
  method: 'GET' | 'POST' | 'DELETE'
  url: Address
  headers: Record<string, string>
  body?: string
  /** Whether a long body with status 200 is streamed. */
  isStreamed?: boolean
}

type Version = 'http2' | 'http1.1'

/** What is known about an origin. */
interface Origin {
  /** When to try an HTTP version again after it was not offered; 0: it is offered; null: unknown. */
  withoutUntilMs: Record<Version, number | null>
  /** Until when calls open new connections. */
  avoidsConnectionsUntilMs: number
}

/**
 * How long an origin is assumed to lack an HTTP version. Short if it had the version before, because a broken handshake may have another
 * reason; otherwise long, because each failed handshake costs several round trips.
 */
const withoutVersionMs = 600_000
const brokenHandshakeMs = 10_000
/** How long other calls wait for the first call to an origin; enough for any distance. */
const firstCallMs = 3000
const maxOrigins = 1000
const avoidConnectionsMs = 60_000

/** Sends requests over HTTP/2 or HTTP/1.1, and keeps the runtime from sending a write twice. */
export class Transport {
  readonly #origins = new RecentMap<string, Origin>(maxOrigins)
  /** The first calls to unknown origins, until they end. */
  readonly #firstCalls = new Map<string, Promise<void>>()

  #tls: { ca: string } | undefined

  /** `http2`: whether to use it if offered over TLS; `now`: a clock in ms. */
  constructor(private readonly options: { http2: boolean; now(): number }) {}

  /** Changes the trusted authorities: those of a PEM text alone, or the system's if null. Calls in flight keep the old ones. */
  trust(ca: string | null): void {
    this.#tls = ca === null ? undefined : { ca }
  }

  fetch(request: FetchRequest, signal: AbortSignal): Promise<Response> {
    const { origin } = request.url
    const protocol = this.#protocolOf(origin, request)
    const isUnknown = this.#origins.get(origin)?.withoutUntilMs.http2 == null
    if (protocol === 'http2' && isUnknown) return this.#fetchFirst(request, signal)
    const isList = request.isStreamed === true && request.method === 'GET'
    if (protocol === 'http2' || (protocol === 'http1.1' && isList))
      return this.#fetchOrFallBack(protocol, request, signal)
    return this.#fetchOver(protocol, request, signal)
  }

  /**
   * Makes calls open new connections for a minute after one got no response: after a firewall or host failure, each silent idle connection
   * would cost another call its timeout.
   */
  avoidConnections(origin: string): void {
    this.#originOf(origin).avoidsConnectionsUntilMs = this.options.now() + avoidConnectionsMs
  }

  /** Whether calls to an origin share a connection, as far as known. */
  readonly sharesConnection = (origin: string): boolean =>
    this.#protocolOf(origin, { method: 'POST' }) === 'http2'

  #originOf(origin: string): Origin {
    const known = this.#origins.get(origin)
    if (known) return known
    const made = { withoutUntilMs: { http2: null, 'http1.1': null }, avoidsConnectionsUntilMs: 0 }
    this.#origins.set(origin, made)
    return made
  }

  /**
   * Sends the first read to an unknown origin alone: if the handshake fails, the runtime would repeat it for every waiting call, one after
   * the other.
   */
  async #fetchFirst(request: FetchRequest, signal: AbortSignal): Promise<Response> {
    const { origin } = request.url
    const first = this.#firstCalls.get(origin)
    if (first) {
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true })
        void first.then(resolve)
      })
      const protocol = this.#protocolOf(origin, request)
      if (protocol !== 'http2') return await this.#fetchOver(protocol, request, signal)
    }
    if (first || request.method !== 'GET') return await this.#fetchOrFallBack('http2', request, signal)
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, firstCallMs)
    this.#firstCalls.set(origin, promise)
    try {
      return await this.#fetchOrFallBack('http2', request, signal)
    } finally {
      clearTimeout(timer)
      this.#firstCalls.delete(origin)
      resolve()
    }
  }

  /** Falls back to the other HTTP version if the server lacks this one; nothing was sent before that shows. */
  async #fetchOrFallBack(version: Version, request: FetchRequest, signal: AbortSignal): Promise<Response> {
    const { http2, now } = this.options
    const { withoutUntilMs } = this.#originOf(request.url.origin)
    const before = withoutUntilMs[version]
    // One call tries the version again; the others don't.
    if (before !== null && before > 0) withoutUntilMs[version] = now() + brokenHandshakeMs
    try {
      const response = await this.#fetchOver(version, request, signal)
      withoutUntilMs[version] = 0
      return response
    } catch (error) {
      const code = codeOf(error)
      const other = version === 'http2' ? 'http1.1' : 'http2'
      const isOtherLacking = !http2 || (withoutUntilMs[other] ?? 0) > now()
      if (isOtherLacking || !lacksVersion(code, request.method)) throw error
      const response = await this.#fetchOver(other, request, signal)
      const forMs = before === 0 && code === 'EPROTO' ? brokenHandshakeMs : withoutVersionMs
      withoutUntilMs[version] = Math.max(withoutUntilMs[version] ?? 0, now() + forMs)
      return response
    }
  }

  /** Streamed lists use HTTP/1.1, because a stalled reader would block all calls on a shared HTTP/2 connection. */
  #protocolOf(
    origin: string,
    { method, isStreamed = false }: Pick<FetchRequest, 'method' | 'isStreamed'>,
  ): Version | undefined {
    if (!origin.startsWith('https:')) return undefined
    const known = this.#origins.get(origin)
    const nowMs = this.options.now()
    const isHttp1Lacking = (known?.withoutUntilMs['http1.1'] ?? 0) > nowMs
    if (!this.options.http2 || (isStreamed && !isHttp1Lacking)) return 'http1.1'
    const untilMs = known?.withoutUntilMs.http2 ?? 0
    // Only a read tests HTTP/2 again, because a write must not be repeated after a broken handshake.
    return untilMs > 0 && (nowMs < untilMs || method !== 'GET') ? 'http1.1' : 'http2'
  }

  #fetchOver(
    protocol: Version | undefined,
    { url, method, headers, body }: FetchRequest,
    signal: AbortSignal,
  ): Promise<Response> {
    headers['Accept-Encoding'] = 'identity'
    // Over HTTP/2 the runtime repeats requests refused with REFUSED_STREAM. HAProxy also refuses applied writes this way when its storage dies.
    // A body that can be read only once prevents the repetition; a DELETE has none, because HAProxy would reset it.
    const isReadOnce = method === 'POST' && protocol === 'http2'
    if (isReadOnce) headers['Content-Length'] = String(Buffer.byteLength(body ?? ''))
    const isAvoiding = (this.#origins.get(url.origin)?.avoidsConnectionsUntilMs ?? 0) > this.options.now()
    // When a pooled HTTP/1.1 connection dies, the runtime repeats a DELETE, but never a POST.
    const mayBePooled = method !== 'DELETE' || protocol === 'http2'
    return fetch(url.href, {
      method,
      headers,
      body: isReadOnce ? readableOnce(body) : body,
      signal,
      redirect: 'manual',
      decompress: false,
      keepalive: mayBePooled && !isAvoiding,
      protocol,
      tls: this.#tls,
    })
  }
}

/**
 * Whether a TLS server lacks the HTTP version: it selects no protocol, or ends the handshake. For a write, the latter could also be a
 * connection that broke later.
 */
function lacksVersion(code: string | null, method: string): boolean {
  return code === 'HTTP2Unsupported' || (code === 'EPROTO' && method === 'GET')
}

/** A body that can be read only once, so that the runtime can't send it again. */
function readableOnce(body = ''): ReadableStream<string> {
  return new ReadableStream({
    pull(controller) {
      if (body !== '') controller.enqueue(body)
      controller.close()
    },
  })
}
