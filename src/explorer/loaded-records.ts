import type { SyncRecord } from '../client/collection.ts'
import { ClientError } from '../client/errors.ts'
import type { OpenedAccount } from './opened-account.ts'

// A bridge allows a user only a few concurrent lists.
const readsAtOnce = 3

/** The records of an account read so far, and what could not be read. */
export class LoadedRecords {
  /** Why a collection could not be read, as a sentence. */
  readonly #failures = new Map<string, string>()
  /** The records of each collection, by id. */
  readonly #records = new Map<string, Map<string, SyncRecord>>()
  /** How often the records of each collection have changed. */
  readonly #changes = new Map<string, number>()
  readonly #reading: Set<string>
  readonly #account: OpenedAccount
  readonly #stopping = new AbortController()

  constructor(account: OpenedAccount) {
    this.#account = account
    this.#reading = new Set(account.collections)
  }

  /** The names of all collections, including empty and unreadable ones. */
  get collections(): string[] {
    return this.#account.collections
  }

  /** The records of some collections, or of all. */
  records(collections: string[] = this.collections): SyncRecord[] {
    return collections.flatMap((collection) => [...(this.#records.get(collection)?.values() ?? [])])
  }

  record(collection: string, id: string): SyncRecord | undefined {
    return this.#records.get(collection)?.get(id)
  }

  /** A number that grows whenever records of these collections change. */
  changesOf(collections: string[] = this.collections): number {
    return collections.reduce((sum, collection) => sum + (this.#changes.get(collection) ?? 0), 0)
  }

  isReading(collections: string[] = this.collections): boolean {
    return collections.some((collection) => this.#reading.has(collection))
  }

  /** Why one of these collections could not be read completely; null if all could. */
  failureOf(collections: string[]): string | null {
    const failed = collections.find((collection) => this.#failures.has(collection))
    return failed === undefined ? null : this.#failures.get(failed)!
  }

  /** The collections that are not complete, each with the reason. */
  incomplete(): Map<string, string> {
    const reading = [...this.#reading].map((name) => [name, 'It was still being read.'] as const)
    return new Map([...this.#failures, ...reading])
  }

  /** Reads all collections; calls `onChange` as records arrive, and at the end of each collection. Rejects if the token is rejected. */
  async read(onChange: () => void): Promise<void> {
    const waiting = [...this.collections]
    const readSome = async () => {
      for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
        await this.#readOne(name, onChange)
        if (this.#stopping.signal.aborted) return
        this.#reading.delete(name)
        onChange()
      }
    }
    try {
      await Promise.all(Array.from({ length: readsAtOnce }, readSome))
    } catch (error) {
      this.stop()
      for (const name of this.#reading) this.#failures.set(name, 'Reading was stopped.')
      this.#reading.clear()
      throw error
    }
  }

  /** The collections that the bridge allows to write. */
  get writable(): ReadonlySet<string> {
    return this.#account.writable
  }

  /** Replaces records of a collection by those that were stored by an edit, or read for it. */
  take(collection: string, records: Iterable<SyncRecord>): void {
    const held = this.#records.get(collection) ?? new Map<string, SyncRecord>()
    for (const record of records) held.set(record.stored.id, record)
    this.#records.set(collection, held)
    this.#countChange(collection)
  }

  /** Stops reading; `onChange` is not called any more. */
  stop(): void {
    this.#stopping.abort()
  }

  /** Reads one collection; a failure does not affect the others. */
  async #readOne(collection: string, onChange: () => void): Promise<void> {
    const { signal } = this.#stopping
    const held = new Map<string, SyncRecord>()
    this.#records.set(collection, held)
    // `onChange` processes all records held so far, so it is called whenever their number has doubled, which keeps the total linear.
    let told = 0
    try {
      await this.#account.read(collection, signal, (more) => {
        if (signal.aborted) return
        for (const record of more) held.set(record.stored.id, record)
        this.#countChange(collection)
        if (held.size < 2 * told) return
        told = held.size
        onChange()
      })
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof ClientError) || error.field === 'token') throw error
      this.#failures.set(collection, error.message)
    }
  }

  #countChange(collection: string): void {
    this.#changes.set(collection, (this.#changes.get(collection) ?? 0) + 1)
  }
}
