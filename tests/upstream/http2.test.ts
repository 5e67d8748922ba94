import { afterAll, afterEach, beforeEach, describe, expect, it, jest } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createSecureServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Breakers } from '../../src/upstream/circuit-breaker.ts'
import { readText } from '../support/byte-source.ts'
import { startTestBridge } from '../support/bridge.ts'
import { makeCertificates } from '../support/certificates.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { temporaryFolder } from '../support/processes.ts'
import { cleanUp, failureOf, makeSend, onCleanUp } from './rig.ts'
import {
  startHaproxy,
  startNginx,
  startRefusing,
  startWire,
  type Front,
  type FrontOptions,
  type Wire,
} from './tls-front.ts'
import type { UpstreamError } from '../../src/domain/errors.ts'

const [folder, otherFolder] = [temporaryFolder(), temporaryFolder()]
const certificates = await makeCertificates(folder.path)
/** From an untrusted authority by default. */
const others = await makeCertificates(otherFolder.path)
const origin = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, fetch: answer })
let storage: FaultProxy

beforeEach(async () => {
  storage = await startFaultProxy({ target: origin.url })
})

afterEach(async () => {
  jest.useRealTimers()
  storage.release()
  await cleanUp()
  await storage.stop()
})

afterAll(() => {
  void origin.stop(true)
  folder[Symbol.dispose]()
  otherFolder[Symbol.dispose]()
})

function answer(request: Request): Response {
  const length = Number(new URL(request.url).searchParams.get('length') ?? 2)
  return new Response('ok'.repeat(length / 2))
}

type Starter = (options: FrontOptions) => Promise<Front>

/** A storage behind TLS, and our connection to it. */
async function start(
  starter: Starter = startNginx,
  options: Partial<FrontOptions> = {},
  ca = certificates.caPem,
) {
  const storagePort = Number(new URL(storage.url).port)
  const front = await starter({ folder, certificates, storagePort, ...options })
  const wire = await startWire(front.port)
  onCleanUp(
    () => front.stop(),
    () => wire[Symbol.asyncDispose](),
  )
  const clock = { aheadMs: 0 }
  const now = () => performance.now() + clock.aheadMs
  const breakers = new Breakers({ now, random: () => 0.5 })
  const url = `https://127.0.0.1:${wire.port}`
  const { send, upstream } = makeSend(url, { ca, now, breakers })
  /** The status, or the failure. */
  const outcomeOf = (request?: Parameters<typeof send>[0]): Promise<string> =>
    send(request).then(
      ({ status }) => String(status),
      (error: UpstreamError) => error.failure,
    )
  const isRefused = () => {
    const request = { target: 'storage', method: 'GET', url: new URL(url), user: 'user 0' } as const
    return breakers.circuitOf(request).refusal(request) !== null
  }
  return { front, wire, url, upstream, send, outcomeOf, isRefused, clock }
}

/** A bridge whose storage is behind TLS. */
async function startBridge(starter: Starter, options: Partial<FrontOptions> = {}) {
  const bridge = await startTestBridge({
    settings: { certificate_ca_bundle: certificates.caPath },
    writable: ['tabs'],
  })
  const node = await startFaultProxy({ target: bridge.sandbox.storageUrl })
  const front = await starter({
    folder,
    certificates,
    storagePort: Number(new URL(node.url).port),
    ...options,
  })
  onCleanUp(
    () => front.stop(),
    () => node.stop(),
    () => bridge.stop(),
  )
  bridge.sandbox.switches.nodeUrl = `https://127.0.0.1:${front.port}`
  const put = (id: string) =>
    bridge.ask(`/collections/tabs/records/${id}`, { method: 'PUT', body: { data: { payload: id } } })
  return { bridge, node, put }
}

const times = <Result>(count: number, action: (turn: number) => Result): Result[] =>
  Array.from({ length: count }, (_, turn) => action(turn))

/** How often each of these occurred. */
function tally(outcomes: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}

/** The protocols of all requests that the storage has seen. */
const protocols = () => tally(storage.requests.map(({ headers }) => headers.get('x-protocol')!.slice(0, 6)))

const write = { method: 'POST', body: '[]' } as const

