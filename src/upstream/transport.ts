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
/** Connections that the runtime keeps open without a call, for each TLS configuration. */
const connectionsOfPool = 64
/** How long a TLS session may be resumed; the default. A second more for each pool makes the runtime tell configurations apart. */
const sessionTimeoutSeconds = 300

/** The types of the runtime lack `sessionTimeout`. */
type TlsConfiguration = Bun.TLSOptions & { sessionTimeout: number }

/** Sends requests over HTTP/1.1 on connections that are kept open, and keeps the runtime from sending a write twice. */
export class Transport {
  /** Calls in flight, by pool of connections. */
  readonly #inFlight: number[] = []
  /** The TLS configuration of each pool that was used. */
  #configurations: TlsConfiguration[] = []
  #ca: string | undefined
  /** Until when calls to an origin open new connections. */
  readonly #avoidsUntilMs = new RecentMap<string, number>(maxOrigins)

  /** `now`: a clock in ms. */
  constructor(private readonly now: () => number) {}

  /** Changes the trusted authorities: those of a PEM text alone, or the system's if null. Calls in flight keep the old ones. */
  trust(ca: string | null): void {
    this.#ca = ca ?? undefined
    this.#configurations = []
  }

  /**
   * Counts a call until `leavePool`, and returns the first pool that can keep its connection open afterwards. With one pool, 192 of 256
   * concurrent calls would need a new TLS connection.
   */
  enterPool(): number {
    let pool = 0
    while ((this.#inFlight[pool] ?? 0) >= connectionsOfPool) pool += 1
    this.#inFlight[pool] = (this.#inFlight[pool] ?? 0) + 1
    return pool
  }

  leavePool(pool: number): void {
    this.#inFlight[pool]! -= 1
  }

  /** All pools trust the same authorities; the runtime shares connections only between equal configurations. */
  #configurationOf(pool: number): TlsConfiguration | undefined {
    if (pool === 0 && this.#ca === undefined) return undefined
    return (this.#configurations[pool] ??= { ca: this.#ca, sessionTimeout: sessionTimeoutSeconds + pool })
  }

  /**
   * Makes calls open new connections for a minute after one got no response: after a firewall or host failure, each silent idle connection
   * would cost another call its timeout.
   */
  avoidConnections(origin: string): void {
    this.#avoidsUntilMs.set(origin, this.now() + avoidConnectionsMs)
  }

  fetch({ url, method, headers, body }: FetchRequest, pool: number, signal: AbortSignal): Promise<Response> {
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
      tls: this.#configurationOf(pool),
    })
  }
}
