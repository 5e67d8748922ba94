import { afterAll, afterEach, beforeEach, describe, expect, it, jest } from 'bun:test'
import { makeCertificates } from '../support/certificates.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { temporaryFolder } from '../support/processes.ts'
import { cleanUp, failureOf, makeSend, onCleanUp } from './rig.ts'
import { startTlsFront, startWire } from './tls-front.ts'
import type { UpstreamError } from '../../src/domain/errors.ts'

const [folder, otherFolder] = [temporaryFolder(), temporaryFolder()]
const certificates = await makeCertificates(folder.path)
/** From an untrusted authority by default. */
const others = await makeCertificates(otherFolder.path)
const origin = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  development: false,
  fetch: () => new Response('ok'),
})
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

/** A storage, directly or behind TLS, and our connections to it. */
async function start({ isTls = true, ca = certificates.caPem } = {}) {
  const storagePort = Number(new URL(storage.url).port)
  const front = isTls ? await startTlsFront(certificates, storagePort) : null
  const wire = await startWire(front?.port ?? storagePort)
  onCleanUp(
    () => front?.stop(),
    () => wire[Symbol.asyncDispose](),
  )
  const clock = { aheadMs: 0 }
  const now = () => performance.now() + clock.aheadMs
  const url = `${isTls ? 'https' : 'http'}://127.0.0.1:${wire.port}`
  const { send, upstream } = makeSend(url, { ca, now })
  /** The status, or the failure. */
  const outcomeOf = (request?: Parameters<typeof send>[0]): Promise<string> =>
    send(request).then(
      ({ status }) => String(status),
      (error: UpstreamError) => error.failure,
    )
  return { front, wire, upstream, send, outcomeOf, clock }
}

const times = <Result>(count: number, action: (turn: number) => Result): Result[] =>
  Array.from({ length: count }, (_, turn) => action(turn))

const write = { method: 'POST', body: '[]' } as const
const schemes = [
  ['https', true],
  ['http', false],
] as const

// Sockets and TLS, because the runtime decides which connections it uses again.
describe.each(schemes)('connections over %s', (_, isTls) => {
  it('are kept for reads, lists and POSTs, and a DELETE has its own', async () => {
    const { wire, outcomeOf } = await start({ isTls })

    const shared = [await outcomeOf(), await outcomeOf(write), await outcomeOf({ isStreamed: true })]
    const afterShared = wire.connections
    const deleted = [await outcomeOf({ method: 'DELETE' }), await outcomeOf({ method: 'DELETE' })]
    const afterDeletions = wire.connections
    const later = await outcomeOf(write)

    expect([...shared, ...deleted, later]).toEqual(Array(6).fill('200'))
    expect([afterShared, afterDeletions, wire.connections]).toEqual([1, 3, 3])
  })

  // Before: nothing arrives. In: a part of the request arrives. After: all of it, and the response is lost.
  const matrix = (['GET', 'POST', 'DELETE'] as const).flatMap((method) =>
    (['before', 'in', 'after'] as const).map((moment) => [method, moment] as const),
  )
  it.each(matrix)(
    'repeat a %s only if that is harmless, when they are lost %s it',
    async (method, moment) => {
      const { wire, outcomeOf } = await start({ isTls })
      await outcomeOf()
      if (moment === 'before') wire.plan(0)
      else if (moment === 'in') wire.plan(method === 'POST' ? 20_000 : 10)
      else
        storage.plan(() => {
          wire.die()
          return { kind: 'hang' }
        })

      const outcome = await outcomeOf({ method, body: method === 'POST' ? 'x'.repeat(50_000) : undefined })

      // The runtime itself repeats a GET on a reused connection, and we repeat it once.
      const arrived = storage.requests.length - 1
      expect([outcome, arrived + wire.cuts]).toEqual(['connection-lost', method === 'GET' ? 3 : 1])
    },
  )

  it('that have gone silent while idle delay one call by its timeout, and no more', async () => {
    const { wire, outcomeOf } = await start({ isTls })
    const kept = await Promise.all(times(10, () => outcomeOf()))

    wire.goSilent()
    const silent = await outcomeOf({ timeoutMs: 1200 })
    const later = [await outcomeOf(), await outcomeOf(), await outcomeOf(write)]

    expect([...kept, silent, ...later]).toEqual([...Array(10).fill('200'), 'timeout', '200', '200', '200'])
  })

  it('are kept if a call had less than a second for its response', async () => {
    const { wire, outcomeOf } = await start({ isTls })
    await outcomeOf()
    storage.plan(({ index }) => (index === 1 ? { kind: 'hang' } : null))

    const outcomes = [await outcomeOf({ timeoutMs: 300 }), await outcomeOf(), await outcomeOf(write)]

    expect(outcomes).toEqual(['timeout', '200', '200'])
    // The first, which ended with its call, and one for the two others.
    expect(wire.connections).toBe(2)
  })

  it('are opened anew for a minute after one was silent, and kept again after it', async () => {
    const { wire, outcomeOf, upstream, clock } = await start({ isTls })
    await outcomeOf()
    upstream.transport.avoidConnections(`${isTls ? 'https' : 'http'}://127.0.0.1:${wire.port}`)

    clock.aheadMs = 59_000
    const avoiding = [await outcomeOf(), await outcomeOf(write)]
    const opened = wire.connections
    clock.aheadMs = 61_000
    const keeping = [await outcomeOf(), await outcomeOf(write)]

    expect([...avoiding, ...keeping]).toEqual(Array(4).fill('200'))
    expect([opened, wire.connections]).toEqual([3, 3])
  })
})

describe('TLS', () => {
  it('keeps as many connections as calls were in flight, beyond the 64 of the runtime', async () => {
    const count = 150
    const { wire, outcomeOf } = await start()
    let together = Promise.withResolvers<null>()
    storage.plan(({ index }) => {
      if ((index + 1) % count === 0) together.resolve(null)
      return together.promise
    })
    const burst = () => Promise.all(times(count, (turn) => outcomeOf({ user: `user ${turn}` })))

    const outcomes = [...(await burst())]
    const opened = wire.connections
    together = Promise.withResolvers()
    outcomes.push(...(await burst()))

    expect(outcomes).toEqual(Array(2 * count).fill('200'))
    expect([opened, wire.connections]).toEqual([count, count])
  })

  it('selects HTTP/1.1 from a server that also offers HTTP/2', async () => {
    const { front, outcomeOf } = await start()

    const outcomes = [await outcomeOf(), await outcomeOf(write), await outcomeOf({ method: 'DELETE' })]

    expect(outcomes).toEqual(['200', '200', '200'])
    expect(new Set(front!.protocols)).toEqual(new Set(['http/1.1']))
  })

  it('that turns to garbage has no write repeated', async () => {
    const { wire, outcomeOf } = await start()
    await outcomeOf()
    storage.plan(() => {
      wire.garble()
      return { kind: 'hang' }
    })

    const outcomes = [await outcomeOf(write), await outcomeOf({ method: 'DELETE' })]

    expect(outcomes).toEqual(['connection-lost', 'connection-lost'])
    expect(storage.requests).toHaveLength(3)
  })

  it('trusts only the authorities of certificate_ca_bundle', async () => {
    const { outcomeOf, send, upstream } = await start({ ca: others.caPem })

    const failures = [await failureOf(send(write)), await failureOf(send({ isStreamed: true }))]
    upstream.transport.trust(certificates.caPem)

    for (const failure of failures) expect(failure).toMatchObject({ failure: 'unreachable', applied: 'no' })
    expect(await outcomeOf(write)).toBe('200')
    expect(storage.requests).toHaveLength(1)
  })
})
