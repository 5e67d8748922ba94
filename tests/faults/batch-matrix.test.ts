import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { hangForever, statusFaults, startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { Sandbox } from '../support/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault } from '../support/fault-proxy.ts'

const quick: Record<string, Fault> = {
  ...statusFaults,
  'reset before': { kind: 'reset-before' },
  'reset after': { kind: 'reset-after' },
  '500 after': { kind: 'status-after', status: 500 },
  garbage: { kind: 'garbage' },
}
/** These last as long as the bridge waits. */
const hangs: Record<string, () => Fault | Promise<Fault>> = {
  'hang before': hangForever,
  'hang after': () => ({ kind: 'hang-after' }),
  'hang within': () => ({ kind: 'hang-mid-body', afterBytes: 1 }),
}

/** Contents by collection and id, without timestamps. */
type Content = Record<string, Record<string, { payload: string; sortindex: number | null }>>

/** A batch, what is stored before it, and after all of it was applied. */
interface Batch {
  before: Content
  after: Content
  requests: { method: string; path: string; body?: object }[]
}

/** Puts and deletions in turn, in so many collections. Some puts create, some overwrite. */
function makeBatch(requests: number, names: string[]): Batch {
  const before: Content = {}
  for (const name of names) before[name] = { bystander: { payload: 'not ours', sortindex: 7 } }
  const after = structuredClone(before)
  const made = Array.from({ length: requests }, (_, index) => {
    const name = names[index % names.length]!
    const turn = names.length === 1 ? index : Math.floor(index / names.length) + index
    const id = `record${index}`
    const path = `${name}/records/${id}`
    if (turn % 2 === 1) {
      before[name]![id] = { payload: `to be deleted ${index}`, sortindex: index }
      return { method: 'DELETE', path }
    }
    const data = { payload: `written ${index}`, ...(index % 2 === 0 && { sortindex: index }) }
    // Every third record exists already, some without a sortindex, which a write can't remove.
    if (index % 3 === 0) before[name]![id] = { payload: `stored ${index}`, sortindex: index % 4 ? 99 : null }
    after[name]![id] = { ...data, sortindex: data.sortindex ?? before[name]![id]?.sortindex ?? null }
    return { method: 'PUT', path, body: { data } }
  })
  return { before, after, requests: made }
}

/** Adds contents to a store as if written long ago. */
function store(sandbox: Sandbox, user: SandboxUser, content: Content): void {
  const longAgo = Math.floor(sandbox.nowMs() / 10) * 10 - 3_600_000
  for (const [collection, records] of Object.entries(content)) {
    const timed = Object.entries(records).map(([id, fields], index) => ({
      id,
      ...fields,
      modified: longAgo + index * 10,
    }))
    sandbox.load(user, collection, timed)
  }
}

function contentOf(sandbox: Sandbox, user: SandboxUser, collections: string[]): Content {
  const recordsOf = (name: string) =>
    sandbox.records(user, name).map(({ id, payload, sortindex }) => [id, { payload, sortindex }])
  return Object.fromEntries(collections.map((name) => [name, Object.fromEntries(recordsOf(name))]))
}

/** Visible writes that the storage has applied more than once in one collection. */
function repeatedWrites(sandbox: Sandbox, user: SandboxUser): string[] {
  const mark = `/1.5/${user.uid}/`
  // A run makes at most some 60 calls, and concurrent runs share the log.
  const writes = sandbox.requests.storage.entries
    .slice(-1000)
    .filter(({ target, status }) => target.startsWith(mark) && status === 200)
    .filter(({ method }) => method !== 'GET')
    .filter(({ target }) => !target.includes('batch=') || target.includes('commit='))
    .map(({ method, target }) => `${method} ${target.slice(mark.length).split('?')[0]}`)
  return writes.filter((write, place) => writes.indexOf(write) !== place)
}

/** Batches run concurrently, each in its own collections, which identify them in the log. */
const lanes = Array.from({ length: 14 }, (_, lane) =>
  ['a', 'b', 'c', 'd'].map((name) => `lane${lane}${name}`),
)
let users = 0

/** Runs a batch during which each call gets its fault, or none. Returns the number of calls, and what is wrong. */
async function runBatch(
  over: FaultyBridge,
  requests: number,
  names: string[],
  faultOf: (index: number) => Fault | Promise<Fault> | null,
): Promise<{ calls: number; finding: string | null }> {
  const { sandbox } = over
  const user = sandbox.addUser(`user ${(users += 1)}`)
  // Fetches credentials first, so that the user gets the number that identifies its calls.
  await over.ask('', { as: user })
  const batch = makeBatch(requests, names)
  store(sandbox, user, batch.before)
  const incidents = () =>
    names.map((name) => over.eventsAbout(name, 'batch.partial') + over.eventsAbout(name, 'batch.unknown'))
  const before = incidents()
  over.planFor(user, (_, index) => faultOf(index))

  const { status, statuses } = await over.batch(user, batch.requests)

  const content = contentOf(sandbox, user, names)
  const isReported = !Bun.deepEquals(incidents(), before)
  const repeated = repeatedWrites(sandbox, user)
  const isWhole = status === 200 && statuses.every((each) => each < 300) && repeated.length === 0
  const isFine = Bun.deepEquals(content, isWhole ? batch.after : batch.before)
  const calls = over.callsOf(user).length
  await over.retire(user)
  const isRight = isFine && !isReported && (isWhole || status === 503)
  const seen = { status, statuses, content, repeated, isReported }
  return { calls, finding: isRight ? null : JSON.stringify(seen) }
}

/** Runs each batch once for each call of an undisturbed run and each fault. Returns the wrong outcomes, and the number of runs. */
async function prove(
  over: FaultyBridge,
  shapes: [requests: number, collections: number][],
  faults: Record<string, () => Fault | Promise<Fault>>,
): Promise<{ findings: string[]; runs: number }> {
  const findings: string[] = []
  const queue: ((names: string[]) => Promise<void>)[] = []
  for (const [requests, collections] of shapes) {
    const { calls, finding } = await runBatch(over, requests, lanes[0]!.slice(0, collections), () => null)
    if (finding) findings.push(`${requests} in ${collections}, undisturbed: ${finding}`)
    for (const [name, fault] of Object.entries(faults))
      for (let k = 0; k < calls; k += 1)
        queue.push(async (names) => {
          const used = names.slice(0, collections)
          const ended = await runBatch(over, requests, used, (index) => (index === k ? fault() : null))
          if (ended.finding)
            findings.push(`${requests} in ${collections}, ${name} at call ${k}: ${ended.finding}`)
        })
  }
  const runs = queue.length
  await Promise.all(
    lanes.map(async (names) => {
      for (let run = queue.shift(); run; run = queue.shift()) await run(names)
    }),
  )
  return { findings, runs }
}

// `tests/batch` has longer outages, several faults, and other writers, without connections.
describe('a batch over a storage that fails at its k-th call', () => {
  let patient: FaultyBridge
  /** A hanging call takes this long. */
  let impatient: FaultyBridge
  beforeAll(async () => {
    const writable = lanes.flat()
    patient = await startFaultyBridge({ writable })
    impatient = await startFaultyBridge({ writable, settings: { upstream_timeout_seconds: '0.5' } })
  })
  afterAll(() => Promise.all([patient.stop(), impatient.stop()]))

  it.each(Object.entries(quick))('is complete or has no effect: %s', async (name, fault) => {
    const { findings, runs } = await prove(
      patient,
      [
        [5, 1],
        [5, 4],
      ],
      { [name]: () => fault },
    )

    expect(findings).toEqual([])
    expect(runs).toBeGreaterThan(14)
  })

  it('is complete or has no effect: every kind of hang', async () => {
    const { findings, runs } = await prove(
      impatient,
      [
        [2, 1],
        [9, 3],
      ],
      hangs,
    )

    expect(findings).toEqual([])
    expect(runs).toBeGreaterThan(30)
  })
})