describe.each([
  ['nginx', startNginx],
  ['HAProxy', startHaproxy],
] as [string, Starter][])('HTTP/2 to %s', (_, starter) => {
  it('sends 300 requests at a time on few connections, each of which accepts 100', async () => {
    const { wire, outcomeOf } = await start(starter)

    const outcomes = await Promise.all(times(300, (turn) => outcomeOf(turn % 2 === 0 ? {} : write)))

    expect(tally(outcomes)).toEqual({ 200: 300 })
    expect(protocols()).toEqual({ 'HTTP/2': 300 })
    expect(wire.connections).toBeLessThanOrEqual(6)
  })

  it('sends a body of 2 MB unchanged, and none', async () => {
    const { outcomeOf } = await start(starter)
    const body = '"Größe 😀"'.repeat(140_000)

    const outcomes = [await outcomeOf({ method: 'POST', body }), await outcomeOf({ method: 'DELETE' })]

    expect(outcomes).toEqual(['200', '200'])
    expect(storage.requests[0]!.headers.get('content-length')).toBe(String(Buffer.byteLength(body)))
    expect(storage.requests[0]!.body === body).toBe(true)
  })

  it('sends deletions while this process is busy', async () => {
    const { outcomeOf } = await start(starter)
    const outcomes: string[] = []

    for (const _ of times(5, () => 0)) {
      const deletions = times(20, () => outcomeOf({ method: 'DELETE' }))
      const startedAtMs = performance.now()
      await Promise.resolve()
      while (performance.now() < startedAtMs + 10);
      outcomes.push(...(await Promise.all(deletions)))
    }

    expect(tally(outcomes)).toEqual({ 200: 100 })
  })

  it('uses HTTP/1.1 for long lists, so that their readers block no other call', async () => {
    const { send, outcomeOf } = await start(starter)

    const { stream } = await send({ path: '/?length=4000000', isStreamed: true })
    const outcome = await outcomeOf()
    const list = await readText(stream!)

    expect(outcome).toBe('200')
    expect(list).toHaveLength(4_000_000)
    expect(protocols()).toEqual({ 'HTTP/1': 1, 'HTTP/2': 1 })
  })

  it('trusts only the authorities of certificate_ca_bundle', async () => {
    const { outcomeOf, send, upstream } = await start(starter, {}, others.caPem)

    const failures = [await failureOf(send(write)), await failureOf(send({ isStreamed: true }))]
    upstream.transport.trust(certificates.caPem)

    for (const failure of failures) expect(failure).toMatchObject({ failure: 'unreachable', applied: 'no' })
    expect(await outcomeOf(write)).toBe('200')
    expect(protocols()).toEqual({ 'HTTP/2': 1 })
  })

  it('continues after a restart that no longer offers HTTP/2', async () => {
    const { front, outcomeOf } = await start(starter)
    const before = await outcomeOf(write)

    await front.reload({ http2: false })
    const after = [await outcomeOf(), await outcomeOf(write), await outcomeOf({ method: 'DELETE' })]

    expect([before, ...after]).toEqual(['200', '200', '200', '200'])
    expect(protocols()).toEqual({ 'HTTP/2': 1, 'HTTP/1': 3 })
  })
})

describe('HTTP/1.1', () => {
  it('is used if HTTP/2 is not offered, and a read tries HTTP/2 again after ten minutes', async () => {
    const { front, wire, outcomeOf, clock } = await start(startNginx, { http2: false })

    const outcomes = [await outcomeOf(), await outcomeOf(write), await outcomeOf({ method: 'DELETE' })]
    const connections = wire.connections
    await front.reload({ http2: true })
    outcomes.push(await outcomeOf())
    clock.aheadMs = 600_000
    // A broken handshake could be a connection that broke later, so a write does not try.
    outcomes.push(await outcomeOf(write), await outcomeOf(), await outcomeOf(write))

    expect(tally(outcomes)).toEqual({ 200: 7 })
    expect(connections).toBeLessThanOrEqual(3)
    expect(protocols()).toEqual({ 'HTTP/1': 5, 'HTTP/2': 2 })
  })
})

