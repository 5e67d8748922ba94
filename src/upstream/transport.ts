import { RecentMap } from '../domain/bounded.ts'
import { codeOf } from './answer.ts'
import type { Address } from './request.ts'

interface FetchRequest {
  method: 'GET' | 'POST' | 'DELETE'
  url: Address
  headers: Record<string, string>
  body?: string
  isStreamed?: boolean
}

/** For how long an origin is believed not to offer HTTP/2; a short time where the handshake broke, which may have had another reason. */
const withoutHttp2Ms = { HTTP2Unsupported: 600_000, EPROTO: 10_000 }
const maxOrigins = 1000

/** Carries requests over HTTP/2 or HTTP/1.1, and keeps the runtime from sending a write twice. */
export class Transport {
  /** Origins that do not offer HTTP/2, and until when they are not asked again. */
  readonly #withoutHttp2 = new RecentMap<string, number>(maxOrigins)

  /** `http2`: whether it is used where it is offered over TLS; `now`: a clock in ms. */
  constructor(private readonly options: { http2: boolean; now(): number }) {}

  fetch(request: FetchRequest, signal: AbortSignal, tls: { ca: string } | undefined): Promise<Response> {
    const protocol = this.#protocolOf(request.url.origin, request.method, request.isStreamed)
    return protocol === 'http2'
      ? this.#fetchOverHttp2(request, signal, tls)
      : fetchOver(protocol, request, signal, tls)
  }

  /** Whether calls to an origin share a connection, as far as is known. */
  readonly sharesConnection = (origin: string): boolean => this.#protocolOf(origin, 'POST') === 'http2'

  /** An origin that does not offer HTTP/2 has got nothing before that shows. */
  async #fetchOverHttp2(
    request: FetchRequest,
    signal: AbortSignal,
    tls: { ca: string } | undefined,
  ): Promise<Response> {
    const { url, method } = request
    try {
      const response = await fetchOver('http2', request, signal, tls)
      this.#withoutHttp2.delete(url.origin)
      return response
    } catch (error) {
      const code = codeOf(error)
      if (!lacksHttp2(code, method)) throw error
      const response = await fetchOver('http1.1', request, signal, tls)
      this.#withoutHttp2.set(url.origin, this.options.now() + withoutHttp2Ms[code])
      return response
    }
  }

  /** Long lists have connections of their own: a reader who stops would hold the window of all calls on a shared one. */
  #protocolOf(origin: string, method: string, isStreamed = false): 'http2' | 'http1.1' | undefined {
    if (!origin.startsWith('https:')) return undefined
    if (!this.options.http2 || isStreamed) return 'http1.1'
    const untilMs = this.#withoutHttp2.get(origin)
    // Only a read asks again, because a write can't be repeated when the answer is a broken handshake.
    return untilMs !== undefined && (this.options.now() < untilMs || method !== 'GET') ? 'http1.1' : 'http2'
  }
}

/**
 * Whether a TLS server has no HTTP/2. It selects no protocol, or ends the handshake; that looks like a connection that broke
 * later, when a write had been sent.
 */
function lacksHttp2(code: string | null, method: string): code is keyof typeof withoutHttp2Ms {
  return code === 'HTTP2Unsupported' || (code === 'EPROTO' && method === 'GET')
}

function fetchOver(
  protocol: 'http2' | 'http1.1' | undefined,
  { url, method, headers, body }: FetchRequest,
  signal: AbortSignal,
  tls: { ca: string } | undefined,
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
