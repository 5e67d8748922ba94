import { RecentMap } from '../domain/bounded.ts'
import type { UpstreamUrl } from './request.ts'

export interface FetchRequest {
  method: 'GET' | 'POST' | 'DELETE'
  url: UpstreamUrl
  headers: Record<string, string>
  body?: string
}

const maxOrigins = 1000
const avoidConnectionsMs = 60_000

/** Sends requests over HTTP/1.1 on connections that are kept open, and keeps the runtime from sending a write twice. */
export class Transport {
  /** Until when calls to an origin open new connections. */
  readonly #avoidsUntilMs = new RecentMap<string, number>(maxOrigins)
  #tls: { ca: string } | undefined

  /** `now`: a clock in ms. */
  constructor(private readonly now: () => number) {}

  /** Changes the trusted authorities: those of a PEM text alone, or the system's if null. Calls in flight keep the old ones. */
  trust(ca: string | null): void {
    this.#tls = ca === null ? undefined : { ca }
  }

  /**
   * Makes calls open new connections for a minute after one got no response: after a firewall or host failure, each silent idle connection
   * would cost another call its timeout.
   */
  avoidConnections(origin: string): void {
    this.#avoidsUntilMs.set(origin, this.now() + avoidConnectionsMs)
  }

  fetch({ url, method, headers, body }: FetchRequest, signal: AbortSignal): Promise<Response> {
    headers['Accept-Encoding'] = 'identity'
    const avoidsUntilMs = this.#avoidsUntilMs.get(url.origin)
    const isAvoiding = avoidsUntilMs !== undefined && avoidsUntilMs > this.now()
    return fetch(url.href, {
      method,
      headers,
      body,
      signal,
      redirect: 'manual',
      decompress: false,
      // When a reused connection dies, the runtime repeats a GET and a DELETE, but never a POST.
      keepalive: method !== 'DELETE' && !isAvoiding,
      // Over HTTP/2, the runtime also repeats a POST that the server refuses.
      protocol: 'http1.1',
      tls: this.#tls,
    })
  }
}
