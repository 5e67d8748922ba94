import { afterEach, describe, expect, it } from 'bun:test'
import { errno, ServiceError, UpstreamError } from '../../src/domain/errors.ts'
import { zeroTimestamp, type Timestamp } from '../../src/domain/timestamp.ts'
import { failureOf, numbered, openRig, cleanUp } from './rig.ts'
import type {
  BulkStorage,
  CommitOutcome,
  DeletionOutcome,
  StageOutcome,
} from '../../src/domain/record-storage.ts'
import type { SandboxOptions } from '../support/sandbox.ts'
import type { Fault } from '../support/fault-proxy.ts'

afterEach(cleanUp)

/** Our client, and a collection that another device has written to earlier. */
async function start(options?: SandboxOptions) {
  const rig = await openRig(options)
  const before = rig.has([
    { id: 'a', payload: 'old', sortindex: 3 },
    { id: 'b', payload: 'old' },
    { id: 'c,d', payload: 'old' },
  ])
  rig.later()
  const stored = () =>
    Object.fromEntries(rig.sandbox.records(rig.user, 'tabs').map(({ id, payload }) => [id, payload]))
  return { ...rig, before, stored }
}

function timestampOf(outcome: CommitOutcome | StageOutcome | DeletionOutcome): Timestamp {
  if (outcome.outcome !== 'committed') throw new Error(`Expected a commit, got ${outcome.outcome}`)
  return outcome.timestamp
}

function batchOf(outcome: StageOutcome): string {
  if (outcome.outcome !== 'staged') throw new Error(`Expected a batch, got ${outcome.outcome}`)
  return outcome.batch
}

const modes = ['postgres', 'mysql', 'spanner', 'python'] as const

describe('write', () => {
  it.each(modes)('writes all records with one timestamp: %s', async (mode) => {
    const { storage, sandbox, user, before, proxy } = await start({ mode })

    const outcome = await storage.write(
      'tabs',
      [
        { id: 'a', payload: 'new' },
        { id: '{n}', payload: 'ü', sortindex: -1 },
        { id: 'c,d', sortindex: 9 },
      ],
      before,
    )

    const at = timestampOf(outcome)
    expect(at).toBeGreaterThan(before)
    expect(outcome).toEqual({ outcome: 'committed', timestamp: at, rejected: new Map() })
    expect(sandbox.records(user, 'tabs')).toMatchObject([
      { id: 'a', payload: 'new', sortindex: 3, modified: at },
      { id: 'b', payload: 'old', modified: before },
      { id: 'c,d', payload: 'old', sortindex: 9, modified: at },
      { id: '{n}', payload: 'ü', sortindex: -1, modified: at },
    ])
    expect(proxy.requests).toHaveLength(1)
    expect(proxy.requests[0]).toMatchObject({ method: 'POST', target: `/1.5/${user.uid}/storage/tabs` })
    expect(proxy.requests[0]!.headers.get('content-type')).toBe('application/json')
  })

  it('waits for the next step of the clock if this one is used', async () => {
    const { storage, open, before, pauses, proxy } = await start()

    const first = timestampOf(await storage.write('tabs', [{ id: 'a' }], before))
    const second = timestampOf(await storage.remove('tabs', ['a'], first))
    const other = await open()
    const { timestamp: read } = await other.snapshot('tabs', ['b'], () => true)
    const third = timestampOf(await other.write('tabs', [{ id: 'b', payload: 'again' }], read))

    expect([first, second, read].toSorted()).toEqual([first, second, second])
    expect(third).toBeGreaterThan(second)
    expect(pauses).toEqual([10, 10])
    expect(proxy.requests.map(({ method }) => method)).toEqual(['POST', 'DELETE', 'GET', 'POST'])
  })

  it('waits for the next step of the clock after creating a collection', async () => {
    const { storage, pauses, proxy } = await start()

    const made = timestampOf(await storage.remove('forms', ['none'], zeroTimestamp))
    const written = timestampOf(await storage.write('forms', [{ id: 'a', payload: 'x' }], made))

    expect(written).toBeGreaterThanOrEqual(made + 10)
    expect(pauses).toEqual([10])
    expect(proxy.requests).toHaveLength(2)
  })

  it('waits for all collections if one was written, so that the commits of a batch are sent together', async () => {
    const { storage, before, pauses } = await start()

    await storage.remove('forms', ['none'], zeroTimestamp)
    await storage.write('tabs', [{ id: 'a' }], before)

    expect(pauses).toEqual([10])
  })

  it.each([
    { status: 503, headers: { 'Retry-After': '10' }, body: '0' },
    { status: 409, body: '' },
  ])('reports a conflict with another write, and sends nothing again: %j', async (answer) => {
    const { storage, before, proxy } = await start()
    proxy.plan(() => ({ kind: 'status', ...answer }))

    const failure = await failureOf(storage.write('tabs', [{ id: 'a' }], before))

    expect(failure).toMatchObject({ name: 'UpstreamError', failure: 'conflict', applied: 'no' })
    expect(proxy.requests).toHaveLength(1)
  })

  const unknown = (failure: string) => ({ failure, applied: 'unknown' })
  const answered = (status: number, body = ''): Fault => ({ kind: 'status', status, body })
  const serviceError = (status: number) => ({ name: 'ServiceError', status })
  it.each<[Fault, object]>([
    [{ kind: 'reset-before' }, unknown('connection-lost')],
    [{ kind: 'reset-after' }, unknown('connection-lost')],
    [{ kind: 'reset-mid-body', afterBytes: 5 }, unknown('connection-lost')],
    [{ kind: 'hang' }, unknown('timeout')],
    [{ kind: 'hang-after' }, unknown('timeout')],
    [{ kind: 'status-after', status: 502 }, unknown('refused')],
    [answered(500, '0'), unknown('refused')],
    [{ kind: 'status', status: 503, headers: { 'Retry-After': '10' } }, unknown('refused')],
    [answered(408), unknown('bad-response')],
    [
      { kind: 'status', status: 503, headers: { 'Retry-After': '600' }, body: '0' },
      { ...unknown('refused'), retryAfterSeconds: 600 },
    ],
    [answered(302), unknown('bad-response')],
    [answered(404, '0'), { failure: 'bad-response', applied: 'no' }],
    [{ kind: 'rewrite', body: 'not JSON' }, unknown('bad-response')],
    [{ kind: 'rewrite', body: '{"modified":0,"success":["a"],"failed":{}}' }, { failure: 'bad-response' }],
    [answered(403, '14'), serviceError(403)],
    [answered(413, '17'), serviceError(413)],
    [answered(400, '17'), serviceError(413)],
    [answered(400, '8'), serviceError(400)],
    [answered(429), serviceError(429)],
  ])('is sent once, whatever fails: %j', async (fault, expected) => {
    const { open, before, proxy } = await start()
    const storage = await open({ timeoutMs: fault.kind.startsWith('hang') ? 3000 : 60_000 })
    proxy.plan(() => fault)

    expect(await failureOf(storage.write('tabs', [{ id: 'a' }], before))).toMatchObject(expected)

    expect(proxy.requests).toHaveLength(1)
  })

  it('is not started after the deadline, but completed once it has begun, without a permit', async () => {
    const { open, before, proxy, clock, calls } = await start()
    const storage = await open({ deadlineAtMs: clock.nowMs - 1 })
    while (calls.tryAcquire(proxy.url, storage.owner)) continue

    expect(await failureOf(storage.write('tabs', [{ id: 'a' }], before))).toMatchObject({
      failure: 'timeout',
      applied: 'no',
    })
    expect(proxy.requests).toEqual([])
    storage.beginCommit()
    expect(timestampOf(await storage.write('tabs', [{ id: 'a' }], before))).toBeGreaterThan(before)
  })
})

