import { RecentMap } from '../domain/bounded.ts'
import type { Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'

/** A bridge that has deleted a record removes its row within this time, unless it is killed or its storage fails. */
export const rowRemovalMs = 5000

const maxCollections = 10_000

/** What a process knows of a collection: the timestamp that it saw last, and until when others may be removing rows. */
interface Seen {
  timestamp: Timestamp
  settledAtMs: number
}

/**
 * Tells whether a collection may hold rows that nobody sees, because a bridge elsewhere has deleted records and not removed their rows
 * yet. What another client writes into such a row is invisible for that moment.
 */
export class OtherWriters {
  readonly #seen = new RecentMap<string, Seen>(maxCollections)

  /** `now`: a clock in ms that never goes back. */
  constructor(private readonly now: () => number) {}

  /** Whether somebody else may be removing rows of the collection, which the snapshot is of. */
  mayBeRemoving(collection: string, { timestamp, unchangedForMs }: Snapshot): boolean {
    const known = this.#seen.get(collection)
    const isOurs = known?.timestamp === timestamp
    const settledAtMs = isOurs ? known.settledAtMs : this.now() - unchangedForMs + rowRemovalMs
    this.#seen.set(collection, { timestamp, settledAtMs })
    return this.now() < settledAtMs
  }

  /** This process changed the collection; nobody else has since the last snapshot. */
  recordOwnChange(collection: string, timestamp: Timestamp): void {
    const known = this.#seen.get(collection)
    if (known) this.#seen.set(collection, { ...known, timestamp })
  }
}
