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
  /** When to try an HTTP version that was not offered, or not tried yet; 0: it is offered. */
  withoutUntilMs: Record<Version, number>
  /** Until when calls open new connections. */
  avoidsConnectionsUntilMs: number
}

/**
 * How long an origin is assumed to lack an HTTP version. Short if it had the version before, because a broken handshake may have another
 * reason; otherwise long, because each failed handshake costs several round trips.
 */
const withoutVersionMs = 600_000
const brokenHandshakeMs = 10_000
/** The time of a version that was not tried yet, in the past. */
const untried = 1
const maxOrigins = 1000
const avoidConnectionsMs = 60_000

/** Sends requests over HTTP/2 or HTTP/1.1, and keeps the runtime from sending a write twice. */
export class Transport {
  readonly #origins = new RecentMap<string, Origin>(maxOrigins)
  #tls: { ca: string } | undefined

  /** `http2`: whether to use it if offered over TLS; `now`: a clock in ms. */
  constructor(private readonly options: { http2: boolean; now(): number }) {}

  /** Changes the trusted authorities: those of a PEM text alone, or the system's if null. Calls in flight keep the old ones. */
  trust(ca: string | null): void {
    this.#tls = ca === null ? undefined : { ca }
  }

  async fetch(request: FetchRequest, signal: AbortSignal): Promise<Response> {
    const { origin } = request.url
    const protocol = this.#protocolOf(origin, request)
    const isList = request.isStreamed === true && request.method === 'GET'
    if (protocol === 'http2' || (protocol === 'http1.1' && isList))
      return await this.#fetchOrFallBack(protocol, request, signal)
    return await this.#fetchOver(protocol, request, signal)
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
    const made = { withoutUntilMs: { http2: untried, 'http1.1': 0 }, avoidsConnectionsUntilMs: 0 }
    this.#origins.set(origin, made)
    return made
  }

  /** Falls back to the other HTTP version if the server lacks this one; nothing was sent before that shows. */
  async #fetchOrFallBack(version: Version, request: FetchRequest, signal: AbortSignal): Promise<Response> {
    const { http2, now } = this.options
    const { withoutUntilMs } = this.#originOf(request.url.origin)
    const before = withoutUntilMs[version]
    // One call tries the version; the others don't, because the runtime would repeat a failed handshake for each, one after the other.
    if (before > 0) withoutUntilMs[version] = now() + brokenHandshakeMs
    try {
      const response = await this.#fetchOver(version, request, signal)
      withoutUntilMs[version] = 0
      return response
    } catch (error) {
      const code = codeOf(error)
      const other = version === 'http2' ? 'http1.1' : 'http2'
      const isOtherLacking = !http2 || withoutUntilMs[other] > now()
      if (isOtherLacking || !lacksVersion(code, request.method)) throw error
      const response = await this.#fetchOver(other, request, signal)
      const forMs = before === 0 && code === 'EPROTO' ? brokenHandshakeMs : withoutVersionMs
      withoutUntilMs[version] = Math.max(withoutUntilMs[version], now() + forMs)
      return response
    }
  }

  /** Streamed lists use HTTP/1.1, because a stalled reader would block all calls on a shared HTTP/2 connection. */
  #protocolOf(
    origin: string,
    { method, isStreamed = false }: Pick<FetchRequest, 'method' | 'isStreamed'>,
  ): Version | undefined {
    if (!origin.startsWith('https:')) return undefined
    const { withoutUntilMs } = this.#originOf(origin)
    const nowMs = this.options.now()
    const isHttp1Lacking = withoutUntilMs['http1.1'] > nowMs
    if (!this.options.http2 || (isStreamed && !isHttp1Lacking)) return 'http1.1'
    const untilMs = withoutUntilMs.http2
    // Only a read tries HTTP/2 again, because a write must not be repeated after a broken handshake.
    const mayTry = untilMs <= untried || method === 'GET'
    return nowMs < untilMs || !mayTry ? 'http1.1' : 'http2'
  }

  async #fetchOver(
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
    return await fetch(url.href, {
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