describe('the first calls to an origin', () => {
  it('cost one failed handshake together if the server rejects HTTP/2 with an alert', async () => {
    const { wire, outcomeOf } = await start(startRefusing)

    const outcomes = await Promise.all(times(40, (turn) => outcomeOf(turn % 4 === 3 ? write : {})))

    expect(tally(outcomes)).toEqual({ 200: 40 })
    expect(tally(storage.requests.map(({ method }) => method))).toEqual({ GET: 30, POST: 10 })
    expect(wire.connections).toBeLessThanOrEqual(41)
  })

  it('wait at most three seconds for one that hangs, and never beyond their deadline', async () => {
    const { outcomeOf } = await start()
    storage.plan(({ index }) => (index === 0 ? { kind: 'hang' } : null))
    jest.useFakeTimers()
    void outcomeOf()
    const [patient, hasty] = [outcomeOf(), outcomeOf({ timeoutMs: 400 })]
    await storage.waitFor(({ index }) => index === 0)

    jest.advanceTimersByTime(400)
    expect(await hasty).toBe('timeout')
    jest.advanceTimersByTime(2599)
    const isEarly = Bun.peek.status(patient) !== 'pending'
    jest.advanceTimersByTime(1)

    expect([isEarly, await patient, await outcomeOf()]).toEqual([false, '200', '200'])
    expect(tally(storage.requests.map(({ method }) => method))).toEqual({ GET: 3 })
  })
})

describe('HTTP/2', () => {
  it('is used again ten seconds after a broken handshake, if it was used before', async () => {
    const { wire, outcomeOf, clock } = await start()
    storage.plan(({ index }) => {
      if (index !== 1) return null
      wire.garble()
      return { kind: 'hang' }
    })
    await outcomeOf()

    const outcomes = [await outcomeOf(), await outcomeOf(write)]
    clock.aheadMs = 10_000
    outcomes.push(await outcomeOf(), await outcomeOf(write))

    expect(tally(outcomes)).toEqual({ 200: 4 })
    expect(protocols()).toEqual({ 'HTTP/2': 4, 'HTTP/1': 2 })
  })

  it('is tried again by one read, while the others continue without it', async () => {
    const { wire, outcomeOf, clock } = await start(startNginx, { http2: false })
    for (const _ of times(2, () => 0)) await Promise.all(times(20, () => outcomeOf()))
    const { connections } = wire

    clock.aheadMs = 600_000
    const outcomes = await Promise.all(times(20, () => outcomeOf()))

    expect(tally(outcomes)).toEqual({ 200: 20 })
    expect(wire.connections - connections).toBeLessThanOrEqual(1)
  })
})

describe('connections that end with GOAWAY', () => {
  it('cost no read, and send no write twice', async () => {
    const { outcomeOf } = await start(startNginx, { requestsOfConnection: 20 })

    const reads = await Promise.all(times(200, () => outcomeOf()))
    const before = storage.requests.length
    const writes = tally(await Promise.all(times(200, () => outcomeOf(write))))

    expect(tally(reads)).toEqual({ 200: 200 })
    expect(writes[200]! + writes['connection-lost']!).toBe(200)
    // A refused request was not applied.
    expect(storage.requests.length - before).toBe(writes[200]!)
  })

  it('survive a reload of nginx with another certificate', async () => {
    const both = certificates.caPem + others.caPem
    const { front, outcomeOf, upstream } = await start(startNginx, {}, both)
    // A connection that a worker accepts during its shutdown never gets GOAWAY, and is used as long as there are requests.
    const outcomes = [await outcomeOf()]
    const reloading = new AbortController()
    const asking = times(20, async () => {
      while (!reloading.signal.aborted) {
        outcomes.push(await outcomeOf())
        // A refusal takes no time, so other tasks would never run.
        await Bun.sleep(1)
      }
    })

    await front.reload({ certificates: others }).finally(() => reloading.abort())
    await Promise.all(asking)
    upstream.transport.trust(certificates.caPem)

    expect(Object.keys(tally(outcomes))).toEqual(['200'])
    expect(await outcomeOf()).toBe('unreachable')
  })
})

