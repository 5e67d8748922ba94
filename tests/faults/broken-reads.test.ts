import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from 'bun:test'

import { hangForever, startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault } from '../support/fault-proxy.ts'

/** Small enough to be read completely before the response starts. */
const shortList = 30
/** About 1 MB, so that it streams. */
const longList = 2000
const requestTimeoutMs = 800
/** Far beyond every timeout of these bridges: a request without a response by then never gets one. */
const watchdogMs = 30_000

/** With the usual timeouts, which a responding storage never exceeds here. */
let patient: FaultyBridge
/** For a storage that does not respond. */
let impatient: FaultyBridge
/** With a short request timeout and a long upstream timeout. */
let brief: FaultyBridge
let users = 0

beforeAll(async () => {
  patient = await startFaultyBridge()
  const request_timeout_seconds = `${requestTimeoutMs / 1000}`
  brief = await startFaultyBridge({
    settings: { request_timeout_seconds, token_server_heartbeat_timeout_seconds: '0.1' },
  })
  impatient = await startFaultyBridge({
    settings: { upstream_timeout_seconds: '0.4', request_timeout_seconds },
  })
})

afterAll(async () => {
  await Promise.all([patient.stop(), impatient.stop(), brief.stop()])
})

afterEach(() => jest.useRealTimers())

interface Reader {
  bridge: FaultyBridge
  user: SandboxUser
}

/** A new user with a list. */
async function newReader(bridge: FaultyBridge, collection: string, count: number): Promise<Reader> {
  const user = bridge.sandbox.addUser(`reader ${(users += 1)}`)
  await bridge.ask('', { as: user })
  bridge.sandbox.seed(user, collection, count)
  return { bridge, user }
}

/**
 * What the client gets: everything; a 503 with a JSON error; a response that breaks off, so that it can't look complete; or none of these,
 * which is always wrong.
 */
type ClientView = 'whole' | 'refused' | 'cut' | 'nothing'

/** The client's results if only the first call has the fault, and if all have. */
interface Trial {
  fault: Fault | 'hang forever'
  once: ClientView[]
  always: ClientView[]
}

type Row = [name: string, Trial['fault'], once: ClientView[], always: ClientView[]]

const again: [ClientView[], ClientView[]] = [['whole'], ['refused']]
const atOnce: [ClientView[], ClientView[]] = [['refused'], ['refused']]
const maybeRetried: [ClientView[], ClientView[]] = [['whole', 'refused'], ['refused']]
const cut: [ClientView[], ClientView[]] = [['cut'], ['cut']]
/** Until something was passed on, a retry is invisible. */
const maybeCut: [ClientView[], ClientView[]] = [
  ['whole', 'cut'],
  ['cut', 'refused'],
]

const beforeTheBody: Row[] = [
  ['502 in HTML', page(502), ...again],
  ['503 in HTML', page(503), ...again],
  ['503 with Retry-After', page(503, { 'Retry-After': '120' }), ...atOnce],
  ['a page instead of a response', page(200), ...atOnce],
  ['a redirection', page(302, { Location: '/elsewhere' }), ...atOnce],
  ['a reset', { kind: 'reset-before' }, ...again],
  ['a reset after the request', { kind: 'reset-after' }, ...again],
  ['no HTTP', { kind: 'garbage' }, ...again],
  ['no response', 'hang forever', ...maybeRetried],
  ['a body that never begins', { kind: 'reset-mid-body', afterBytes: 0 }, ...again],
  ['a body that ends at once', { kind: 'truncate', afterBytes: 0 }, ...again],
]

const withinAShortBody: Row[] = [
  ['a reset inside the body', midway('reset-mid-body'), ...again],
  ['a body that is too short', midway('truncate'), ...again],
  ['a body that stalls', midway('hang-mid-body'), ...maybeRetried],
]

