import { contentOf, makeCase, store, type BatchRequest, type Content, type Shape } from './batch-case.ts'
import { hangForGood, statusFaults, type FaultyBridge, type UserPlan } from './faulty-bridge.ts'
import type { Sandbox } from '../support/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault, ProxiedRequest } from '../support/fault-proxy.ts'

/** Everything that a call of the storage can suffer, by name. */
export const faults = {
  ...statusFaults,
  'reset before': { kind: 'reset-before' },
  'reset after': { kind: 'reset-after' },
  '500 after': { kind: 'status-after', status: 500 },
  garbage: { kind: 'garbage' },
  'hang before': 'hang for good',
  'hang after': { kind: 'hang-after' },
  'hang within': { kind: 'hang-mid-body', afterBytes: 1 },
} satisfies Record<string, Fault | 'hang for good'>

/** Those that cost as much time as the bridge is ready to wait. */
export const hangs: FaultName[] = ['hang before', 'hang after', 'hang within']

export type FaultName = `${keyof typeof faults}`

/** Whether only the k-th call fails, every later one that does the same, or every later one. */
export type Span = 'once' | 'for good' | 'from then on'

export interface Trial {
  shape: Shape
  fault: FaultName
  span: Span
}

/** Trials run side by side, each in collections of its own, so that the log tells which one a line is about. */
export const lanes = Array.from({ length: 14 }, (_, lane) =>
  ['a', 'b', 'c', 'd', 'e'].map((name) => `lane${lane}${name}`),
)

/**
 * Makes every trial once for each call that an undisturbed run of its shape makes. What comes back is what went wrong.
 * How many calls that failed a client had to wait for at most, one after the other, is told too: those that are under
 * way at the same time count as one.
 *
 * Over one bridge the trials are made side by side, of several bridges each makes one at a time (see `timeoutsIn`).
 * `reference` is a bridge with patience.
 */
export async function prove(
  bridges: FaultyBridge[],
  trials: Trial[],
  reference = bridges[0]!,
): Promise<{ findings: string[]; runs: number; mostInARow: number }> {
  const findings: string[] = []
  const queue: (Trial & { k: number })[] = []
  let mostInARow = 0
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
        mostInARow = Math.max(mostInARow, inARow)
        const { shape, fault, span, k } = trial
        if (finding) findings.push(`${JSON.stringify(shape)} ${fault} at call ${k} ${span}: ${finding}`)
      }
    }),
  )
  return { findings, runs, mostInARow }
}

/**
 * How many calls the bridge has given up for want of time. On a busy machine a bridge with little patience gives up calls
 * that were not made to fail; then more has failed than was planned, and the trial is judged as one in which more did.
 */
