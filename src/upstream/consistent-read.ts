import { UpstreamError } from '../domain/errors.ts'
import { discard, readJson } from './answer.ts'
import { readBso } from './bso.ts'
import { readRecord } from './record-reads.ts'
import {
  chunkIds,
  isListable,
  lastModifiedOf,
  listQuery,
  nextOffsetOf,
  unmodifiedSinceHeader,
} from './wire.ts'
import type { Snapshot } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { StorageCalls } from './storage-calls.ts'

const maxListBytes = 64 * 1024 * 1024
const maxRounds = 4

/**
 * Reads any number of records by their ids as one consistent whole, in as many requests as that takes; all but the
 * first hold only while the collection is unchanged. When it does change the read begins again, three times at most.
 */
export async function readConsistently(
  calls: StorageCalls,
  collection: string,
  ids: string[],
): Promise<Snapshot> {
  for (let round = 0; round < maxRounds; round += 1) {
    const snapshot = await new Reading(calls, collection, ids).run()
    if (snapshot) return snapshot
  }
  throw new UpstreamError('refused', 'Cannot read several records: the collection keeps changing', {
    applied: 'no',
  })
}

class Reading {
  readonly #records = new Map<string, SyncRecord>()
  readonly #requested: Set<string>
  #place = ''
  #timestamp: Timestamp | null = null

  constructor(
    private readonly calls: StorageCalls,
    private readonly collection: string,
    private readonly ids: string[],
  ) {
    this.#requested = new Set(ids)
  }

  /** Null when the collection changed meanwhile. */
  async run(): Promise<Snapshot | null> {
    const [listed, single] = partition(this.ids, isListable)
    for (const chunk of chunkIds(listed)) if (!(await this.#readChunk(chunk))) return null
    // The timestamp comes first: a change after it fails the write that relies on it.
    if (listed.length === 0) await this.#readTimestamp()
    for (const id of single) if (!(await this.#readSingle(id))) return null
    return { timestamp: this.#timestamp!, records: this.#records }
  }

  async #readChunk(ids: string[]): Promise<boolean> {
    let offset: string | undefined
    do {
      const query = listQuery({ ids, sort: 'newest' }, offset)
      const path = ['storage', this.collection]
      const request = { path, query, subject: 'list', ...this.#guard() } as const
      const page = await this.calls.take(request, (answer) => this.#takePage(answer))
      if (!page) return false
      offset = page.nextOffset ?? undefined
    } while (offset !== undefined)
    return true
  }

  /** Null when the collection changed meanwhile. */
  async #takePage(answer: UpstreamAnswer): Promise<{ nextOffset: string | null } | null> {
    if (answer.status === 412) return null
    const values = await readJson(answer, maxListBytes)
    if (!Array.isArray(values)) throw nonsense('no list')
    this.#begin(lastModifiedOf(answer.headers))
    for (const value of values) {
      const record = readBso(value)
      if (!record) throw nonsense('an element that is no record')
      // Some storages compare ids without case and answer with another spelling: that is another record to us.
      if (this.#requested.has(record.id)) this.#records.set(record.id, record)
    }
    return { nextOffset: nextOffsetOf(answer.headers) }
  }

  async #readTimestamp(): Promise<void> {
    const path = ['storage', this.collection]
    const query: [string, string][] = [
      ['sort', 'newest'],
      ['limit', '1'],
    ]
    await this.calls.take({ path, query, subject: 'list' }, async (answer) => {
      await discard(answer)
      this.#begin(lastModifiedOf(answer.headers))
    })
  }

  async #readSingle(id: string): Promise<boolean> {
    const path = ['storage', this.collection, id]
    const request = { path, subject: 'record', mayBeMissing: true, ...this.#guard() } as const
    return await this.calls.take(request, async (answer) => {
      if (answer.status === 412) return false
      const record = await readRecord(answer, id)
      if (record) this.#records.set(id, record)
      return true
    })
  }

  #begin(timestamp: Timestamp): void {
    if (this.#timestamp !== null) return
    this.#timestamp = timestamp
    this.#place = this.calls.place
  }

  #guard(): { headers?: Record<string, string>; place?: string } {
    if (this.#timestamp === null) return {}
    return { headers: unmodifiedSinceHeader(this.#timestamp), place: this.#place }
  }
}

function partition<Item>(items: Item[], isFirst: (item: Item) => boolean): [Item[], Item[]] {
  const first: Item[] = []
  const second: Item[] = []
  for (const item of items) (isFirst(item) ? first : second).push(item)
  return [first, second]
}

function nonsense(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Cannot use a list of the storage: ${what}`)
}
