import { AsyncLocalStorage } from 'node:async_hooks'
import { Batches } from '../../src/sandbox/batches.ts'
import { readTarget } from '../../src/sandbox/http.ts'
import { mozilla } from '../../src/sandbox/dialect.ts'
import { initialSwitches } from '../../src/sandbox/options.ts'
import { createStorageServer } from '../../src/sandbox/storage-server.ts'
import { Storage } from '../../src/sandbox/storage.ts'
import { toEndpoint } from '../../src/domain/credentials.ts'
import { errno, ServiceError, UpstreamError } from '../../src/domain/errors.ts'
import { RecentMap } from '../../src/domain/bounded.ts'
import type { SyncRecord } from '../../src/domain/record.ts'
import { timestamp, type Timestamp } from '../../src/domain/timestamp.ts'
import { StorageCalls } from '../../src/upstream/signed-call.ts'
import { SyncStorage } from '../../src/upstream/sync-storage.ts'
import type { BodyStream, UpstreamResponse } from '../../src/upstream/response.ts'
import type { UpstreamRequest } from '../../src/upstream/send.ts'
import type { BulkStorage, RecordWrite, StorageLimits } from '../../src/domain/record-storage.ts'

/** More than any transaction makes; a defect that repeats calls or pauses for ever then fails instead of hanging the test. */
const mostRepetitions = 20_000

/** A clock that only moves on demand. */
export class ModelClock {
  nowMs = 1_700_000_000_000
  #delays = 0

  now = (): number => this.nowMs

  delay = async (ms: number): Promise<void> => {
    this.#delays += 1
    if (this.#delays > mostRepetitions) throw new RangeError('Endless pauses')
    this.nowMs += ms
    await Promise.resolve()
  }
}

type CallName = Exclude<
  keyof BulkStorage,
  'owner' | 'node' | 'beginCommit' | 'ignoreDeadline' | 'splitDeletion'
>

/** One call of a storage method; `number` counts from 1. */
export interface ModelCall {
  number: number
  name: CallName
  collection: string
  /** The records that a deletion names. */
  ids?: string[]
}

/** How a call fails; those named `after` are applied, and only the response is lost. */
export type ModelFault =
  | 'unreachable'
  | 'error-before'
  | 'error-after'
  | 'reset-before'
  | 'reset-after'
  | 'hang-before'
  | 'hang-after'
  | 'refused-identity'
  | 'quota'
  | 'moved'
  | 'conflict'

/** A change that became visible, and its author. */
export interface AppliedWrite {
  by: 'us' | 'other'
  collection: string
  kind: 'write' | 'remove'
  ids: string[]
  payloads: string[]
  timestamp: Timestamp
  /** The collection's earlier timestamp. */
  since: Timestamp
  /** The visible records of the collection before and after. */
  before: Map<string, SyncRecord>
  after: Map<string, SyncRecord>
}

export const generousLimits: StorageLimits = {
  maxRequestBytes: 2_625_536,
  maxPostBytes: 2_621_440,
  maxPostRecords: 100,
  maxRecordPayloadBytes: 2_621_440,
  batch: { maxTotalBytes: 262_144_000, maxTotalRecords: 10_000 },
}

/** What one of our requests is about to make visible. */
interface Written extends Pick<AppliedWrite, 'collection' | 'kind'> {
  records: RecordWrite[]
}

/** Runs around the transaction of a request that makes something visible. */
const observing = new AsyncLocalStorage<(work: () => unknown) => unknown>()

class ObservedStorage extends Storage {
  override transaction<T>(work: () => T): T {
    const observe = observing.getStore()
    return super.transaction(observe === undefined ? work : () => observe(work) as T)
  }
}

// One database for all, with a user for each, because creating one takes longer than most tests.
const database = new ObservedStorage(mozilla)
const batches = new Batches(database, mozilla)
const origin = 'http://127.0.0.1:1'
/** Requests are signed and verified, but no one has to sign in. */
const hawk = { hawkId: 'id', hawkKey: 'key' }
const noPermits = { tryAcquire: () => true, release() {}, hasWaiters: () => false }
let users = 0

/**
 * The storage of one user: the sandbox's, without sockets, behind our upstream code. Adds a clock, failing calls, other writers, and a log
 * of visible changes.
 */
export class ModelStorage implements BulkStorage {
  readonly calls: ModelCall[] = []
  readonly log: AppliedWrite[] = []
  maxima: StorageLimits = generousLimits
  /** The timestamp of collections without records: emptied long ago, or, with `zeroTimestamp`, never written to. */
  emptyTimestamp = timestamp(1_600_000_000_000)
  /** Ids that the storage rejects, with the reason. */
  readonly refusedIds = new Map<string, 'invalid' | 'too-large'>()
  /** Decides how a call fails; null lets it succeed. */
  fault: (call: ModelCall) => ModelFault | null = () => null
  /** Called before each call takes effect, so that other writers can act. */
  onCall: (call: ModelCall) => void = () => {}
  /** Whether the calls from now on never end, because the bridge was killed. */
  hang: () => boolean = () => false
  /** Lists as streams of chunks of this size instead of bytes. */
  streamChunkBytes: number | null = null
  piecesRead = 0
  cancelledStreams = 0
  hasBegunCommit = false
  /** The names of visible changes made before `beginCommit`. */
  readonly earlyWrites: string[] = []
  /** Collections that were created by deleting nothing. */
  readonly created = new Set<string>()
  readonly #uid = (users += 1)
  readonly #switches = initialSwitches({}, mozilla)
  readonly #server: ReturnType<typeof createStorageServer>
  readonly #real: BulkStorage
  readonly #staged = new Map<string, RecordWrite[]>()

