import { errno, ServiceError, UpstreamError } from '../../src/domain/errors.ts'
import { judgeCollection, judgeGet } from '../../src/domain/precondition.ts'
import { toListDocument } from '../../src/domain/list.ts'
import { zeroTimestamp, timestamp } from '../../src/domain/timestamp.ts'
import { sourceOf } from './byte-source.ts'
import type { GetOutcome, Precondition } from '../../src/domain/precondition.ts'
import type {
  BulkStorage,
  CollectionTimestamps,
  CommitOutcome,
  ListFilter,
  ListOptions,
  ListOutcome,
  Notices,
  RecordCount,
  RecordWrite,
  Snapshot,
  StageOutcome,
  StorageLimits,
} from '../../src/domain/record-storage.ts'
import type { SyncRecord } from '../../src/domain/record.ts'
import type { Timestamp } from '../../src/domain/timestamp.ts'

/** A clock that moves only when it is told to. */
export class ModelClock {
  nowMs = 1_700_000_000_000

  now = (): number => this.nowMs

  delay = async (ms: number): Promise<void> => {
    this.nowMs += ms
    await Promise.resolve()
  }
}

type CallName =
  | 'limits'
  | 'snapshot'
  | 'write'
  | 'stage'
  | 'commitStaged'
  | 'remove'
  | 'list'
  | 'get'
  | 'collectionTimestamps'
  | 'count'

/** One call of a storage method; `number` counts from 1. */
export interface ModelCall {
  number: number
  name: CallName
  collection: string
}

/** How a call goes wrong; what is called `after` has had its effect, and only the answer is lost. */
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

/** A change that became visible, and who made it. */
export interface AppliedWrite {
  by: 'us' | 'other'
  call: number
  collection: string
  kind: 'write' | 'remove'
  ids: string[]
  payloads: string[]
  timestamp: Timestamp
  /** It was the commit of a staged batch, which gives every record a new version. */
  wasStaged: boolean
  /** The collection's timestamp before. */
  since: Timestamp
  /** The visible records of the collection before and after. */
  before: Map<string, SyncRecord>
  after: Map<string, SyncRecord>
}

interface Row {
  payload: string
  sortindex?: number
  modified: Timestamp
  expiresAtMs: number
}

interface Collection {
  timestamp: Timestamp
  rows: Map<string, Row>
}

const defaultLifeSeconds = 2_100_000_000

export const generousLimits: StorageLimits = {
  maxRequestBytes: 2_625_536,
  maxPostBytes: 2_621_440,
  maxPostRecords: 100,
  maxRecordPayloadBytes: 2_621_440,
  batch: { maxTotalBytes: 262_144_000, maxTotalRecords: 10_000 },
}

/**
 * A Sync storage in memory, as its users see it: writes merge, every write moves the collection's timestamp by at
 * least 10 ms and is conditional on it, staged batches are invisible, expired rows stay and are only hidden.
 */
export class ModelStorage implements BulkStorage {
  readonly notices: Notices = { backoffSeconds: null, alert: null, quotaRemaining: null }
  readonly calls: ModelCall[] = []
  readonly log: AppliedWrite[] = []
  maxima: StorageLimits = generousLimits
  /** The timestamp of collections that nothing was put into: emptied long ago, or, with `zeroTimestamp`, never written to. */
  emptyTimestamp = timestamp(1_600_000_000_000)
  /** Ids that the storage will not take, and why. */
  readonly refusedIds = new Map<string, 'invalid' | 'too-large'>()
  /** Decides how a call goes wrong; null lets it through. */
  fault: (call: ModelCall) => ModelFault | null = () => null
  /** Called before each call takes effect: where other writers have their turn. */
  onCall: (call: ModelCall) => void = () => {}
  /** Lists as streams of chunks of this size instead of as bytes. */
  streamChunkBytes: number | null = null
  cancelledStreams = 0
  hasBegunCommit = false
  /** The names of visible changes that were made before `beginCommit`. */
  readonly earlyWrites: string[] = []
  /** Collections that were made to exist by deleting nothing. */
  readonly created = new Set<string>()
  #collections = new Map<string, Collection>()
  #staged = new Map<string, { collection: string; records: RecordWrite[] }>()
  #batches = 0

  constructor(
    readonly clock: ModelClock = new ModelClock(),
    readonly owner = 'user',
  ) {}

  beginCommit(): void {
    this.hasBegunCommit = true
  }

