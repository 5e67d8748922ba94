import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { faults, hangs, incidents, lanes, timeoutsIn, type FaultName, type Span } from './batch-trial.ts'
import { hangForever, startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import { contentOf, store } from './batch-case.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** A write, and its headers once the record's entity tag is known. */
interface Write {
  name: string
  method: 'PUT' | 'DELETE'
  id: 'stored' | 'fresh'
  headers: (entityTag: string) => Record<string, string>
}

const writes: Write[] = [
  { name: 'PUT', method: 'PUT', id: 'stored', headers: () => ({}) },
  { name: 'PUT If-Match', method: 'PUT', id: 'stored', headers: (tag) => ({ 'If-Match': tag }) },
  { name: 'PUT If-None-Match: *', method: 'PUT', id: 'fresh', headers: () => ({ 'If-None-Match': '*' }) },
  { name: 'DELETE', method: 'DELETE', id: 'stored', headers: () => ({}) },
  { name: 'DELETE If-Match', method: 'DELETE', id: 'stored', headers: (tag) => ({ 'If-Match': tag }) },
]
const quick = (Object.keys(faults) as FaultName[]).filter((name) => !hangs.includes(name))
/** A read of the record and the collection's timestamp, then the write. */
const callsOfAWrite = 2

let patient: FaultyBridge
/** Commits and undos are only tried for half a second, because the storage does not come back. */
let shortCommits: FaultyBridge
/** With a short call timeout, because a hanging storage uses all of it; each for one trial at a time. */
let impatient: FaultyBridge[]

beforeAll(async () => {
  const writable = lanes.flat()
  patient = await startFaultyBridge({ writable })
  const commitPatienceMs = 300
  shortCommits = await startFaultyBridge({
    writable,
    settings: { request_timeout_seconds: '0.5' },
    commitPatienceMs,
  })
  const settings = { upstream_timeout_seconds: '0.2', request_timeout_seconds: '1' }
  impatient = await Promise.all(writes.map(() => startFaultyBridge({ writable, settings, commitPatienceMs })))
})

afterAll(async () => {
  await Promise.all([patient, shortCommits, ...impatient].map((each) => each.stop()))
})

describe('PUT and DELETE over a failing storage', () => {
  it('report correctly whether the write was applied, after every failure at every call', async () => {
    const findings = await Promise.all(writes.map((write, index) => prove(write, index)))

    expect(findings.flat()).toEqual([])
  })

  it('succeed at the second attempt after a failure without effect', async () => {
    const user = await userWithRecord(patient, 'lane0a')
    const kinds = ['500', 'conflict', '412', 'reset before', 'reset after', '500 after', 'garbage'] as const

    const statuses: number[] = []
    for (const kind of kinds) {
      patient.planFor(user, (_, index) => (index === 1 ? faults[kind] : null))
      const { status } = await patient.ask('/collections/lane0a/records/stored', {
        method: 'PUT',
        as: user,
        body: { data: { payload: kind } },
      })
      statuses.push(status)
    }

    expect(statuses).toEqual(kinds.map(() => 200))
  })
})

/** Runs one kind of write under every trial, in the collections of that number. */
async function prove(write: Write, index: number): Promise<string[]> {
  const trials = [...trialsOf(quick, 'once'), ...trialsOf(quick, 'from then on')]
  const slowTrials = [...trialsOf(hangs, 'once'), ...trialsOf(hangs, 'from then on')]
  const findings: string[] = []
  const note = ({ fault, k, span }: Trial, finding: string | null) => {
    if (finding) findings.push(`${write.name}: ${fault} at call ${k} ${span}: ${finding}`)
  }
  await Promise.all([
    ...lanes.slice(0, 6).map(async (names) => {
      for (let trial = trials.shift(); trial; trial = trials.shift())
        note(trial, await run(trial.span === 'once' ? patient : shortCommits, trial, write, names[index]!))
    }),
    (async () => {
      const over = impatient[index]!
      for (const trial of slowTrials) note(trial, await run(over, trial, write, lanes[0]![index]!))
    })(),
  ])
  return findings
}

interface Trial {
  fault: FaultName
  span: Span
  k: number
}

function trialsOf(names: FaultName[], span: Span): Trial[] {
  return names.flatMap((fault) =>
    Array.from({ length: callsOfAWrite }, (_, k): Trial => ({ fault, span, k })),
  )
}

let users = 0

async function userWithRecord(over: FaultyBridge, collection: string): Promise<SandboxUser> {
  const user = over.sandbox.addUser(`writer ${(users += 1)}`)
  await over.ask('', { as: user })
  store(over.sandbox, user, { [collection]: { stored: { payload: 'before', sortindex: 3 } } })
  return user
}

/** Runs one trial; returns the error, or null. */
async function run(
  over: FaultyBridge,
  { fault, span, k }: Trial,
  write: Write,
  collection: string,
): Promise<string | null> {
  const { sandbox } = over
  const user = await userWithRecord(over, collection)
  const [stored] = sandbox.records(user, collection)
  const before = contentOf(sandbox, user, [collection])
  const known = incidents(over, collection)
  const firstLog = over.logs.length
  let failed = 0
  over.planFor(user, (_, index) => {
    if (index !== k && !(index > k && span === 'from then on')) return null
    failed += 1
    const planned = faults[fault]
    return planned === 'hang forever' ? hangForever() : planned
  })

  const { status, body, headers } = await over.ask(`/collections/${collection}/records/${write.id}`, {
    method: write.method,
    as: user,
    headers: write.headers(`"${stored!.modified}"`),
    ...(write.method === 'PUT' && { body: { data: { payload: 'after' } } }),
  })

  const now = sandbox.records(user, collection).find(({ id }) => id === write.id)
  const isApplied = write.method === 'PUT' ? now?.payload === 'after' : now === undefined
  const isUntouched = Bun.deepEquals(contentOf(sandbox, user, [collection]), before)
  const applied = appliedWrites(over, user)
  await over.retire(user)
  const wasShortOfTime = hangs.includes(fault) && timeoutsIn(over.logs.slice(firstLog)) > failed
  // With little time, a write may be given up, still applied, and then undone.
  if (applied > (wasShortOfTime && isUntouched ? 2 : 1)) return `applied ${applied} times`
  if (isApplied === isUntouched) return `left ${JSON.stringify(now)}`
  switch (status) {
    case 200: {
      if (!isApplied) return '200, but nothing was written'
      const { last_modified: told } = body.data
      if (told !== now!.modified || headers.get('ETag') !== `"${told}"`)
        return `${told} is not when it was written`
      return null
    }
    case 204:
      return isApplied ? null : '204, but it is still there'
    case 401:
      return fault === '401' && span === 'from then on' && isUntouched ? null : 'returned 401'
    case 503:
      if (!headers.has('Retry-After')) return '503 without Retry-After'
      if (isUntouched) return null
      return (wasShortOfTime || span === 'from then on') && incidents(over, collection) > known
        ? null
        : '503, but it was applied'
    default:
      return `answered ${status}`
  }
}

function appliedWrites({ sandbox }: FaultyBridge, user: SandboxUser): number {
  return sandbox.requests.storage.entries
    .slice(-1000)
    .filter(({ target }) => target.startsWith(`/1.5/${user.uid}/`))
    .filter(({ method, status }) => method !== 'GET' && status === 200).length
}