  constructor(readonly clock: ModelClock = new ModelClock()) {
    const { now, delay } = clock
    const uid = this.#uid
    const contents = { uid, expires: Number.MAX_SAFE_INTEGER, salt: '' }
    this.#server = createStorageServer({
      storage: database,
      batches,
      tokens: { seal: () => hawk.hawkId, keyOf: () => hawk.hawkKey, open: () => contents as never },
      dialect: mozilla,
      switches: this.#switches,
      movedUids: new Set(),
      clock: {
        nowMs: now,
        timestamp: () => Math.floor(now() / 10) * 10,
        moveTo: (ms) => (clock.nowMs = Math.max(ms, now())),
      },
    })
    const credentials = {
      ...hawk,
      uid,
      endpoint: toEndpoint(new URL(`${origin}/1.5/${uid}`)),
      expiresAtMs: Number.POSITIVE_INFINITY,
    }
    let nonces = 0
    const client = {
      upstream: {
        send: (request: UpstreamRequest) => this.#send(request),
        lists: noPermits as never,
      },
      timeoutMs: 1000,
      limitsByNode: new RecentMap<string, never>(1000),
      nonce: () => `n${(nonces += 1)}`,
      now,
      monotonicNow: now,
      delay,
    }
    const renew = () => Promise.resolve(credentials)
    const notices = { backoffSeconds: 0, alert: null, isShutDown: false, quotaRemaining: null }
    const caller = { credentials, renew, userAgent: '', notices, deadlineAtMs: Infinity }
    this.#real = new SyncStorage(new StorageCalls(client, caller))
  }

  get owner() {
    return this.#real.owner
  }

  get node() {
    return this.#real.node
  }

  splitDeletion = (ids: string[]) => this.#real.splitDeletion(ids)
  readLimits: BulkStorage['readLimits'] = this.#method('readLimits')
  snapshot: BulkStorage['snapshot'] = this.#method('snapshot')
  write: BulkStorage['write'] = this.#method('write')
  stage: BulkStorage['stage'] = this.#method('stage')
  commitStaged: BulkStorage['commitStaged'] = this.#method('commitStaged')
  remove: BulkStorage['remove'] = this.#method('remove')
  list: BulkStorage['list'] = this.#method('list')
  get: BulkStorage['get'] = this.#method('get')
  collectionTimestamps: BulkStorage['collectionTimestamps'] = this.#method('collectionTimestamps')
  count: BulkStorage['count'] = this.#method('count')

  beginCommit(): void {
    this.hasBegunCommit = true
    this.#real.beginCommit()
  }

  ignoreDeadline(): void {
    this.#real.ignoreDeadline()
  }

  /** How often each method was called. */
  get callCounts(): Partial<Record<CallName, number>> {
    const counts: Partial<Record<CallName, number>> = {}
    for (const { name } of this.calls) counts[name] = (counts[name] ?? 0) + 1
    return counts
  }

  /** Adds records. */
  seed(collection: string, records: RecordWrite[]): Timestamp {
    this.clock.nowMs += 10
    return this.#change(collection, null, (now) => this.#put(collection, records, now))
  }

  /** Another client writes whole records, or deletes. */
  otherWrites(collection: string, records: RecordWrite[]): void {
    this.#change(collection, { kind: 'write', records }, (now) => this.#put(collection, records, now))
  }

  otherRemoves(collection: string, ids: string[]): void {
    const entry = { kind: 'remove' as const, records: ids.map((id) => ({ id })) }
    this.#change(collection, entry, () => database.deleteItems(this.#uid, collection, ids))
  }

  /** Everything visible, by collection and id. */
  contents(): Record<string, Record<string, { payload: string; sortindex?: number }>> {
    const contents: ReturnType<ModelStorage['contents']> = {}
    for (const [name] of database.collectionTimestamps(this.#uid)) {
      const records = [...this.visible(name)].map(([id, { payload, sortindex }]) => [
        id,
        { payload, ...(sortindex !== undefined && { sortindex }) },
      ])
      if (records.length > 0) contents[name] = Object.fromEntries(records)
    }
    return contents
  }

  visible(collection: string): Map<string, SyncRecord> {
    const records = database.all(this.#uid, collection, this.clock.nowMs)
    return new Map(
      records.map(({ id, modified, payload, sortindex }) => [
        id,
        { id, lastModified: timestamp(modified), payload, ...(sortindex !== null && { sortindex }) },
      ]),
    )
  }

  timestampOf(collection: string): Timestamp {
    const found = database.collectionTimestamp(this.#uid, collection)
    return found === 0 ? this.emptyTimestamp : timestamp(found)
  }

  #put(collection: string, records: RecordWrite[], now: number): void {
    for (const { ttlSeconds: ttl, ...bso } of records)
      database.put(this.#uid, collection, { ...bso, ttl }, now)
  }

  /** A write of another client, so late that nothing conflicts; null is not logged. */
  #change(
    collection: string,
    entry: { kind: 'write' | 'remove'; records: RecordWrite[] } | null,
    work: (now: number) => void,
  ): Timestamp {
    const since = this.timestampOf(collection)
    const before = entry === null ? new Map<string, SyncRecord>() : this.visible(collection)
    const now = Math.max(Math.floor(this.clock.nowMs / 10) * 10, since + 10)
    this.clock.nowMs = Math.max(this.clock.nowMs, now)
    work(now)
    database.touch(this.#uid, collection, now)
    this.clock.nowMs = Math.max(this.clock.nowMs, now + 10)
    if (entry) this.#record({ by: 'other', collection, since, before, ...entry })
    return timestamp(now)
  }

  #record({
    records,
    ...entry
  }: Omit<AppliedWrite, 'timestamp' | 'after' | 'ids' | 'payloads'> & { records: RecordWrite[] }): void {
    const { collection } = entry
    this.log.push({
      ...entry,
      ids: records.map(({ id }) => id),
      payloads: records.flatMap(({ payload }) => payload ?? []),
      timestamp: this.timestampOf(collection),
      after: this.visible(collection),
    })
  }

  #method<Name extends CallName>(name: Name): BulkStorage[Name] {
    const applied = (...given: unknown[]) =>
      this.#call(name, given, (real) => (real[name] as (...given: unknown[]) => Promise<unknown>)(...given))
    return applied as BulkStorage[Name]
  }

  async #call<Result>(
    name: CallName,
    given: unknown[],
    act: (real: BulkStorage) => Promise<Result>,
  ): Promise<Result> {
    const collection = typeof given[0] === 'string' ? given[0] : ''
    const call: ModelCall = { number: this.calls.length + 1, name, collection }
    if (name === 'remove') call.ids = given[1] as string[]
    this.calls.push(call)
    if (call.number > mostRepetitions) throw new RangeError('Endless calls')
    this.clock.nowMs += 1
    await Promise.resolve()
    this.onCall(call)
    if (this.hang()) return await new Promise<never>(() => {})
    if (
      collection !== '' &&
      this.emptyTimestamp > 0 &&
      database.collectionTimestamp(this.#uid, collection) === 0
    )
      database.touch(this.#uid, collection, this.emptyTimestamp)
    const fault = this.fault(call)
    const isWrite = ['write', 'stage', 'commitStaged', 'remove'].includes(name)
    const run = () => act(this.#real)
    switch (fault) {
      case null:
        return await run()
      case 'refused-identity':
        throw new ServiceError(401, errno.invalidCredentials, 'Credentials refused')
      case 'quota':
        if (isWrite) throw new ServiceError(403, errno.forbidden, 'Over quota')
        return await run()
      case 'moved':
        return isWrite ? ({ outcome: 'moved' } as Result) : await run()
      case 'conflict':
        throw new UpstreamError('conflict', 'Conflict', { status: 503 })
      case 'unreachable':
      case 'error-before':
      case 'reset-before':
      case 'hang-before':
        throw this.#failure(fault)
      case 'error-after':
      case 'reset-after':
      case 'hang-after':
        await run()
        throw this.#failure(fault)
      default:
        return fault satisfies never
    }
  }

  #failure(fault: ModelFault): UpstreamError {
    if (fault === 'unreachable') return new UpstreamError('unreachable', 'Connection refused')
    if (fault.startsWith('error')) return new UpstreamError('refused', 'Status 500', { status: 500 })
    if (fault.startsWith('reset')) return new UpstreamError('connection-lost', 'Connection reset')
    this.clock.nowMs += 100
    return new UpstreamError('timeout', 'No response')
  }

  /** Records what one of our requests makes visible. */
  #observe(written: Written, work: () => unknown): unknown {
    const { collection, kind } = written
    const [since, before] = [this.timestampOf(collection), this.visible(collection)]
    const isNew = database.collectionTimestamp(this.#uid, collection) === 0
    const reply = work() as { status: number }
    if (reply.status !== 200) return reply
    const isCreation = isNew && kind === 'remove'
    if (isCreation) this.created.add(collection)
    else this.#record({ by: 'us', since, before, ...written })
    if (!this.hasBegunCommit && !isCreation) this.earlyWrites.push(kind)
    return reply
  }

  #stream(bytes: Uint8Array, chunkBytes: number): BodyStream {
    let position = 0
    return {
      read: () => {
        const piece = bytes.slice(position, (position += chunkBytes))
        this.piecesRead += 1
        return Promise.resolve(piece.length > 0 ? piece : null)
      },
      cancel: () => {
        if (position < bytes.length) this.cancelledStreams += 1
      },
      releasePermit() {},
      hold() {},
    }
  }

  /** Replaces the network calls of the upstream code. */
  async #send({
    method,
    url: { href, host },
    headers,
    body,
    isStreamed,
  }: UpstreamRequest): Promise<UpstreamResponse> {
    const { maxRequestBytes, maxPostBytes, maxPostRecords, maxRecordPayloadBytes, batch } = this.maxima
    this.#switches.batching = batch !== null
    Object.assign(this.#switches.limits, {
      max_request_bytes: maxRequestBytes,
      max_post_bytes: maxPostBytes,
      max_post_records: maxPostRecords,
      max_record_payload_bytes: maxRecordPayloadBytes,
      ...(batch && { max_total_bytes: batch.maxTotalBytes, max_total_records: batch.maxTotalRecords }),
    })
    const records = body === undefined ? [] : (JSON.parse(body) as RecordWrite[])
    const taken = records.filter(({ id }) => !this.refusedIds.has(id))
    const request = new Request(href, {
      method,
      headers: { ...headers, Host: host },
      ...(body !== undefined && { body: JSON.stringify(taken) }),
    })
    const { searchParams, pathname } = new URL(href)
    const batchId = searchParams.get('batch')
    const isCommit = searchParams.has('commit')
    const isVisible =
      method === 'DELETE' || (method === 'POST' && (batchId === null || isCommit || batch === null))
    const itemId = pathname.split('/')[5]
    const ids =
      itemId === undefined ? (searchParams.get('ids')?.split(',') ?? []) : [decodeURIComponent(itemId)]
    const written: Written = {
      collection: pathname.split('/')[4]!,
      kind: method === 'DELETE' ? 'remove' : 'write',
      records:
        method === 'DELETE' ? ids.map((id) => ({ id })) : isCommit ? this.#staged.get(batchId!)! : taken,
    }
    const answering = () => this.#server(request, readTarget(href))
    const response = await (isVisible
      ? observing.run((work) => this.#observe(written, work), answering)
      : answering())
    const { status } = response
    let bytes = await response.bytes()
    if (method === 'POST' && status < 300) {
      const answer = JSON.parse(Buffer.from(bytes).toString()) as {
        batch?: string
        failed: Record<string, string>
      }
      for (const { id } of records) {
        const reason = this.refusedIds.get(id)
        if (reason) answer.failed[id] = reason === 'invalid' ? 'invalid bso' : 'retry bytes'
      }
      bytes = Buffer.from(JSON.stringify(answer))
      if (answer.batch !== undefined) {
        const staged = this.#staged.get(answer.batch) ?? []
        if (staged.some(({ id }) => records.some((record) => record.id === id)))
          throw new TypeError('An id was added twice to a staged batch')
        this.#staged.set(answer.batch, [...staged, ...taken])
      }
    }
    const stream =
      isStreamed && this.streamChunkBytes !== null ? this.#stream(bytes, this.streamChunkBytes) : null
    return {
      status,
      headers: response.headers,
      bytes: stream ? new Uint8Array() : bytes,
      stream,
    }
  }
}
