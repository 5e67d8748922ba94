import { isRefusal, UpstreamError, type ServiceError } from '../domain/errors.ts'
import { retries } from '../domain/retries.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { completeView, recordKey } from './reads.ts'
import { waitToRetry, type TransactionContext } from './context.ts'
import type { Operation, Step } from '../domain/operation.ts'
import type { BulkStorage, KeepsPayload, Snapshot, StorageLimits } from '../domain/record-storage.ts'
import { isWrite, type CollectionView, type Known, type NumberedOperation } from './simulate.ts'

/** Payloads up to this length are kept even if they may not be needed, because a failed condition shows the record. */
const shortPayload = 16_384

const nothing: CollectionView = { timestamp: zeroTimestamp, records: new Map(), lists: new Map() }

/**
 * What is known of one collection: the view that its operations are decided against, what the storage has rejected, and the timestamp that
 * the next write is conditional on. Reads it, and reads it again after another writer.
 */
export class KnownCollection {
  /** Replaced when anything changes, so that what was decided from it is known to be outdated. */
  facts: Readonly<Known>
  /** The condition of the next write: no other writer has changed the collection after this timestamp. */
  since = zeroTimestamp
  readonly collection: string
  readonly #ids: string[]
  /** How often this attempt has read the collection again because of other writers. */
  #rounds = 0

  constructor(
    private readonly storage: BulkStorage,
    private readonly operations: NumberedOperation[],
    private readonly context: TransactionContext,
    needed: ReadonlySet<string>,
  ) {
    const nothingYet = { view: nothing, rejected: new Map(), failure: null, limits: null }
    this.facts = { ...nothingYet, needed, withoutRoom: new Set() }
    this.collection = operations[0]!.operation.collection
    this.#ids = [...new Set(operations.flatMap(({ operation }) => ('id' in operation ? [operation.id] : [])))]
  }

  /** Reads the collection's own limits, which several or large writes need. */
  async readLimits(limits: () => Promise<StorageLimits>): Promise<void> {
    const all = await limits()
    this.#update({ limits: all.collections?.get(this.collection) ?? all })
  }

  /** Reads the records that the operations name, their lists, and the collection's timestamp. Only while nothing is visible. */
  async read(): Promise<void> {
    const { storage, operations, context } = this
    for (;;) {
      const view: CollectionView = { ...(await this.snapshot()), lists: new Map() }
      if (await completeView(storage, operations, view, context.budget)) {
        this.since = view.timestamp
        return this.#update({ view })
      }
      await this.startRound()
    }
  }

  /** The current version of these records; default: all that the operations name, with the payloads that are needed. */
  async snapshot(ids = this.#ids, keeps: KeepsPayload = this.keeps): Promise<Snapshot> {
    return await this.storage.snapshot(this.collection, ids, keeps)
  }

  /** Whether the payload of a record is kept: if it is needed or short, and has room. */
  readonly keeps: KeepsPayload = (id, length) => {
    const { storage, collection, context } = this
    const isNeeded = this.facts.needed.has(id)
    if (!isNeeded && length > shortPayload) return false
    try {
      return context.budget.keep(recordKey(storage, collection, id), length)
    } catch (error) {
      // What has been written must be completed, with or without memory.
      if (isNeeded && !context.mayBeVisible) throw error
      return false
    }
  }

  /** Notes that the payloads of these records are needed. */
  need(ids: ReadonlySet<string>): void {
    this.#update({ needed: new Set([...this.facts.needed, ...ids]) })
  }

