import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from 'bun:test'

import { hangForGood, startFaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault } from '../support/fault-proxy.ts'
import type { FaultyBridge } from './faulty-bridge.ts'

/** Small enough to be read whole before anything is answered. */
const shortList = 30
/** About 1 MB, so that it streams. */
const longList = 2000
const requestTimeoutMs = 800
/** Far beyond what any bridge here waits for: who has no answer by then is never going to get one. */
const watchdogMs = 30_000

/** With the usual timeouts, which no storage that answers at all exceeds here. */
let patient: FaultyBridge
/** For a storage that doesn't answer. */
let impatient: FaultyBridge
/** Whose requests have little time, and whose calls of the storage have much. */
let brief: FaultyBridge
let users = 0

beforeAll(async () => {
  patient = await startFaultyBridge()
  brief = await startFaultyBridge({
    settings: { request_timeout_seconds: `${requestTimeoutMs / 1000}` },
  })
  impatient = await startFaultyBridge({
    settings: { upstream_timeout_seconds: '0.4', request_timeout_seconds: `${requestTimeoutMs / 1000}` },
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

/** Somebody new, who has a short list and a long one. */
async function newReader(bridge: FaultyBridge): Promise<Reader> {
  const user = bridge.sandbox.addUser(`reader ${(users += 1)}`)
  await bridge.ask('', { as: user })
  bridge.sandbox.seed(user, 'tabs', shortList)
  bridge.sandbox.seed(user, 'history', longList)
  return { bridge, user }
}

/**
 * What the client gets: all there is; a 503 that says so in JSON; an answer that breaks off, so that nobody takes it
 * for a whole one; or nothing at all, which is always wrong.
 */
type Sight = 'whole' | 'refused' | 'cut' | 'nothing'

interface Row {
  name: string
  fault: Fault | 'hang for good'
  /** When only the first call suffers it, and when all do. */
  once: Sight[]
  always: Sight[]
}

const html = '<!doctype html><title>Maintenance</title>'

const beforeTheBody: Row[] = [
  { name: '500', fault: { kind: 'status', status: 500 }, once: ['whole'], always: ['refused'] },
  { name: '502 in HTML', fault: page(502), once: ['whole'], always: ['refused'] },
  { name: '503 in HTML', fault: page(503), once: ['whole'], always: ['refused'] },
  {
    name: '503 with Retry-After',
    fault: page(503, { 'Retry-After': '120' }),
    once: ['refused'],
    always: ['refused'],
  },
  { name: 'a page in place of an answer', fault: page(200), once: ['refused'], always: ['refused'] },
  {
    name: 'a redirection',
    fault: page(302, { Location: '/elsewhere' }),
    once: ['refused'],
    always: ['refused'],
  },
  { name: 'a reset', fault: { kind: 'reset-before' }, once: ['whole'], always: ['refused'] },
  { name: 'a reset after the request', fault: { kind: 'reset-after' }, once: ['whole'], always: ['refused'] },
  { name: 'no HTTP', fault: { kind: 'garbage' }, once: ['whole'], always: ['refused'] },
  { name: 'no answer', fault: 'hang for good', once: ['refused', 'whole'], always: ['refused'] },
  {
    name: 'a body that never begins',
    fault: { kind: 'reset-mid-body', afterBytes: 0 },
    once: ['whole'],
    always: ['refused'],
  },
  {
    name: 'a body that ends at once',
    fault: { kind: 'truncate', afterBytes: 0 },
    once: ['whole'],
    always: ['refused'],
  },
]

describe('a short list of a storage that fails', () => {
  it.each([
    ...beforeTheBody,
    {
      name: 'a reset within the body',
      fault: midway('reset-mid-body'),
      once: ['whole'],
      always: ['refused'],
    },
    { name: 'a body that is too short', fault: midway('truncate'), once: ['whole'], always: ['refused'] },
    {
      name: 'a body that stalls',
      fault: midway('hang-mid-body'),
      once: ['whole', 'refused'],
      always: ['refused'],
    },
    {
      name: 'a list with a record less',
      fault: rewritten(withoutLastLine),
      once: ['whole', 'refused'],
      always: ['refused'],
    },
    {
      name: 'a list that ends in a record',
      fault: rewritten(halved),
      once: ['whole', 'refused'],
      always: ['refused'],
    },
  ] satisfies Row[])('is whole or refused: $name', (row) => prove(row, 'tabs', shortList))
})

describe('a long list of a storage that fails', () => {
  it.each([
    ...beforeTheBody,
    // As long as nothing was passed on, a second attempt is not noticed.
    {
      name: 'an early reset',
      fault: midway('reset-mid-body'),
      once: ['whole', 'cut'],
      always: ['cut', 'refused'],
    },
    { name: 'an early end', fault: midway('truncate'), once: ['whole', 'cut'], always: ['cut', 'refused'] },
    {
      name: 'a late reset',
      fault: late('reset-mid-body'),
      once: ['whole', 'cut'],
      always: ['cut', 'refused'],
    },
    { name: 'a late end', fault: late('truncate'), once: ['cut'], always: ['cut'] },
    { name: 'a list with a record less', fault: rewritten(withoutLastLine), once: ['cut'], always: ['cut'] },
    { name: 'a list that ends in a record', fault: rewritten(halved), once: ['cut'], always: ['cut'] },
  ] satisfies Row[])('is whole, refused or cut: $name', (row) => prove(row, 'history', longList))
})

describe('a list whose second page fails', () => {
  it.each(['reset-before', 'status', 'moved'] as const)('breaks off: %s', async (kind) => {
    const reader = await newReader(patient)
    const { sandbox } = patient
    sandbox.switches.listCap = longList / 2
    patient.planFor(reader.user, (_, index) => {
      if (index === 0) return null
      if (kind === 'reset-before') return { kind }
      if (kind === 'status') return { kind, status: 500 }
      if (index === 1) sandbox.write(reader.user, 'history', [{ id: 'later', payload: 'x' }])
      return null
    })

    const sight = await look(reader, 'history', longList)
    sandbox.switches.listCap = null

    expect(sight).toBe('cut')
  })
})

describe('a list of several pages of a slow storage', () => {
  it('goes on when more time has passed than a request has before it is answered', async () => {
    const { bridge, user } = await newReader(brief)
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

describe('a record of a storage that fails', () => {
  it.each([
    ...beforeTheBody,
    {
      name: 'a reset within the body',
      fault: midway('reset-mid-body'),
      once: ['whole'],
      always: ['refused'],
    },
    { name: 'a body that is too short', fault: midway('truncate'), once: ['whole'], always: ['refused'] },
    {
      name: 'a body that stalls',
      fault: midway('hang-mid-body'),
      once: ['whole', 'refused'],
      always: ['refused'],
    },
    { name: 'half a record', fault: rewritten(halved), once: ['refused'], always: ['refused'] },
    {
      name: 'another record',
      fault: rewritten(() => '{"id":"x","modified":1.00,"payload":"x"}'),
      once: ['refused'],
      always: ['refused'],
    },
    { name: 'a list', fault: rewritten((text) => `[${text}]`), once: ['refused'], always: ['refused'] },
  ] satisfies Row[])('is whole or refused: $name', (row) => {
    return prove(row, 'a record', 1)
  })
})

async function prove(row: Row, target: Target, count: number): Promise<void> {
  const isSilent = row.fault === 'hang for good' || row.fault.kind === 'hang-mid-body'
  const reader = await newReader(isSilent ? impatient : patient)
  const { bridge, user } = reader
  const failing = () => (row.fault === 'hang for good' ? hangForGood() : row.fault)
  bridge.planFor(user, (_, index) => (index === 0 ? failing() : null))
  const once = await look(reader, target, count)
  bridge.planFor(user, failing)
  const always = await look(reader, target, count)

  expect(row.once).toContain(once)
  expect(row.always).toContain(always)
}

/** A list, or the first record of the short one. */
type Target = 'tabs' | 'history' | 'a record'

/** Asks like a client that trusts what it parses. */
async function look(reader: Reader, target: Target, count: number): Promise<Sight> {
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
  return { kind: 'status', status, headers: { 'Content-Type': 'text/html', ...headers }, body: html }
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
