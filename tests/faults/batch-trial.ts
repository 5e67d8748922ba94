import { contentOf, makeCase, store, type Content, type Shape } from './batch-case.ts'
import { hangForever, statusFaults, type FaultyBridge, type UserPlan } from './faulty-bridge.ts'
import type { Sandbox } from '../support/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault, ProxiedRequest } from '../support/fault-proxy.ts'

/** Every fault of a storage call, by name. */
export const faults = {
  ...statusFaults,
  'reset before': { kind: 'reset-before' },
  'reset after': { kind: 'reset-after' },
  '500 after': { kind: 'status-after', status: 500 },
  garbage: { kind: 'garbage' },
  'hang before': 'hang forever',
  'hang after': { kind: 'hang-after' },
  'hang within': { kind: 'hang-mid-body', afterBytes: 1 },
} satisfies Record<string, Fault | 'hang forever'>

/** The faults that last as long as the bridge waits. */
export const hangs: FaultName[] = ['hang before', 'hang after', 'hang within']

export type FaultName = `${keyof typeof faults}`

/** Which calls fail: only the k-th, every later one of the same kind, or every later one. */
export type Span = 'once' | 'permanently' | 'from then on'

export interface Trial {
  shape: Shape
  fault: FaultName
  span: Span
}

/** Trials run concurrently, each in its own collections, which identify them in the log. */
export const lanes = Array.from({ length: 14 }, (_, lane) =>
  ['a', 'b', 'c', 'd', 'e'].map((name) => `lane${lane}${name}`),
)

/**
 * Runs every trial once for each call of an undisturbed run of its shape. Returns the errors, and the largest number of consecutive failed
 * calls that a client had to wait for; concurrent calls count as one. Over one bridge, trials run concurrently; of several bridges, each
 * runs one at a time (see `timeoutsIn`). `reference` is a bridge with long timeouts.
 */
export async function prove(
  bridges: FaultyBridge[],
  trials: Trial[],
  reference = bridges[0]!,
): Promise<{ findings: string[]; runs: number; maxConsecutive: number }> {
  const findings: string[] = []
  const queue: (Trial & { k: number })[] = []
  let maxConsecutive = 0
  for (const shape of new Set(trials.map((trial) => trial.shape))) {
    const { calls, finding } = await run(reference, lanes[0]!, { shape, fault: null, span: 'once', k: 0 })
    if (finding) findings.push(`${JSON.stringify(shape)} undisturbed: ${finding}`)
    const disturbed = trials.filter((trial) => trial.shape === shape)
    for (let k = 0; k < calls; k += 1) queue.push(...disturbed.map((trial) => ({ ...trial, k })))
  }
  const runs = queue.length
  const tracks = lanes.slice(0, bridges.length === 1 ? lanes.length : bridges.length)
  await Promise.all(
    tracks.map(async (names, track) => {
      const over = bridges[track % bridges.length]!
      for (let trial = queue.shift(); trial; trial = queue.shift()) {
        const { finding, inARow } = await run(over, names, trial)
        maxConsecutive = Math.max(maxConsecutive, inARow)
        const { shape, fault, span, k } = trial
        if (finding) findings.push(`${JSON.stringify(shape)} ${fault} at call ${k} ${span}: ${finding}`)
      }
    }),
  )
  return { findings, runs, maxConsecutive }
}

/**
 * The number of calls that the bridge aborted by timeout. On a busy machine, a bridge with short timeouts also aborts calls that were not
 * meant to fail; the trial is then evaluated as one with more faults.
 */
function timeoutsIn(logs: string[]): number {
  return logs
    .map((line) => JSON.parse(line) as { event: string; failure?: string })
    .filter(({ event, failure }) => event === 'upstream' && failure === 'timeout').length
}

let users = 0

