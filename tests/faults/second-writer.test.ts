import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { ProxiedRequest } from '../support/fault-proxy.ts'

let bridge: FaultyBridge
let user: SandboxUser
let users = 0

beforeAll(async () => {
  bridge = await startFaultyBridge({
    writable: ['tabs', 'forms'],
    settings: { request_timeout_seconds: '5' },
  })
})

afterAll(() => bridge.stop())

beforeEach(async () => {
  user = bridge.sandbox.addUser(`shared ${(users += 1)}`)
  await bridge.ask('', { as: user })
})

describe('a batch and another device that writes between its snapshot and its commit', () => {
  it('detects that a write without a response was not applied, and decides it again', async () => {
    const at = bridge.sandbox.write(user, 'tabs', [record('mine', 'old'), record('second', 'old')])
    onFirst(isCommit, () => bridge.sandbox.write(user, 'tabs', [record('mine', 'of the other device')]), {
      kind: 'reset-before',
    })

    const { status, responses } = await batch([
      put('tabs', 'mine', 'new', { 'If-Match': `"${at}"` }),
      put('tabs', 'second', 'new'),
    ])

    expect(status).toBe(200)
    expect(responses.map((each) => each.status)).toEqual([412, 200])
    expect(payloads('tabs')).toEqual({ mine: 'of the other device', second: 'new' })
  })

  it('reports that the other has overwritten every trace of a write without a response', async () => {
    const at = bridge.sandbox.write(user, 'tabs', [record('mine', 'old')])
    const unknown = bridge.eventsAbout('tabs', 'batch.unknown')
    onFirst(isCommit, () => bridge.sandbox.write(user, 'tabs', [record('mine', 'of the other device')]), {
      kind: 'reset-before',
    })

    const { status } = await batch([put('tabs', 'mine', 'new', { 'If-Match': `"${at}"` })])

    expect(status).toBe(503)
    expect(bridge.eventsAbout('tabs', 'batch.unknown')).toBe(unknown + 1)
    expect(payloads('tabs')).toEqual({ mine: 'of the other device' })
  })
})

describe('a client that disconnects', () => {
  it.each(['at the snapshot', 'while it is staged', 'at the commit'])(
    'does not stop a batch %s',
    async (moment) => {
      bridge.sandbox.write(user, 'tabs', [record('first', 'old')])
      bridge.sandbox.write(user, 'forms', [record('second', 'old')])
      const holds = {
        'at the snapshot': isSnapshot,
        'while it is staged': isStaging,
        'at the commit': isCommit,
      }
      const isHeld = holds[moment as keyof typeof holds]
      const arrived = Promise.withResolvers<void>()
      const goOn = Promise.withResolvers<void>()
      bridge.planFor(user, async (request) => {
        if (!isHeld(request)) return null
        arrived.resolve()
        await goOn.promise
        return null
      })
      const isOver = watchBatch()
      const abort = new AbortController()
      const asked = batch([put('tabs', 'first', 'new'), put('forms', 'second', 'new')], abort.signal)

      await arrived.promise
      abort.abort()
      await asked.catch(() => {})
      goOn.resolve()
      await eventually('the batch has ended', isOver)

      const seen = JSON.stringify([payloads('tabs'), payloads('forms')])
      const whole = JSON.stringify([{ first: 'new' }, { second: 'new' }])
      const nothing = JSON.stringify([{ first: 'old' }, { second: 'old' }])
      // A batch may be given up before anything was written, but never afterwards.
      expect(moment === 'at the commit' ? [whole] : [whole, nothing]).toContain(seen)
    },
  )
})

describe('a client that disconnects at the second commit', () => {
  it('does not stop the check whether it was applied, nor does the shutdown of the service', async () => {
    const own = await startFaultyBridge({ writable: ['tabs', 'forms'] })
    const someone = own.sandbox.addUser('somebody')
    const bucket = `/v1/buckets/${someone.clientState}/collections`
    await own.ask(bucket, { as: someone })
    for (const name of ['tabs', 'forms']) own.sandbox.write(someone, name, [record('a', 'old')])
    const arrived = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    let commits = 0
    let looks = 0
    own.planFor(someone, async (request) => {
      if (isCommit(request)) {
        commits += 1
        return commits === 2 ? { kind: 'reset-after' } : null
      }
      // The check takes longer than the bridge waits for a client that has disconnected.
      if (commits === 2) {
        looks += 1
        arrived.resolve()
        await goOn.promise
      }
      return null
    })
    const abort = new AbortController()
    const requests = ['tabs', 'forms'].map((name) => ({
      method: 'PUT',
      path: `${bucket.slice(3)}/${name}/records/a`,
      body: { data: { payload: 'new' } },
    }))
    const headers = { ...own.identityOf(someone), 'Content-Type': 'application/json' }
    const body = JSON.stringify({ requests })
    const asked = fetch(`${own.url}/v1/batch`, { method: 'POST', headers, body, signal: abort.signal })
    await arrived.promise
    abort.abort()
    await asked.catch(() => {})

    const ended = own.end(10_000)
    setTimeout(goOn.resolve, 400)
    await ended

    const logged = own.logs.map((line) => (JSON.parse(line) as { event: string }).event)
    expect(logged).toContain('batch.committed')
    expect(looks).toBe(1)
    await own.stop()
  })
})

interface SubResponse {
  status: number
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
  body: any
}

async function batch(requests: object[], signal?: AbortSignal) {
  const response = await fetch(`${bridge.url}/v1/batch`, {
    method: 'POST',
    headers: { ...bridge.identityOf(user), 'Content-Type': 'application/json' },
    body: JSON.stringify({ requests }),
    ...(signal && { signal }),
  })
  const body = (await response.json()) as { responses?: SubResponse[] }
  return { status: response.status, responses: body.responses ?? [] }
}

function record(id: string, payload: string) {
  return { id, payload }
}

function path(collection: string, id: string): string {
  return `/buckets/${user.clientState}/collections/${collection}/records/${id}`
}

function put(collection: string, id: string, payload: string, headers: Record<string, string> = {}) {
  return { method: 'PUT', path: path(collection, id), headers, body: { data: { payload } } }
}

function payloads(collection: string): Record<string, string> {
  return Object.fromEntries(bridge.sandbox.records(user, collection).map(({ id, payload }) => [id, payload]))
}

function isSnapshot({ method, path: at }: ProxiedRequest): boolean {
  return method === 'GET' && at.includes('/storage/')
}

function isStaging({ method, query }: ProxiedRequest): boolean {
  return method === 'POST' && query.has('batch') && !query.has('commit')
}

function isCommit(request: ProxiedRequest): boolean {
  return request.method !== 'GET' && !isStaging(request)
}

/** Runs an action of the other device when the first such call arrives. */
function onFirst(
  meets: (request: ProxiedRequest) => boolean,
  meanwhile: () => unknown,
  fault: { kind: 'reset-before' } | null = null,
): void {
  let isOver = false
  bridge.planFor(user, (request) => {
    if (isOver || !meets(request)) return null
    isOver = true
    meanwhile()
    return fault
  })
}

/** Detects whether a batch has ended from now on: by the log, whether the client is still connected or not. */
function watchBatch(): () => boolean {
  const from = bridge.logs.length
  return () =>
    bridge.logs
      .slice(from)
      .map((line) => JSON.parse(line) as { event: string; route?: string })
      .some(({ event, route }) => event === 'request' && route === 'batch')
}