describe('a lost connection', () => {
  it('fails none of 100 reads on it, each of which is sent again', async () => {
    const { wire, outcomeOf } = await start()
    const hanging = await hangOn(wire, 100, (user) => outcomeOf({ user: `user ${user}` }))

    wire.die()
    const outcomes = await Promise.all(hanging)

    expect(tally(outcomes)).toEqual({ 200: 100 })
    expect(storage.requests).toHaveLength(201)
    expect(wire.connections).toBeLessThanOrEqual(4)
  })

  it('is one failure, however many writes were on it', async () => {
    const { wire, outcomeOf, isRefused } = await start()
    const hanging = await hangOn(wire, 100, (user) => outcomeOf({ ...write, user: `user ${user}` }))

    wire.die()
    const outcomes = await Promise.all(hanging)
    const isRefusedAfterOne = isRefused()
    storage.plan(() => {
      wire.die()
      return { kind: 'hang' }
    })
    for (const user of times(3, (turn) => turn)) await outcomeOf({ ...write, user: `user ${user}` })

    expect(tally(outcomes)).toEqual({ 'connection-lost': 100 })
    expect([isRefusedAfterOne, isRefused()]).toEqual([false, true])
  })

  // Before: nothing arrives. In: a part of the request arrives. After: all of it, and the response is lost.
  const matrix = (['HTTP/2', 'HTTP/1.1'] as const).flatMap((protocol) =>
    (['GET', 'POST', 'DELETE'] as const).flatMap((method) =>
      (['before', 'in', 'after'] as const).map((moment) => [protocol, method, moment] as const),
    ),
  )
  it.each(matrix)(
    'over %s has a %s repeated only if that is harmless, when it is lost %s it',
    async (...row) => {
      const [protocol, method, moment] = row
      const { wire, outcomeOf } = await start(startNginx, { http2: protocol === 'HTTP/2' })
      await outcomeOf()
      if (moment === 'before') wire.plan(0)
      else if (moment === 'in') wire.plan(method === 'POST' ? 20_000 : 10)
      else
        storage.plan(() => {
          wire.die()
          return { kind: 'hang' }
        })

      const outcome = await outcomeOf({ method, body: method === 'POST' ? 'x'.repeat(50_000) : undefined })

      // The runtime itself repeats a GET on a reused HTTP/1.1 connection.
      const most = method !== 'GET' ? 1 : protocol === 'HTTP/2' ? 2 : 3
      const arrived = storage.requests.length - 1
      expect([outcome, arrived + wire.cuts]).toEqual(['connection-lost', most])
    },
  )

  it.each(['HTTP/2', 'HTTP/1.1'])(
    'over %s has no write repeated when it turns to garbage',
    async (protocol) => {
      const { wire, outcomeOf } = await start(startNginx, { http2: protocol === 'HTTP/2' })
      await outcomeOf()
      storage.plan(() => {
        wire.garble()
        return { kind: 'hang' }
      })

      const outcomes = [await outcomeOf(write), await outcomeOf({ method: 'DELETE' })]

      expect(outcomes).toEqual(['connection-lost', 'connection-lost'])
      expect(storage.requests).toHaveLength(3)
    },
  )

  it('is no longer used once a request on it got no response for more than a second', async () => {
    const { wire, outcomeOf } = await start()
    await outcomeOf()
    const { connections } = wire

    wire.goSilent()
    const silent = await Promise.all(times(4, () => outcomeOf({ timeoutMs: 1200 })))
    const later = await Promise.all(times(20, () => outcomeOf()))

    expect(tally(silent)).toEqual({ timeout: 4 })
    expect(tally(later)).toEqual({ 200: 20 })
    expect(wire.connections).toBeGreaterThan(connections)
  })
})

describe('connections of HTTP/1.1', () => {
  it.each(['lists beside HTTP/2', 'where nothing else is offered'])(
    'that have gone silent while idle delay one call each by its timeout, and no more: %s',
    async (what) => {
      const { wire, outcomeOf } = await start(startNginx, { http2: what === 'lists beside HTTP/2' })
      const list = { isStreamed: true }
      const kept = await Promise.all(times(10, () => outcomeOf(list)))
      await outcomeOf()

      wire.goSilent()
      const silent = await outcomeOf({ ...list, timeoutMs: 1200 })
      const later = [await outcomeOf(list), await outcomeOf(list), await outcomeOf(write), await outcomeOf()]

      expect(tally(kept)).toEqual({ 200: 10 })
      expect(silent).toBe('timeout')
      expect(tally(later)).toEqual({ 200: 4 })
    },
  )
})