async function run(
  over: FaultyBridge,
  names: string[],
  { shape, fault, span, k }: { shape: Shape; fault: FaultName | null; span: Span; k: number },
) {
  const { sandbox } = over
  const user = sandbox.addUser(`user ${(users += 1)}`)
  // Fetches credentials first, so that the user gets the number that identifies its calls.
  await over.ask('', { as: user })
  const { before, after, requests } = makeCase(shape, names)
  store(sandbox, user, before)
  const hit: { deed: string | null } = { deed: null }
  const failed: { request: ProxiedRequest; inARow: number }[] = []
  const plan: UserPlan = (request, index) => {
    if (fault === null || index < k) return null
    hit.deed ??= deedOf(request)
    const isHit =
      index === k || span === 'from then on' || (span === 'permanently' && hit.deed === deedOf(request))
    if (!isHit) return null
    const ended = failed.filter((earlier) => earlier.request.isOver)
    failed.push({ request, inARow: 1 + Math.max(0, ...ended.map(({ inARow }) => inARow)) })
    return planOf(fault)
  }
  over.planFor(user, plan)
  const collections = Object.keys(before)
  const known = collections.map((name) => incidents(over, name))
  const firstLog = over.logs.length

  const body = { requests: requests(user.clientState) }
  const answer = await over.ask('/v1/batch', { method: 'POST', as: user, body })

  const wasShortOfTime =
    fault !== null && hangs.includes(fault) && timeoutsIn(over.logs.slice(firstLog)) > failed.length
  const responses: { status: number }[] = answer.body.responses ?? []
  const finding = judge({
    status: answer.status,
    statuses: responses.map(({ status }) => status),
    content: contentOf(sandbox, user, collections),
    before,
    after,
    repeated: repeatedWrites(sandbox, user),
    isReported: collections.some((name, index) => incidents(over, name) > known[index]!),
    isRefused: fault === '401' && span === 'from then on',
    // What a batch has created can't be undone if nothing can be deleted.
    mustCope:
      !wasShortOfTime && (span === 'once' || (span === 'permanently' && !hit.deed?.startsWith('DELETE'))),
  })
  const calls = over.callsOf(user).length
  await over.retire(user)
  return { calls, finding, inARow: Math.max(0, ...failed.map(({ inARow }) => inARow)) }
}

/** The method and the target of a call, as far as the storage is concerned. */
function deedOf({ method, path, query }: ProxiedRequest): string {
  return `${method} ${path} ${query.has('commit') ? 'commit' : query.has('batch') ? 'stage' : ''}`
}

function planOf(name: FaultName): Fault | Promise<Fault> {
  const fault = faults[name]
  return fault === 'hang forever' ? hangForever() : fault
}

/** How often the log reports leftovers or unknown results. */
function incidents(over: FaultyBridge, collection: string): number {
  return over.eventsAbout(collection, 'batch.partial') + over.eventsAbout(collection, 'batch.unknown')
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

interface Observation {
  status: number
  statuses: number[]
  content: Content
  before: Content
  after: Content
  repeated: string[]
  /** Whether the log reports leftovers or unknown results. */
  isReported: boolean
  /** Whether the storage permanently rejects the identity. */
  isRefused: boolean
  /** Whether leftovers are not allowed, reported or not. */
  mustCope: boolean
}

/** The error in a run; null if none. */
function judge(seen: Observation): string | null {
  const { status, statuses, content, before, after, repeated, isReported, isRefused, mustCope } = seen
  if (isReported && mustCope) return `neither applied nor undone: ${JSON.stringify(content)}`
  if (status === 200) {
    if (repeated.length > 0) return `written more than once: ${repeated.join(' ')}`
    const isWhole = statuses.every((each) => each === 200 || each === 204)
    if (isWhole)
      return Bun.deepEquals(content, after) ? null : `200, but incomplete: ${JSON.stringify(content)}`
    // A rejected identity is the response of all its sub-requests, and then nothing was written.
    const isClean = isRefused && statuses.every((each) => each === 401) && Bun.deepEquals(content, before)
    return isClean ? null : `200 with ${statuses.join()}`
  }
  if (status !== 503) return `answered ${status}`
  if (Bun.deepEquals(content, before)) return null
  return isReported ? null : `503, but not undone: ${JSON.stringify(content)}`
}
