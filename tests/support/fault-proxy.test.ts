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

const ask = (path = '/', init: RequestInit = {}) => fetch(proxy.url + path, init)
const codeOf = (error: unknown) => Object(error).code as unknown

describe('fault proxy', () => {
  it('relays requests and answers of all kinds unchanged, over one connection', async () => {
    const response = await ask('/a%20b?c=%2F', { method: 'PUT', body: 'hello' })
    expect(await response.json()).toEqual({ host: new URL(proxy.url).host, body: 'hello' })
    const chunked = await ask('/', { method: 'POST', body: streamOf('a'.repeat(200_000)) })
    expect(((await chunked.json()) as { body: string }).body).toHaveLength(200_000)
    for (const path of ['/large', '/stream']) expect((await (await ask(path)).text()) === large).toBe(true)
    expect((await ask('/none')).status).toBe(304)

    expect(proxy.connections).toBe(1)
    expect(applied).toEqual(['PUT /a%20b?c=%2F', 'POST /', 'GET /large', 'GET /stream', 'GET /none'])
    expect(proxy.requests[0]).toMatchObject({ index: 0, method: 'PUT', body: 'hello', applied: true })
    expect([proxy.requests[0]?.path, proxy.requests[0]?.query.get('c')]).toEqual(['/a%20b', '/'])
  })

  it('plans by what a request is, and keeps concurrent ones apart', async () => {
    proxy.plan(({ path, body }) =>
      Number(path.slice(1)) % 3 === 0 && body !== '' ? { kind: 'status', status: 503 } : null,
    )

    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const response = await ask(`/${index}`, { method: 'POST', body: String(index) })
        const text = await response.text()
        return response.status === 200 ? JSON.parse(text).body === String(index) : response.status
      }),
    )

    expect(answers).toEqual(Array.from({ length: 60 }, (_, index) => (index % 3 === 0 ? 503 : true)))
  })

  it.each<[Fault, answer: unknown[], isApplied: boolean]>([
    [
      { kind: 'status', status: 503, headers: { 'Retry-After': '1.5' }, body: '<p>' },
      [503, '<p>', '1.5'],
      false,
    ],
    [{ kind: 'status-after', status: 500, body: '0' }, [500, '0', null], true],
    [{ kind: 'rewrite', body: (real) => real.slice(0, 10) }, [200, '{"host":"1', null], true],
    [{ kind: 'rewrite', headers: { 'Retry-After': 'soon' }, body: '' }, [200, '', 'soon'], true],
    [{ kind: 'reset-before' }, ['ECONNRESET'], false],
    [{ kind: 'reset-after' }, ['ECONNRESET'], true],
  ])('answers with a fault: %j', async (fault, expected, isApplied) => {
    proxy.plan(() => fault)

    const seen = await ask('/x', { method: 'POST', body: 'x', keepalive: false }).then(
      async (answer) => [answer.status, await answer.text(), answer.headers.get('Retry-After')],
      (error) => [codeOf(error)],
    )

    expect(seen).toEqual(expected)
    expect([applied.length === 1, proxy.requests[0]?.applied]).toEqual([isApplied, isApplied])
  })

  it('answers what is not HTTP', async () => {
    proxy.plan(() => ({ kind: 'garbage' }))

    await expect(ask('/', { signal: AbortSignal.timeout(20_000) })).rejects.toThrow()
  })

  it.each([
    ['reset-before', 'ECONNRESET'],
    ['truncate', 'end'],
  ] as const)('tells %s from an orderly end on the wire: %s', async (kind, ending) => {
    proxy.plan(() => (kind === 'truncate' ? { kind, afterBytes: 10 } : { kind }))
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

  it.each(['reset-mid-body', 'truncate'] as const)('%s breaks a body off', async (kind) => {
    proxy.plan(() => ({ kind, afterBytes: 1000 }))
    const reader = (await ask('/large')).body!.getReader()
    let length = 0

    const error = await (async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) length += part.value.length
    })().catch(codeOf)

    expect(error).toBe('ECONNRESET')
    expect(length).toBeLessThanOrEqual(1000)
  })

  it.each(['hang', 'hang-after'] as const)('holds a request back until it is released: %s', async (kind) => {
    proxy.plan(({ path }) => (path === '/held' ? { kind } : null))
    let isAnswered = false
    const asked = ask('/held').finally(() => (isAnswered = true))

    await proxy.waitFor(({ path, applied }) => path === '/held' && (kind === 'hang' || applied))
    await ask('/other')
    const before = [...applied, isAnswered]
    proxy.release()

    const early = kind === 'hang' ? [] : ['GET /held']
    expect([before, (await asked).status]).toEqual([[...early, 'GET /other', false], 200])
  })

  it.each(['/large', '/stream'])(
    'holds the rest of a body from %s back until it is released',
    async (path) => {
      proxy.plan(() => ({ kind: 'hang-mid-body', afterBytes: 70_000 }))
      const reader = (await ask(path)).body!.getReader()

      const rest = [(await reader.read()).value!]
      const isEarly = rest[0]!.length > 70_000
      proxy.release()
      for (let part = await reader.read(); !part.done; part = await reader.read()) rest.push(part.value)

      expect([isEarly, Buffer.concat(rest).toString() === large]).toEqual([false, true])
    },
  )

  it('forgets a held request when its client leaves, and breaks others off when it is stopped', async () => {
    proxy.plan(() => ({ kind: 'hang' }))
    const abort = new AbortController()
    const [left, asked] = [
      ask('/left', { signal: abort.signal }).catch(() => 'left'),
      ask('/held', { method: 'POST', body: 'x' }).catch(codeOf),
    ]

    await proxy.waitFor(({ path }) => path === '/left')
    await proxy.waitFor(({ path }) => path === '/held')
    abort.abort()
    expect(await left).toBe('left')
    proxy.plan(() => null)
    expect((await ask('/next')).status).toBe(200)
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