describe('a short list of a failing storage', () => {
  it.each<Row>([
    ...beforeTheBody,
    ...withinAShortBody,
    ['a list with a record less', rewritten(withoutLastLine), ...maybeRetried],
    ['a list that ends in a record', rewritten(halved), ...maybeRetried],
  ])('is complete or rejected: %s', (_, fault, once, always) =>
    prove({ fault, once, always }, 'tabs', shortList),
  )
})

describe('a long list of a failing storage', () => {
  it.each<Row>([
    ...beforeTheBody,
    ['an early reset', midway('reset-mid-body'), ...maybeCut],
    ['an early end', midway('truncate'), ...maybeCut],
    ['a late reset', late('reset-mid-body'), ...maybeCut],
    ['a late end', late('truncate'), ...cut],
    ['a list with a record less', rewritten(withoutLastLine), ...cut],
    ['a list that ends in a record', rewritten(halved), ...cut],
  ])('is complete, rejected or cut: %s', (_, fault, once, always) =>
    prove({ fault, once, always }, 'history', longList),
  )

  it('is logged as an error and counted if it breaks off after its start was sent', async () => {
    const { bridge, user } = await newReader(patient, 'history', longList)
    bridge.planFor(user, () => late('truncate'))
    const brokenLists = async () =>
      Number(
        /^sync_bridge_lists_broken_total (\d+)$/m.exec(
          (await bridge.ask('/v1/__metrics__', { as: null })).text,
        )![1],
      )
    const before = await brokenLists()

    const requestId = 'reader-of-a-broken-list'
    const headers = { ...bridge.identityOf(user), 'X-Request-Id': requestId }
    const url = `${bridge.url}/v1/buckets/${user.clientState}/collections/history/records`
    const response = await fetch(url, { headers })
    const received = await countBytes(response)

    const lines = bridge.logs.map((text) => JSON.parse(text)).filter((line) => line.event === 'list.broken')
    const line = lines.find((each) => each.requestId === requestId)
    expect([response.status, received.isWhole]).toEqual([200, false])
    expect(line.level).toBe('error')
    expect(line.reason).toContain(`Lost the connection to "${new URL(bridge.nodeOf(user).url).host}"`)
    // The last chunk given to the runtime may never be sent.
    expect(line.bytes).toBeGreaterThanOrEqual(received.bytes)
    expect(line.bytes).toBeLessThan(800_000)
    expect(await brokenLists()).toBe(before + 1)
  })
})

/** How much of a response has arrived, and whether it is complete. */
async function countBytes({ body }: Response): Promise<{ bytes: number; isWhole: boolean }> {
  let bytes = 0
  try {
    for await (const piece of body!) bytes += piece.length
    return { bytes, isWhole: true }
  } catch {
    return { bytes, isWhole: false }
  }
}

describe('a record of a failing storage', () => {
  it.each<Row>([
    // A failure before the body is retried or not before the target of the request is known.
    ...beforeTheBody.filter(([name]) => ['502 in HTML', 'a reset', 'no response'].includes(name)),
    ...withinAShortBody,
    ['half a record', rewritten(halved), ...atOnce],
    ['another record', rewritten(() => '{"id":"x","modified":1.00,"payload":"x"}'), ...atOnce],
    ['a list', rewritten((text) => `[${text}]`), ...atOnce],
  ])('is complete or rejected: %s', (_, fault, once, always) => prove({ fault, once, always }, 'a record', 1))
})

describe('a list of several pages from a slow storage', () => {
  it('continues after the request timeout', async () => {
    const { bridge, user } = await newReader(brief, 'history', longList)
    const isAsked = Promise.withResolvers<void>()
    const hasPassed = Promise.withResolvers<null>()
    bridge.planFor(user, (_, index) => {
      if (index !== 1) return null
      isAsked.resolve()
      return hasPassed.promise
    })
    bridge.sandbox.switches.listCap = longList / 5
    jest.useFakeTimers()

    const url = `${bridge.url}/v1/buckets/${user.clientState}/collections/history/records`
    const response = await fetch(url, { headers: bridge.identityOf(user) })
    await isAsked.promise
    jest.advanceTimersByTime(5 * requestTimeoutMs)
    hasPassed.resolve(null)
    const { data } = (await response.json()) as { data: unknown[] }

    expect(data).toHaveLength(longList)
  })
})

