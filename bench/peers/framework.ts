/**
 * Pass-through with only what any such service needs: the framework, a timeout that aborts the call, and common headers. Shows how much of
 * the difference to pass-through is not ours.
 */
import { Elysia } from 'elysia'

const backend = process.env.UPSTREAM ?? ''
const startedAtMs = new WeakMap<Request, number>()

new Elysia({ normalize: false, aot: true, precompile: true })
  .onRequest(({ request }) => {
    startedAtMs.set(request, performance.now())
  })
  .mapResponse(({ request, response }) => {
    startedAtMs.delete(request)
    return response as Response
  })
  .get('/1.5/:user/storage/:collection', ({ request }) => passOn(request))
  .get('/1.5/:user/storage/:collection/:record', ({ request }) => passOn(request))
  .listen({ hostname: '127.0.0.1', port: Number(process.env.PORT), development: false, idleTimeout: 240 })

async function passOn({ url, headers }: Request): Promise<Response> {
  const call = new AbortController()
  const timer = setTimeout(() => call.abort(), 20_000)
  const response = await fetch(backend + url.slice(url.indexOf('/', 8)), {
    headers: {
      Accept: 'application/json',
      'User-Agent': headers.get('user-agent') ?? 'nobody',
      Authorization: `Hawk id="${'i'.repeat(180)}", ts="1763700000", nonce="12345678", mac="${'m'.repeat(44)}"`,
    },
    redirect: 'manual',
    decompress: false,
    signal: call.signal,
  })
  const body = await response.bytes()
  clearTimeout(timer)
  return new Response(body, {
    status: response.status,
    headers: {
      'Cache-Control': 'no-cache',
      Vary: 'Authorization, X-Client-State, X-KeyID, Origin',
      'X-Content-Type-Options': 'nosniff',
      'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
      'Content-Type': 'application/json; charset=utf-8',
      ETag: '"1763700000010"',
      'Last-Modified': 'Fri, 21 Nov 2025 04:40:00 GMT',
      'X-Request-Id': '0123456789abcdef',
    },
  })
}
