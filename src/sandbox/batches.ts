import { type Bso, payloadBytes } from './bso.ts'
import type { Dialect } from './dialect.ts'
import type { Limits } from './limits.ts'
import { code, Refusal } from './reply.ts'
import type { Storage } from './storage.ts'

interface Batch {
  uid: number
  collection: string
  startedAtMs: number
  /** By the storage's key for the record. */
  staged: Map<string, Bso>
}

const lifetimeMs = 2 * 3600 * 1000

/** The batches that have not been committed yet. */
export class Batches {
  readonly #batches = new Map<string, Batch>()

  constructor(
    readonly storage: Storage,
    readonly dialect: Dialect,
  ) {}

  /** Starts an empty batch; returns its id. */
  start(uid: number, collection: string, nowMs: number): string {
    this.#forgetOld(nowMs)
    const id = this.dialect.createBatchId(nowMs)
    this.#batches.set(id, { uid, collection, startedAtMs: nowMs, staged: new Map() })
    return id
  }

  /** Throws 400 if the id is unknown, of another user or collection, or older than two hours. */
  find(id: string, uid: number, collection: string, nowMs: number): Batch {
    this.#forgetOld(nowMs)
    const batch = this.#batches.get(id)
    if (batch?.uid !== uid || batch.collection !== collection) throw new Refusal(400)
    return batch
  }

  /**
   * Stages records, merging those with the same id; throws 400 if the batch would exceed the limits. False if the database
   * failed.
   */
  append(batch: Batch, bsos: readonly Bso[], limits: Limits): boolean {
    const staged = new Map(batch.staged)
    const failing = bsos.findIndex((bso) => !this.dialect.stage(staged, this.storage.keyOf(bso.id), bso))
    if (failing >= 0 && !this.dialect.keepsRecordsBeforeFailure) return false
    const bytes = [...staged.values()].reduce((sum, bso) => sum + payloadBytes(bso), 0)
    if (staged.size > limits.max_total_records || bytes > limits.max_total_bytes) {
      throw new Refusal(400, code.tooLarge)
    }
    batch.staged = staged
    return failing < 0
  }

  /** Ends the batch; the caller stores its records. */
  take(id: string): Bso[] {
    const staged = [...(this.#batches.get(id)?.staged.values() ?? [])]
    this.#batches.delete(id)
    return staged
  }

  /** Discards the batches of a deleted collection, or of a deleted store. */
  discard(uid: number, collection?: string): void {
    if (!this.dialect.discardsBatches) return
    for (const [id, batch] of this.#batches) {
      if (batch.uid === uid && batch.collection === (collection ?? batch.collection)) this.#batches.delete(id)
    }
  }

  /** Deletes expired batches, because clients may never commit them. */
  #forgetOld(nowMs: number): void {
    for (const [id, { startedAtMs }] of this.#batches) {
      if (nowMs - startedAtMs >= lifetimeMs) this.#batches.delete(id)
    }
  }
}