describe('stage and commitStaged', () => {
  it.each(modes.slice(0, 3))('write invisibly, then all at once: %s', async (mode) => {
    const { storage, before, stored, later, proxy } = await start({ mode })

    const batch = batchOf(await storage.stage('tabs', [{ id: 'a', payload: 'new' }], before, null))
    const added = await storage.stage('tabs', [{ id: 'n', payload: 'new' }], before, batch)
    expect(added).toMatchObject({ outcome: 'staged', rejected: new Map() })
    expect(stored()).toEqual({ a: 'old', b: 'old', 'c,d': 'old' })
    later()
    const outcome = await storage.commitStaged('tabs', batch, before)

    expect(timestampOf(outcome)).toBeGreaterThan(before)
    expect(stored()).toEqual({ a: 'new', b: 'old', 'c,d': 'old', n: 'new' })
    expect(proxy.requests.at(-1)).toMatchObject({ body: '[]' })
    expect(proxy.requests.at(-1)!.query.get('commit')).toBe('true')
  })

  it('are rejected without effect for a batch that the storage does not know', async () => {
    const { storage, before } = await start()

    for (const refused of [
      () => storage.commitStaged('tabs', 'unknown=+/&commit', before),
      () => storage.stage('tabs', [{ id: 'a' }], before, 'unknown'),
    ]) {
      expect(await failureOf(refused())).toMatchObject({ failure: 'refused', status: 400, applied: 'no' })
    }
  })

  it('never accept the response to a commit without a timestamp', async () => {
    const { storage, before, proxy } = await start()
    const headers = { 'X-Last-Modified': '1700000000.00' }
    proxy.plan(() => ({ kind: 'status', status: 202, headers, body: '{"success":["a"],"failed":{}}' }))

    for (const taken of [
      () => storage.commitStaged('tabs', 'a', before),
      () => storage.stage('tabs', [{ id: 'a' }], before, null),
      () => storage.write('tabs', [{ id: 'a' }], before),
    ])
      expect(await failureOf(taken())).toMatchObject({ failure: 'bad-response' })
  })
})

