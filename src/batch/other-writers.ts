import { RecentMap } from '../domain/bounded.ts'
import type { Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'

/** A bridge removes the row of a deleted record within this time, unless it is killed or its storage fails. */
export const rowRemovalMs = 5000

const maxCollections = 10_000

/** What this process knows about a collection: its last seen timestamp, and until when others may be removing rows. */
interface Seen {
  timestamp: Timestamp
  settledAtMs: number
}

/**
 * Tracks whether a collection may contain hidden rows, because another bridge has deleted records and not removed their rows yet. A record
 * written into such a row is invisible until then.
 */
export class OtherWriters {
  readonly #seen = new RecentMap<string, Seen>(maxCollections)

  /** `now`: a monotonic clock in ms. */
  constructor(private readonly now: () => number) {}

  /** Whether another bridge may be removing rows of the collection, given its snapshot. */
  mayBeRemoving(collection: string, { timestamp, unchangedForMs }: Snapshot): boolean {
    const known = this.#seen.get(collection)
    const isOurs = known?.timestamp === timestamp
    const settledAtMs = isOurs ? known.settledAtMs : this.now() - unchangedForMs + rowRemovalMs
    this.#seen.set(collection, { timestamp, settledAtMs })
    return this.now() < settledAtMs
  }

  /** Notes that only this process has changed the collection since the last snapshot. */
  recordOwnChange(collection: string, timestamp: Timestamp): void {
    const known = this.#seen.get(collection)
    if (known) this.#seen.set(collection, { ...known, timestamp })
  }
}