async function prove({ fault, once, always }: Trial, target: Target, count: number): Promise<void> {
  const isSilent = fault === 'hang forever' || fault.kind === 'hang-mid-body'
  const [name, size] = target === 'a record' ? ['tabs', shortList] : [target, count]
  const reader = await newReader(isSilent ? impatient : patient, name, size)
  const { bridge, user } = reader
  const failing = () => (fault === 'hang forever' ? hangForever() : fault)
  bridge.planFor(user, (_, index) => (index === 0 ? failing() : null))
  expect(once).toContain(await look(reader, target, count))
  bridge.planFor(user, failing)
  expect(always).toContain(await look(reader, target, count))
}

/** A list, or the first record of the short one. */
type Target = 'tabs' | 'history' | 'a record'

/** Sends a request like a client that trusts what it parses. */
async function look(reader: Reader, target: Target, count: number): Promise<ClientView> {
  const { bridge, user } = reader
  const collection = target === 'a record' ? 'tabs' : target
  const id = target === 'a record' ? `/${bridge.sandbox.records(user, collection)[0]!.id}` : ''
  const signal = AbortSignal.timeout(watchdogMs)
  const headers = bridge.identityOf(user)
  const url = `${bridge.url}/v1/buckets/${user.clientState}/collections/${collection}/records${id}`
  const response = await fetch(url, { headers, signal }).catch(() => null)
  if (response === null) return 'nothing'
  const text = await response.text().catch(() => null)
  if (text === null) return signal.aborted ? 'nothing' : 'cut'
  const body = JSON.parse(text)
  if (response.status === 503) {
    expect(body).toMatchObject({ code: 503, errno: 201 })
    expect(Number(response.headers.get('Retry-After'))).toBeGreaterThanOrEqual(30)
    expect(text).not.toContain('Maintenance')
    return 'refused'
  }
  expect(response.status).toBe(200)
  const records = [body.data].flat() as { id: string; payload: string }[]
  const stored = new Map(bridge.sandbox.records(user, collection).map(({ id, payload }) => [id, payload]))
  expect(new Set(records.map(({ id }) => id)).size).toBe(count)
  expect(records.filter(({ id, payload }) => stored.get(id) !== payload)).toEqual([])
  return 'whole'
}

function page(status: number, headers: Record<string, string> = {}): Fault {
  const body = '<!doctype html><title>Maintenance</title>'
  return { kind: 'status', status, headers: { 'Content-Type': 'text/html', ...headers }, body }
}

function midway(kind: 'reset-mid-body' | 'truncate' | 'hang-mid-body'): Fault {
  return { kind, afterBytes: 300 }
}

function late(kind: 'reset-mid-body' | 'truncate'): Fault {
  return { kind, afterBytes: 700_000 }
}

function rewritten(body: (real: string) => string): Fault {
  return { kind: 'rewrite', body }
}

function withoutLastLine(text: string): string {
  return text.split('\n').slice(0, -2).join('\n')
}

function halved(text: string): string {
  return text.slice(0, text.length / 2)
}

describe('a token server that hangs', () => {
  it('fails the heartbeat after its own timeout, and then a request of an unknown user', async () => {
    const user = brief.sandbox.addUser('somebody new')
    brief.tokenProxy.plan(() => ({ kind: 'hang' }))
    const answered: [string, number][] = []
    const ask = async (path: string) => answered.push([path, (await brief.ask(path, { as: user })).status])

    await Promise.all(['/collections/tabs/records', '/v1/__heartbeat__'].map(ask))

    expect(answered).toEqual([
      ['/v1/__heartbeat__', 503],
      ['/collections/tabs/records', 503],
    ])
    // The call continues for the other requests that wait for it.
    expect(brief.tokenProxy.requests.findLast(({ path }) => path !== '/__heartbeat__')!.isOver).toBe(false)
    brief.tokenProxy.plan(() => null)
    brief.tokenProxy.release()
  })
})