describe('remove', () => {
  it.each(modes)(
    'deletes the named records in the groups of splitDeletion, with any ids: %s',
    async (mode) => {
      const { storage, before, stored, sandbox, user, later } = await start({ mode })

      const groups = storage.splitDeletion(['a', 'c,d', 'unknown', 'un,known'])
      const outcomes: DeletionOutcome[] = []
      let at = before
      for (const ids of groups) {
        const outcome = await storage.remove('tabs', ids, at)
        outcomes.push(outcome)
        at = timestampOf(outcome)
        later()
      }

      expect(groups).toEqual([['a', 'unknown'], ['c,d'], ['un,known']])
      // A storage compares a record that has its own path by its own timestamp.
      expect(outcomes.map((outcome) => 'isAlone' in outcome && outcome.isAlone)).toEqual([true, false, false])
      expect(stored()).toEqual({ b: 'old' })
      expect(at).toBeGreaterThan(before)
      const open = await storage.collectionTimestamps()
      expect(open).toMatchObject({ collections: new Map([['tabs', at]]) })
      expect(sandbox.records(user, 'tabs')).toHaveLength(1)
    },
  )

  it('deletes a hundred at a time', async () => {
    const { storage } = await start()
    const ids = numbered(230).map(({ id }) => id)

    const groups = storage.splitDeletion(ids)

    expect(groups.map(({ length }) => length)).toEqual([100, 100, 30])
    expect(groups.flat()).toEqual(ids)
  })

  it.each([[[]], [['']], [['a', '']], [['a', 'c,d']]])('sends nothing for the ids %j', async (ids) => {
    const { storage, before, proxy, stored } = await start()

    expect(await failureOf(storage.remove('tabs', ids, before))).toBeInstanceOf(RangeError)

    expect(proxy.requests).toEqual([])
    expect(Object.keys(stored())).toHaveLength(3)
  })

  it('does nothing if the collection, or a record with a comma, has changed', async () => {
    const { storage, sandbox, user, before, later, stored } = await start()
    sandbox.write(user, 'tabs', [{ id: 'c,d', payload: 'theirs' }])
    later()

    expect(await storage.remove('tabs', ['a'], before)).toEqual({ outcome: 'moved' })
    expect(await storage.remove('tabs', ['c,d'], before)).toEqual({ outcome: 'moved' })

    expect(stored()).toEqual({ a: 'old', b: 'old', 'c,d': 'theirs' })
  })
})

describe('rejected credentials of a write', () => {
  const writes: [string, (storage: BulkStorage, since: Timestamp) => Promise<unknown>][] = [
    ['write', (storage, since) => storage.write('tabs', [{ id: 'a', payload: 'new' }], since)],
    ['stage', (storage, since) => storage.stage('tabs', [{ id: 'a', payload: 'new' }], since, null)],
    ['remove', (storage, since) => storage.remove('tabs', ['a'], since)],
  ]

  it.each(writes)('certainly have no effect if no new ones can be fetched: %s', async (_, write) => {
    const { open, before, proxy } = await start()
    const storage = await open({
      renew: () => Promise.reject(new UpstreamError('timeout', 'too slow', { retryAfterSeconds: 7 })),
    })
    proxy.plan(() => ({ kind: 'status', status: 401, body: '0' }))

    const failure = await failureOf(write(storage, before))

    expect(failure).toMatchObject({ failure: 'timeout', applied: 'no', retryAfterSeconds: 7 })
  })

  it('end with the refusal of the token server, if that has one', async () => {
    const { open, before, proxy } = await start()
    const refusal = new ServiceError(401, errno.invalidCredentials, 'Revoked')
    const storage = await open({ renew: () => Promise.reject(refusal) })
    proxy.plan(() => ({ kind: 'status', status: 401, body: '0' }))

    expect(await failureOf(storage.remove('tabs', ['a'], before))).toBe(refusal)
  })

  it('are renewed once', async () => {
    const { storage, before, proxy, renewals } = await start()
    proxy.plan(() => ({ kind: 'status', status: 401, body: '0' }))

    expect(await failureOf(storage.remove('tabs', ['a'], before))).toMatchObject({ status: 401 })
    expect(renewals).toHaveLength(1)
  })

  it('exclude a storage that a read has found since', async () => {
    const { storage, before, sandbox, user, proxy } = await start()
    sandbox.reassign(user)
    await storage.count('tabs', {})

    expect(await failureOf(storage.write('tabs', [{ id: 'a' }], before))).toMatchObject({
      failure: 'refused',
      applied: 'no',
    })

    expect(proxy.requests.filter(({ method }) => method === 'POST')).toEqual([])
  })
})