  /** Another writer was first. Throws `UpstreamError` if that happens too often. */
  async startRound(): Promise<void> {
    this.#rounds += 1
    const { budget, options } = this.context
    if (!budget.hasTime || this.#rounds > retries.round.times) {
      // The next attempt, if there is one, starts anew.
      this.#rounds = 0
      const message = `Cannot write to "${this.collection}": other clients keep changing it`
      throw new UpstreamError('refused', message, { applied: 'no' })
    }
    options.observe({ kind: 'moved-round', collections: [this.collection] })
    await budget.pause(this.#rounds)
  }

  /** Decides operations on these records against newer versions of them; the rest of the view, and its lists, stay. */
  replace({ records: newer }: Snapshot, ids: string[]): void {
    const { view } = this.facts
    const records = new Map(view.records)
    for (const id of ids) records.set(id, newer.get(id)!)
    this.#update({ view: { ...view, records } })
  }

  /** Notes that the result of that write has no room in the response, so that it is not made. */
  leaveOut(index: number): void {
    this.#update({ withoutRoom: new Set([...this.facts.withoutRoom, index]) })
  }

  /** Notes that the storage rejected these records. */
  reject(rejected: ReadonlyMap<string, ServiceError>): void {
    if (rejected.size > 0) this.#update({ rejected: new Map([...this.facts.rejected, ...rejected]) })
  }

  /** Notes that the storage rejects all writes. */
  fail(failure: ServiceError): void {
    this.#update({ failure })
  }

  /**
   * Creates the row of a new collection before its first record, because PostgreSQL has nothing to lock without it: of two concurrent first
   * writes, one would be lost. Deleting a record that does not exist creates the row; later writes are conditional on its timestamp. One at
   * a time per node, because MariaDB answers concurrent attempts with 500. Another client's first write may still be in progress, so
   * operations that depend on the contents are decided after a short wait.
   */
  async createRow(isNeeded: () => boolean): Promise<void> {
    const { storage, operations, context } = this
    const { options, budget } = context
    const dependsOnContents = operations.some(({ operation }) => !isWholePut(operation))
    for (let round = 0, failures = 0; this.since === zeroTimestamp && isNeeded(); round += 1) {
      if (round > retries.row.times) {
        const message = 'Cannot create the collection: the storage does not keep it'
        throw new UpstreamError('refused', message, { applied: 'no' })
      }
      budget.requireTime()
      try {
        const makeRow = () => storage.remove(this.collection, [options.absentId], zeroTimestamp)
        const outcome = await options.locks.hold([`row ${storage.node}`], budget.leftMs, makeRow)
        if (outcome.outcome === 'committed') {
          this.since = outcome.timestamp
          if (!dependsOnContents) return
        }
      } catch (error) {
        if (isRefusal(error)) throw error
        failures += 1
        await waitToRetry(context, error, failures, true)
      }
      await budget.wait(retries.row.pauseMs)
      await this.read()
    }
  }

  #update(changes: Partial<Known>): void {
    this.facts = { ...this.facts, ...changes }
  }
}

/** Whether an operation writes a whole record unconditionally. */
function isWholePut(operation: Operation): boolean {
  if (operation.kind !== 'put') return false
  return operation.precondition.kind === 'none' && operation.input.payload !== undefined
}

/**
 * The records of a collection whose payloads are needed: to be shown, written again, or restored by an undo. The last step needs no undo,
 * because the storage applies it completely or not at all; but an upload may leave out records that the storage rejects, after which a
 * strict transaction takes back the others.
 */
export function payloadNeeds(
  steps: Step[],
  isStrict: boolean,
): (operations: NumberedOperation[]) => ReadonlySet<string> {
  const puts = new Map<string, number>()
  const deletes = new Map<string, { storage: BulkStorage; ids: string[] }>()
  for (const { storage, operation } of steps) {
    if (!isWrite(operation)) continue
    const { kind, collection, id } = operation
    const name = JSON.stringify([storage.owner, collection])
    if (kind === 'put') puts.set(name, (puts.get(name) ?? 0) + 1)
    else deletes.getOrInsertComputed(name, () => ({ storage, ids: [] })).ids.push(id)
  }
  const deletions = [...deletes.values()].flatMap(({ storage, ids }) => storage.splitDeletion(ids)).length
  const hasSeveralPuts = [...puts.values()].some((count) => count > 1)
  const restoresPuts = puts.size + deletions > 1 || (isStrict && hasSeveralPuts)
  const restoresDeletes = deletions > 1
  const needsPayload = (operation: Operation) => {
    if (operation.kind === 'put') return restoresPuts || operation.input.payload === undefined
    return operation.kind === 'get' || (operation.kind === 'delete' && restoresDeletes)
  }
  return (operations) =>
    new Set(
      operations.flatMap(({ operation }) =>
        'id' in operation && needsPayload(operation) ? [operation.id] : [],
      ),
    )
}