export function timeoutsIn(logs: string[]): number {
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
  // Credentials are fetched beforehand: the user gets the number by which calls are told apart.
  await over.ask('', { as: user })
  const { before, after, requests } = makeCase(shape, names)
  store(sandbox, user, before)
  const hit: { deed: string | null } = { deed: null }
  const failed: { request: ProxiedRequest; inARow: number }[] = []
  const plan: UserPlan = (request, index) => {
    if (fault === null || index < k) return null
    hit.deed ??= deedOf(request)
    const isHit =
      index === k || span === 'from then on' || (span === 'for good' && hit.deed === deedOf(request))
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

  const wasHurried =
    fault !== null && hangs.includes(fault) && timeoutsIn(over.logs.slice(firstLog)) > failed.length
  const responses: { status: number }[] = answer.body.responses ?? []
  const finding = judge({
    status: answer.status,
    statuses: responses.map(({ status }) => status),
    content: contentOf(sandbox, user, collections),
    before,
    after,
    repeated: repeatedWrites(sandbox, user).filter(
      (write) => !mayBeRevealed(write, body.requests) && !(wasHurried && write.startsWith('DELETE')),
    ),
    isReported: collections.some((name, index) => incidents(over, name) > known[index]!),
    isRefused: fault === '401' && span === 'from then on',
    // What a batch has created can't be taken back where nothing can be deleted.
    mustCope: !wasHurried && (span === 'once' || (span === 'for good' && !hit.deed?.startsWith('DELETE'))),
  })
  const calls = over.callsOf(user).length
  await over.retire(user)
  return { calls, finding, inARow: Math.max(0, ...failed.map(({ inARow }) => inARow)) }
}

/** What a call does to what, as far as the storage is concerned. */
function deedOf({ method, path, query }: ProxiedRequest): string {
  return `${method} ${path} ${query.has('commit') ? 'commit' : query.has('batch') ? 'stage' : ''}`
}

function planOf(name: FaultName): Fault | Promise<Fault> {
  const fault = faults[name]
  return fault === 'hang for good' ? hangForGood() : fault
}

/** How often the log tells of something left behind, or of something that nobody knows. */
export function incidents(over: FaultyBridge, collection: string): number {
  return over.eventsAbout(collection, 'batch.partial') + over.eventsAbout(collection, 'batch.unknown')
}

/**
 * Visible writes that the storage has carried out more than once in one collection. A removal of rows is such a write where time was short:
 * when its answer is lost, and the call that looks whether the rows are gone fails as well, they are removed once more, on the condition
 * that nobody has written since; see `removal.test.ts`.
 */
function repeatedWrites(sandbox: Sandbox, user: SandboxUser): string[] {
  const mark = `/1.5/${user.uid}/`
  // A run makes some 60 calls at most, and the lanes share the log.
  const writes = sandbox.requests.storage.entries
    .slice(-1000)
    .filter(({ target, status }) => target.startsWith(mark) && status === 200)
    .filter(({ method }) => method !== 'GET')
    .filter(({ target }) => !target.includes('batch=') || target.includes('commit='))
    .map(({ method, target }) => `${method} ${target.slice(mark.length).split('?')[0]}`)
  return writes.filter((write, place) => writes.indexOf(write) !== place)
}

/**
 * Whether a second commit may be that which reveals rows. When the answer to deletions alone was lost, nobody knows when they were
 * carried out, nor whether their rows hold something newer, so they are looked at.
 */
function mayBeRevealed(write: string, requests: BatchRequest[]): boolean {
  const collection = write.match(/^POST storage\/(.*)$/)?.[1]
  const inCollection = requests.filter(({ path }) => path.includes(`/collections/${collection}/`))
  return inCollection.length > 0 && inCollection.every(({ method }) => method === 'DELETE')
}

interface Observation {
  status: number
  statuses: number[]
  content: Content
  before: Content
  after: Content
  repeated: string[]
  /** Whether the log tells of something left behind, or of something that nobody knows. */
  isReported: boolean
  /** Whether the storage refuses the identity for good. */
  isRefused: boolean
  /** Whether nothing may be left behind, reported or not. */
  mustCope: boolean
}

/** What is wrong with a run; null when nothing is. */
function judge(seen: Observation): string | null {
  const { status, statuses, content, before, after, repeated, isReported, isRefused, mustCope } = seen
  if (isReported && mustCope) return `could not cope: ${JSON.stringify(content)}`
  if (status === 200) {
    if (repeated.length > 0) return `written more than once: ${repeated.join(' ')}`
    const isWhole = statuses.every((each) => each === 200 || each === 204)
    if (isWhole)
      return Bun.deepEquals(content, after) ? null : `200, but not all is there: ${JSON.stringify(content)}`
    // An identity that is refused is the answer of every sub-request that carries it, and then nothing was written.
    const isClean = isRefused && statuses.every((each) => each === 401) && Bun.deepEquals(content, before)
    return isClean ? null : `200 with ${statuses.join()}`
  }
  if (status !== 503) return `answered ${status}`
  if (Bun.deepEquals(content, before)) return null
  return isReported ? null : `503, but something is left: ${JSON.stringify(content)}`
}