  /** How often each method was called. */
  get callCounts(): Partial<Record<CallName, number>> {
    const counts: Partial<Record<CallName, number>> = {}
    for (const { name } of this.calls) counts[name] = (counts[name] ?? 0) + 1
    return counts
  }

  /** Puts records there, at a moment of its own. */
  seed(collection: string, records: RecordWrite[]): Timestamp {
    this.clock.nowMs += 10
    const { timestamp } = this.#apply(collection, records, null, 0)
    this.clock.nowMs += 10
    return timestamp
  }

  /** Another client writes whole records, or deletes. */
  otherWrites(collection: string, records: RecordWrite[]): void {
    this.#apply(collection, records, 'other', this.calls.length)
  }

  otherRemoves(collection: string, ids: string[]): void {
    this.#drop(collection, ids, 'other', this.calls.length)
  }

  /** Everything that can be seen, by collection and id. */
  contents(): Record<string, Record<string, { payload: string; sortindex?: number }>> {
    const contents: Record<string, Record<string, { payload: string; sortindex?: number }>> = {}
    for (const name of [...this.#collections.keys()].sort()) {
      const records: Record<string, { payload: string; sortindex?: number }> = {}
      for (const [id, { payload, sortindex }] of [...this.visible(name)].sort(([a], [b]) =>
        a < b ? -1 : 1,
      )) {
        records[id] = { payload, ...(sortindex === undefined ? {} : { sortindex }) }
      }
      if (Object.keys(records).length > 0) contents[name] = records
    }
    return contents
  }

  visible(collection: string): Map<string, SyncRecord> {
    const visible = new Map<string, SyncRecord>()
    for (const [id, row] of this.#collections.get(collection)?.rows ?? []) {
      if (row.expiresAtMs <= this.clock.nowMs) continue
      const { payload, sortindex, modified } = row
      visible.set(id, {
        id,
        lastModified: modified,
        payload,
        ...(sortindex === undefined ? {} : { sortindex }),
      })
    }
    return visible
  }

  timestampOf(collection: string): Timestamp {
    return this.#collections.get(collection)?.timestamp ?? this.emptyTimestamp
  }

  async limits(): Promise<StorageLimits> {
    return await this.#call('limits', '', () => this.maxima)
  }

  async snapshot(collection: string, ids: string[]): Promise<Snapshot> {
    return await this.#call('snapshot', collection, () => {
      const visible = this.visible(collection)
      const records = new Map(ids.flatMap((id) => (visible.has(id) ? [[id, visible.get(id)!]] : [])))
      return { timestamp: this.timestampOf(collection), records }
    })
  }

  async write(
    collection: string,
    records: RecordWrite[],
    unmodifiedSince: Timestamp,
  ): Promise<CommitOutcome> {
    return await this.#call('write', collection, (call) => {
      if (this.timestampOf(collection) > unmodifiedSince) return { outcome: 'moved' }
      this.#requireAcceptable(records)
      return this.#apply(collection, records, 'us', call.number)
    })
  }

  async stage(
    collection: string,
    records: RecordWrite[],
    unmodifiedSince: Timestamp,
    batch?: string,
  ): Promise<StageOutcome> {
    return await this.#call('stage', collection, (call) => {
      if (this.timestampOf(collection) > unmodifiedSince) return { outcome: 'moved' }
      this.#requireAcceptable(records)
      if (!this.maxima.batch) return this.#apply(collection, records, 'us', call.number)
      const name = batch ?? `batch-${++this.#batches}`
      const staged = this.#staged.get(name)?.records ?? []
      if (staged.some(({ id }) => records.some((record) => record.id === id))) {
        throw new TypeError('An id was added twice to a staged batch')
      }
      const { accepted, rejected } = this.#sift(records)
      this.#staged.set(name, { collection, records: [...staged, ...accepted] })
      return { outcome: 'staged', batch: name, rejected }
    })
  }

  async commitStaged(collection: string, batch: string, unmodifiedSince: Timestamp): Promise<CommitOutcome> {
    return await this.#call('commitStaged', collection, (call) => {
      if (this.timestampOf(collection) > unmodifiedSince) return { outcome: 'moved' }
      const staged = this.#staged.get(batch)
      if (staged?.collection !== collection)
        throw new ServiceError(400, errno.invalidParameters, 'No such batch')
      this.#staged.delete(batch)
      return this.#apply(collection, staged.records, 'us', call.number, true)
    })
  }

  async remove(collection: string, ids: string[], unmodifiedSince: Timestamp): Promise<CommitOutcome> {
    if (ids.length === 0) throw new TypeError('Removing nothing would remove everything')
    return await this.#call('remove', collection, (call) => {
      if (this.timestampOf(collection) > unmodifiedSince) return { outcome: 'moved' }
      if (unmodifiedSince === zeroTimestamp) return this.#create(collection)
      return this.#drop(collection, ids, 'us', call.number)
    })
  }

  async list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome> {
    return await this.#call('list', collection, () => {
      if (options.position && !/^\d+$/.test(options.position.offset)) {
        throw new ServiceError(400, errno.invalidParameters, 'Cannot read _token')
      }
      const current = this.timestampOf(collection)
      const verdict = judgeCollection(precondition, current)
      if (verdict) return verdict
      const all = listed([...this.visible(collection).values()], options)
      const start = Number(options.position?.offset ?? 0)
      const end = options.limit === undefined ? all.length : start + options.limit
      const timestamp = options.position?.firstTimestamp ?? current
      const bytes = toListDocument(all.slice(start, end))
      const next = end < all.length ? { offset: String(end), firstTimestamp: timestamp } : null
      const document =
        this.streamChunkBytes === null ? bytes : sourceOf(this.#stream(bytes, this.streamChunkBytes))
      return { outcome: 'page', page: { timestamp, document, count: null, next } }
    })
  }

  async get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome> {
    return await this.#call('get', collection, () =>
      judgeGet(precondition, this.visible(collection).get(id) ?? null),
    )
  }

  async collectionTimestamps(): Promise<CollectionTimestamps> {
    return await this.#call('collectionTimestamps', '', () => {
      const collections = new Map([...this.#collections].map(([name, { timestamp }]) => [name, timestamp]))
      return { timestamp: timestamp(Math.max(0, ...collections.values())), collections }
    })
  }

  async count(collection: string, filter: ListFilter): Promise<RecordCount> {
    return await this.#call('count', collection, () => ({
      count: listed([...this.visible(collection).values()], { ...filter, sort: 'newest' }).length,
      timestamp: this.timestampOf(collection),
    }))
  }

  async #call<Result>(name: CallName, collection: string, act: (call: ModelCall) => Result): Promise<Result> {
    const call: ModelCall = { number: this.calls.length + 1, name, collection }
    this.calls.push(call)
    this.clock.nowMs += 1
    await Promise.resolve()
    this.onCall(call)
    const fault = this.fault(call)
    const isWrite = ['write', 'stage', 'commitStaged', 'remove'].includes(name)
    switch (fault) {
      case null:
        break
      case 'refused-identity':
        throw new ServiceError(401, errno.invalidCredentials, 'Credentials refused')
      case 'quota':
        if (isWrite) throw new ServiceError(403, errno.forbidden, 'Over quota')
        break
      case 'moved':
        if (isWrite) return { outcome: 'moved' } as Result
        break
      case 'conflict':
        throw new UpstreamError('refused', 'Conflict', { applied: 'no', status: 503 })
      case 'unreachable':
      case 'error-before':
      case 'reset-before':
      case 'hang-before':
        throw this.#failure(fault)
      case 'error-after':
      case 'reset-after':
      case 'hang-after': {
        const result = act(call)
        void result
        throw this.#failure(fault)
      }
      default:
        fault satisfies never
    }
    const result = act(call)
    await Promise.resolve()
    return result
  }

  #failure(fault: ModelFault): UpstreamError {
    if (fault === 'unreachable') return new UpstreamError('unreachable', 'Connection refused')
    if (fault.startsWith('error')) return new UpstreamError('refused', 'Status 500', { status: 500 })
    if (fault.startsWith('reset')) return new UpstreamError('connection-lost', 'Connection reset')
    this.clock.nowMs += 100
    return new UpstreamError('timeout', 'No answer')
  }

  #requireAcceptable(records: RecordWrite[]): void {
    const bytes = records.reduce((sum, { payload = '' }) => sum + Buffer.byteLength(payload), 0)
    if (records.length > this.maxima.maxPostRecords || bytes > this.maxima.maxPostBytes) {
      throw new ServiceError(413, errno.requestTooLarge, 'Too much at once')
    }
    if (new Set(records.map(({ id }) => id)).size < records.length) {
      throw new ServiceError(400, errno.invalidParameters, 'An id twice')
    }
  }

  #sift(records: RecordWrite[]) {
    const rejected = new Map<string, 'invalid' | 'too-large'>()
    for (const { id, payload = '' } of records) {
      const reason = this.refusedIds.get(id)
      if (reason) rejected.set(id, reason)
      else if (Buffer.byteLength(payload) > this.maxima.maxRecordPayloadBytes) rejected.set(id, 'too-large')
    }
    return { accepted: records.filter(({ id }) => !rejected.has(id)), rejected }
  }

  #apply(
    name: string,
    records: RecordWrite[],
    by: 'us' | 'other' | null,
    call: number,
    wasStaged = false,
  ): Extract<CommitOutcome, { outcome: 'committed' }> {
    const before = by === null ? new Map<string, SyncRecord>() : this.visible(name)
    const since = this.timestampOf(name)
    const collection = this.#open(name, by, 'write')
    const { accepted, rejected } =
      by === 'us' ? this.#sift(records) : { accepted: records, rejected: new Map() }
    for (const { id, payload, sortindex, ttlSeconds } of accepted) {
      const row = collection.rows.get(id)
      const isNewVersion = !row || wasStaged || payload !== undefined || sortindex !== undefined
      const weight = sortindex ?? row?.sortindex
      collection.rows.set(id, {
        payload: payload ?? row?.payload ?? '',
        ...(weight === undefined ? {} : { sortindex: weight }),
        modified: isNewVersion ? collection.timestamp : row.modified,
        expiresAtMs:
          ttlSeconds === undefined
            ? (row?.expiresAtMs ?? this.clock.nowMs + defaultLifeSeconds * 1000)
            : this.clock.nowMs + ttlSeconds * 1000,
      })
    }
    const ids = accepted.map(({ id }) => id)
    const payloads = accepted.flatMap(({ payload }) => payload ?? [])
    this.#record({ by, call, collection: name, kind: 'write', ids, payloads, wasStaged, since, before })
    return { outcome: 'committed', timestamp: collection.timestamp, rejected }
  }

  #drop(name: string, ids: string[], by: 'us' | 'other', call: number): CommitOutcome {
    const before = this.visible(name)
    const since = this.timestampOf(name)
    const collection = this.#open(name, by, 'remove')
    for (const id of ids) collection.rows.delete(id)
    this.#record({
      by,
      call,
      collection: name,
      kind: 'remove',
      ids,
      payloads: [],
      wasStaged: false,
      since,
      before,
    })
    return { outcome: 'committed', timestamp: collection.timestamp, rejected: new Map() }
  }

  #create(name: string): CommitOutcome {
    this.created.add(name)
    const { timestamp } = this.#open(name, null, 'create')
    return { outcome: 'committed', timestamp, rejected: new Map() }
  }

  #record({
    by,
    ...entry
  }: Omit<AppliedWrite, 'by' | 'timestamp' | 'after'> & { by: 'us' | 'other' | null }): void {
    if (by === null) return
    const timestamp = this.timestampOf(entry.collection)
    this.log.push({ ...entry, by, timestamp, after: this.visible(entry.collection) })
  }

  #open(name: string, by: 'us' | 'other' | null, deed: string): Collection {
    if (by === 'us' && !this.hasBegunCommit) this.earlyWrites.push(deed)
    const collection = this.#collections.get(name) ?? { timestamp: zeroTimestamp, rows: new Map() }
    this.#collections.set(name, collection)
    const now = Math.floor(this.clock.nowMs / 10) * 10
    collection.timestamp = timestamp(Math.max(now, collection.timestamp + 10))
    this.clock.nowMs = Math.max(this.clock.nowMs, collection.timestamp)
    return collection
  }

  #stream(bytes: Uint8Array, chunkBytes: number): ReadableStream<Uint8Array> {
    let position = 0
    return new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          if (position >= bytes.length) {
            controller.close()
            return
          }
          controller.enqueue(bytes.slice(position, position + chunkBytes))
          position += chunkBytes
        },
        cancel: () => {
          this.cancelledStreams += 1
        },
      },
      { highWaterMark: 0 },
    )
  }
}

/** The records that a list shows, all pages together. */
export function listed(
  records: SyncRecord[],
  { newer, older, ids, excludedIds, sort }: ListOptions,
): SyncRecord[] {
  const shown = records.filter(
    ({ id, lastModified }) =>
      (newer === undefined || lastModified > newer) &&
      (older === undefined || lastModified < older) &&
      (!ids || ids.includes(id)) &&
      !excludedIds?.has(id),
  )
  const lightest = Number.MIN_SAFE_INTEGER
  if (sort === 'newest') return shown.sort((a, b) => b.lastModified - a.lastModified)
  if (sort === 'oldest') return shown.sort((a, b) => a.lastModified - b.lastModified)
  return shown.sort((a, b) => (b.sortindex ?? lightest) - (a.sortindex ?? lightest))
}
