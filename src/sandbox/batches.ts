import { randomBytes, randomUUID } from 'node:crypto'
import { code, Refusal } from './http.ts'
import type { Limits, Quirks } from './options.ts'
import type { Storage } from './storage.ts'
import { type Bso, payloadBytes } from './upload.ts'

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
  #lastId = 0

  constructor(
    readonly storage: Storage,
    readonly quirks: Quirks,
  ) {}

  /** Starts an empty batch; returns its id. */
  start(uid: number, collection: string, nowMs: number): string {
    this.#forgetOld(nowMs)
    const id = this.#createId(nowMs)
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
   * failed; MySQL then keeps the records before the failure.
   */
  append(batch: Batch, bsos: readonly Bso[], limits: Limits): boolean {
    const staged = new Map(batch.staged)
    const failing = bsos.findIndex((bso) => !this.#isAccepted(bso, staged))
    if (failing >= 0 && !this.quirks.appendOverwritesAll) return false
    for (const bso of failing < 0 ? bsos : bsos.slice(0, failing)) {
      const key = this.storage.keyOf(bso.id)
      const earlier = staged.get(key)
      if (earlier === undefined || !this.quirks.appendOverwritesAll) {
        staged.set(key, { ...earlier, ...bso })
        continue
      }
      // The real UPDATE statement lacks a WHERE for the row, and omits the sortindex.
      const { payload, ttl } = bso
      const changes = { ...(payload !== undefined && { payload }), ...(ttl !== undefined && { ttl }) }
      for (const [other, fields] of staged) staged.set(other, { ...fields, ...changes })
    }
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
    if (!this.quirks.discardsBatches) return
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

  // MySQL fails on an update of a staged row that changes nothing.
  #isAccepted(bso: Bso, staged: ReadonlyMap<string, Bso>): boolean {
    const isUpdate = this.quirks.appendOverwritesAll && staged.has(this.storage.keyOf(bso.id))
    if (isUpdate && bso.payload === undefined && bso.ttl === undefined) return false
    return this.quirks.storable.test(bso.payload ?? '')
  }

  #createId(nowMs: number): string {
    switch (this.quirks.batchIdPattern) {
      case 'uuid':
        return randomUUID()
      case 'hex':
        return randomBytes(16).toString('hex')
      case 'decimal':
        // Milliseconds in base64, so clients must percent-encode the id in the query.
        this.#lastId = Math.max(this.#lastId + 1, nowMs)
        return Buffer.from(String(this.#lastId)).toString('base64')
      default:
        return this.quirks.batchIdPattern satisfies never
    }
  }
}