/** A server that returns a long list for each request over HTTP/2, and ends every other handshake. */
async function startHttp2Only() {
  const key = readFileSync(certificates.keyPath)
  const cert = readFileSync(certificates.certificatePath)
  const server = createSecureServer({ key, cert, allowHTTP1: false })
  const count = { connections: 0, sessions: 0 }
  server.on('connection', () => (count.connections += 1))
  server.on('session', () => (count.sessions += 1))
  server.on('stream', (stream: ServerHttp2Stream) => {
    stream.respond({ ':status': 200 })
    stream.end('x'.repeat(600_000))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onCleanUp(() => void server.close())
  const { port } = server.address() as AddressInfo
  const { send } = makeSend(`https://127.0.0.1:${port}`, { ca: certificates.caPem })
  return {
    endedHandshakes: () => count.connections - count.sessions,
    read: () => send({ maxBytes: 1_000_000 }),
    async list() {
      const { stream } = await send({ isStreamed: true })
      return (await readText(stream!)).length
    },
  }
}

describe('a server that only offers HTTP/2', () => {
  it.each(['before anything else', 'after another call'])(
    'gets lists over HTTP/2 as well, after one rejected handshake: %s',
    async (moment) => {
      const { read, list, endedHandshakes } = await startHttp2Only()

      if (moment === 'after another call') await read()
      const lengths = [await list(), await list(), await list()]

      expect(lengths).toEqual([600_000, 600_000, 600_000])
      expect(endedHandshakes()).toBe(1)
    },
  )
})

describe('a reset stream', () => {
  it('with INTERNAL_ERROR costs no read, and sends no write twice', async () => {
    const { outcomeOf } = await start()
    const path = '/?length=200000'
    const breakConnectionOnce = (index: number) =>
      storage.plan((request) =>
        request.index === index ? { kind: 'reset-mid-body', afterBytes: 100_000 } : null,
      )

    breakConnectionOnce(0)
    const read = await outcomeOf({ path })
    breakConnectionOnce(2)
    const written = await outcomeOf({ path, ...write })

    expect([read, written]).toEqual(['200', 'connection-lost'])
    expect(storage.requests.map(({ method }) => method)).toEqual(['GET', 'GET', 'POST'])
  })

  // HAProxy resets applied requests like this, when the storage behind it dies.
  it('with REFUSED_STREAM sends no POST twice', async () => {
    const { outcomeOf } = await start(startHaproxy)
    await outcomeOf()
    storage.plan(() => ({ kind: 'reset-after' }))

    const outcome = await outcomeOf(write)

    expect(outcome).toBe('connection-lost')
    expect(storage.requests.map((request) => request.method)).toEqual(['GET', 'POST'])
  })

  it('with REFUSED_STREAM is no conflict with our own deletion, which the runtime sends again', async () => {
    const { bridge, node, put } = await startBridge(startHaproxy)
    await put('old')
    let isBroken = false
    node.plan(({ method }) => {
      if (method !== 'DELETE' || isBroken) return null
      isBroken = true
      return { kind: 'reset-after' }
    })

    const deleted = await bridge.ask('/collections/tabs/records/old', { method: 'DELETE' })

    expect([isBroken, deleted.status]).toEqual([true, 204])
    expect((await bridge.ask('/collections/tabs/records')).body.data).toEqual([])
  })

  it.each([[true], [false]])(
    'is a 412 if the deleted version was replaced by another device, and unknown without a version; reset %p',
    async (isReset) => {
      const { bridge, node, put } = await startBridge(startHaproxy)
      const { sandbox, user } = bridge
      const deleteMeanwhile = async (isForVersion: boolean) => {
        const etag = (await put('old')).headers.get('etag')!
        let deletions = 0
        node.plan(({ method }) => {
          if (method !== 'DELETE') return null
          deletions += 1
          if (isReset && deletions === 1) return { kind: 'reset-after' }
          if (deletions <= 2) sandbox.write(user, 'tabs', [{ id: 'old', payload: 'theirs' }])
          return null
        })
        const headers: Record<string, string> = isForVersion ? { 'If-Match': etag } : {}
        const { status } = await bridge.ask('/collections/tabs/records/old', { method: 'DELETE', headers })
        expect(deletions).toBe(isReset ? 2 : 1)
        return status
      }

      const statuses = [await deleteMeanwhile(true), await deleteMeanwhile(false)]

      expect(statuses).toEqual([412, 503])
      expect(sandbox.records(user, 'tabs')).toMatchObject([{ payload: 'theirs' }])
    },
  )
})

/** Sends requests after a completed one, which arrive and are never answered; later ones are. */
async function hangOn<Outcome>(
  wire: Wire,
  count: number,
  ask: (user: number) => Promise<Outcome>,
): Promise<Promise<Outcome>[]> {
  await ask(0)
  storage.plan(() => ({ kind: 'hang' }))
  const hanging = times(count, ask)
  await storage.waitFor(({ index }) => index === count)
  storage.plan(() => null)
  expect(wire.connections).toBe(1)
  return hanging
}
