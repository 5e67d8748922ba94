import type { SyncRecord } from '../client/collection.ts'
import { ClientError } from '../client/errors.ts'
import type { OpenedAccount } from './account.ts'

// A bridge sends a user only a few lists at a time.
const readsAtOnce = 3

/** What has been read of an account so far, and what of it could not be. */
export class Holdings {
  /** What kept a collection from being read, in words. */
  readonly #failures = new Map<string, string>()
  /** Of each collection by their ids. */
  readonly #records = new Map<string, Map<string, SyncRecord>>()
  readonly #reading: Set<string>
  readonly #account: OpenedAccount
  readonly #stopping = new AbortController()

  constructor(account: OpenedAccount) {
    this.#account = account
    this.#reading = new Set(account.collections)
  }

  /** The names of all collections, also of those that are empty or could not be read. */
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

  isReading(collections: string[] = this.collections): boolean {
    return collections.some((collection) => this.#reading.has(collection))
  }

  /** Why these could not be read, or not to their end; null: they could be. */
  failureOf(collections: string[]): string | null {
    const failed = collections.find((collection) => this.#failures.has(collection))
    return failed === undefined ? null : this.#failures.get(failed)!
  }

  /** The collections of which not everything is here, each with the reason. */
  incomplete(): Map<string, string> {
    const reading = [...this.#reading].map((name) => [name, 'It was still being read.'] as const)
    return new Map([...this.#failures, ...reading])
  }

  /** Reads all collections, and calls back as there is more, and at the end of each. Rejects when the token is refused. */
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
      for (const name of this.#reading) this.#failures.set(name, 'The reading stopped before its end.')
      this.#reading.clear()
      throw error
    }
  }

  /** Nothing is read any more, and nobody called back. */
  stop(): void {
    this.#stopping.abort()
  }

  /** One that fails leaves the others readable. */
  async #readOne(collection: string, onChange: () => void): Promise<void> {
    const { signal } = this.#stopping
    const held = new Map<string, SyncRecord>()
    this.#records.set(collection, held)
    // Whoever is called back goes through all that is held. Twice as much each time makes that linear.
    let told = 0
    try {
      await this.#account.read(collection, signal, (more) => {
        if (signal.aborted) return
        for (const record of more) held.set(record.stored.id, record)
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
}
