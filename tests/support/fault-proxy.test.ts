import { connect as connectTo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'bun:test'
import { startFaultProxy, type Fault, type FaultProxy } from './fault-proxy.ts'

let proxy: FaultProxy
let target: ReturnType<typeof Bun.serve>
/** What reached the target. */
let applied: string[]

const large = 'x'.repeat(3_000_000)

beforeEach(async () => {
  applied = []
  target = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    development: false,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = await request.text()
      applied.push(`${request.method} ${pathname}${search}`)
      if (pathname === '/large') return new Response(large)
      if (pathname === '/stream') return new Response(streamOf(large))
      if (pathname === '/none') return new Response(null, { status: 304 })
      const host = request.headers.get('Host')
      return Response.json({ host, body }, { headers: { 'X-Last-Modified': '1.00' } })
    },
  })
  proxy = await startFaultProxy({ target: `http://127.0.0.1:${target.port}` })
})

afterEach(async () => {
  await proxy.stop()
  await target.stop(true)
})

const fault = (fault: Fault) => proxy.plan(() => fault)
const ask = (path = '/', init: RequestInit = {}) => fetch(proxy.url + path, init)
const codeOf = (error: unknown) => Object(error).code as unknown

describe('fault proxy', () => {
  it('relays requests and answers unchanged', async () => {
    const response = await ask('/a%20b?c=%2F', { method: 'PUT', body: 'hello' })

    expect(await response.json()).toEqual({ host: new URL(proxy.url).host, body: 'hello' })
    expect(applied).toEqual(['PUT /a%20b?c=%2F'])
    expect(proxy.requests).toMatchObject([
      { index: 0, method: 'PUT', target: '/a%20b?c=%2F', path: '/a%20b', body: 'hello', applied: true },
    ])
    expect(proxy.requests[0]?.query.get('c')).toBe('/')
  })

  it('relays a chunked body', async () => {
    const response = await ask('/', { method: 'POST', body: streamOf('a'.repeat(200_000)) })

    expect(((await response.json()) as { body: string }).body).toHaveLength(200_000)
  })

  it.each(['/large', '/stream'])('relays a large answer from %s', async (path) => {
    const response = await ask(path)

    expect((await response.text()) === large).toBe(true)
  })

  it('relays several requests over one connection', async () => {
    for (let index = 0; index < 5; index += 1) await (await ask(`/${index}`)).text()
    const empty = await ask('/none')
    await (await ask('/after')).text()

    expect(empty.status).toBe(304)
    expect(proxy.connections).toBe(1)
    expect(applied).toHaveLength(7)
  })

  it('keeps concurrent requests apart', async () => {
    proxy.plan(({ path }) => (Number(path.slice(1)) % 3 === 0 ? { kind: 'status', status: 503 } : null))

    const statuses = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const response = await ask(`/${index}`, { method: 'POST', body: String(index) })
        const text = await response.text()
        return response.status === 200 ? JSON.parse(text).body === String(index) : response.status
      }),
    )

    expect(statuses).toEqual(Array.from({ length: 60 }, (_, index) => (index % 3 === 0 ? 503 : true)))
  })

  it('plans by what a request is', async () => {
    proxy.plan(({ index, method, body }) =>
      method === 'POST' && body === 'b' && index === 1 ? { kind: 'status', status: 502 } : null,
    )

    const statuses: number[] = []
    for (const body of ['a', 'b', 'b']) statuses.push((await ask('/', { method: 'POST', body })).status)

    expect(statuses).toEqual([200, 502, 200])
  })

  it('fact 114: answers before the target sees the request, with headers and a body of any kind', async () => {
    fault({
      kind: 'status',
      status: 503,
      headers: { 'Retry-After': '1.5', 'Content-Type': 'text/html' },
      body: '<p>',
    })

    const response = await ask()

    expect([response.status, await response.text()]).toEqual([503, '<p>'])
    expect(response.headers.get('Retry-After')).toBe('1.5')
    expect([applied, proxy.requests[0]?.applied]).toEqual([[], false])
  })

  it('fact 114: answers otherwise after the target has applied the request', async () => {
    fault({ kind: 'status-after', status: 500, body: '0' })

    const response = await ask('/x')

    expect([response.status, await response.text()]).toEqual([500, '0'])
    expect([applied, proxy.requests[0]?.applied]).toEqual([['GET /x'], true])
  })

  it('fact 114: resets the connection before the request is forwarded', async () => {
    fault({ kind: 'reset-before' })

    const error = await ask('/', { method: 'POST', body: 'x', keepalive: false }).catch(codeOf)

    expect(error).toBe('ECONNRESET')
    expect(applied).toEqual([])
  })

  it('fact 114: resets the connection after the request was applied', async () => {
    fault({ kind: 'reset-after' })

    const error = await ask('/x', { method: 'POST', body: 'x', keepalive: false }).catch(codeOf)

    expect(error).toBe('ECONNRESET')
    expect(applied).toEqual(['POST /x'])
  })

  it.each([
    ['reset-before', 'ECONNRESET'],
    ['truncate', 'end'],
  ] as const)('tells %s from an orderly end on the wire: %s', async (kind, ending) => {
    fault(kind === 'truncate' ? { kind, afterBytes: 10 } : { kind })
    const socket = connectTo({ port: Number(new URL(proxy.url).port), host: '127.0.0.1' })
    socket.resume()
    socket.write('GET /large HTTP/1.1\r\nHost: a\r\n\r\n')

    const seen = await new Promise((resolve) => {
      socket.once('error', (error) => resolve(codeOf(error)))
      socket.once('end', () => resolve('end'))
    })
    socket.destroy()

    expect(seen).toBe(ending)
  })

  it.each(['reset-mid-body', 'truncate'] as const)('fact 114: %s breaks a body off', async (kind) => {
    fault({ kind, afterBytes: 1000 })
    const response = await ask('/large')
    const received: Uint8Array[] = []

    const error = await (async () => {
      for await (const part of response.body ?? []) received.push(part)
    })().catch(codeOf)

    expect(response.status).toBe(200)
    expect(error).toBe('ECONNRESET')
    expect(Buffer.concat(received).length).toBeLessThanOrEqual(1000)
  })

  it('fact 114: answers slowly', async () => {
    fault({ kind: 'delay', ms: 30 })
    const startedAt = performance.now()

    const response = await ask()

    expect(response.status).toBe(200)
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(29)
  })

  it('fact 114: answers what is not HTTP', async () => {
    fault({ kind: 'garbage' })

    const error = await ask('/', { signal: AbortSignal.timeout(2000) }).catch((thrown: unknown) => thrown)

    expect(error).toBeInstanceOf(Error)
  })

  it('fact 114: changes the body of the real answer', async () => {
    fault({ kind: 'rewrite', body: (real) => real.slice(0, 10) })

    const response = await ask()

    expect(await response.text()).toBe('{"host":"1')
    expect(applied).toHaveLength(1)
  })

  it.each(['30', '29.5', 'Wed, 21 Oct 2037 07:28:00 GMT'])(
    'fact 116: adds headers to success: %s',
    async (when) => {
      fault({
        kind: 'rewrite',
        headers: { 'Retry-After': when, 'X-Weave-Backoff': '9', 'X-Weave-Alert': 'gone soon' },
      })

      const response = await ask()

      const names = ['Retry-After', 'X-Weave-Backoff', 'X-Weave-Alert', 'X-Last-Modified']
      expect(names.map((name) => response.headers.get(name))).toEqual([when, '9', 'gone soon', '1.00'])
      expect([response.status, ((await response.json()) as { body: string }).body]).toEqual([200, ''])
    },
  )

  it('holds a request back until it is released', async () => {
    fault({ kind: 'hang' })
    const asked = ask('/held')

    await proxy.waitFor(({ path }) => path === '/held')
    const before = [...applied]
    proxy.release()
    const response = await asked

    expect([before, applied, response.status]).toEqual([[], ['GET /held'], 200])
  })

  it('holds an answer back until it is released', async () => {
    proxy.plan(({ path }) => (path === '/held' ? { kind: 'hang-after' } : null))
    let isAnswered = false
    const asked = ask('/held').finally(() => {
      isAnswered = true
    })

    await proxy.waitFor((request) => request.applied)
    await ask('/other')
    const before = [...applied, isAnswered]
    proxy.release()

    expect([before, (await asked).status]).toEqual([['GET /held', 'GET /other', false], 200])
  })

  it.each(['/large', '/stream'])(
    'holds the rest of a body from %s back until it is released',
    async (path) => {
      fault({ kind: 'hang-mid-body', afterBytes: 70_000 })
      const response = await ask(path)
      const reader = response.body!.getReader()

      const first = await reader.read()
      proxy.release()
      const rest: Uint8Array[] = [first.value!]
      for (let part = await reader.read(); !part.done; part = await reader.read()) rest.push(part.value)

      expect(Buffer.concat(rest).toString() === large).toBe(true)
    },
  )

  it('forgets a held request when its client leaves', async () => {
    fault({ kind: 'hang' })
    const abort = new AbortController()
    const asked = ask('/held', { signal: abort.signal }).catch(() => 'left')

    await proxy.waitFor(({ path }) => path === '/held')
    abort.abort()

    expect(await asked).toBe('left')
    proxy.plan(() => null)
    expect((await ask('/next')).status).toBe(200)
  })

  it('breaks held connections off when it is stopped', async () => {
    fault({ kind: 'hang' })
    const asked = ask('/held', { method: 'POST', body: 'x' }).catch(codeOf)

    await proxy.waitFor(({ path }) => path === '/held')
    await proxy.stop()

    expect(await asked).toBe('ECONNRESET')
  })

  it('resets the connection when the target cannot be reached', async () => {
    // Port 1, because a port that was free a moment ago may be taken by another test process.
    const astray = await startFaultProxy({ target: 'http://127.0.0.1:1' })

    const error = await fetch(astray.url, { method: 'POST', body: 'x' }).catch(codeOf)
    await astray.stop()

    expect(error).toBe('ECONNRESET')
  })
})

function streamOf(text: string): ReadableStream<Uint8Array> {
  const parts = text.match(/.{1,50000}/g) ?? []
  return new ReadableStream({
    pull(controller) {
      const part = parts.shift()
      if (part === undefined) return controller.close()
      controller.enqueue(new TextEncoder().encode(part))
    },
  })
}
