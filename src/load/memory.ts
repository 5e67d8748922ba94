import { UpstreamError } from '../domain/errors.ts'
import type { HeldMemory } from '../domain/record-storage.ts'
import { limits } from './limits.ts'

/**
 * The memory that may be held for all requests together. One owner holds at most as much as is then left for others, so one alone
 * gets half of it, two a third each, and there is always room for a small request of another.
 */
export class MemoryBudget {
  readonly #heldBy = new Map<string, number>()
  #freeBytes: number
  #garbageBytes = 0
  /** Frees memory of somebody else than who asks; false when nobody gives way. */
  makeRoom: (asking: RequestMemory) => boolean = () => false

  /** `watch` looks at the size of the process; called each time requests have left `limits.watchEveryBytes` of garbage. */
  constructor(
    private readonly bytes: number,
    private readonly watch: () => void = () => {},
  ) {
    this.#freeBytes = bytes
  }

  /** Bytes that are held now. */
  get heldBytes(): number {
    return this.bytes - this.#freeBytes
  }

  /** The memory of one request, which holds nothing yet. The owner's name is as secret as the credentials, and is not kept longer. */
  open(owner: string): RequestMemory {
    return new RequestMemory(this, owner)
  }

  /** Holds so many bytes more for the owner of that memory; false when that would be too many, also if others give way. */
  tryTake(asking: RequestMemory, bytes: number): boolean {
    for (;;) {
      const held = (this.#heldBy.get(asking.owner) ?? 0) + bytes
      const leftBytes = this.#freeBytes - bytes
      if (held <= leftBytes) {
        this.#heldBy.set(asking.owner, held)
        this.#freeBytes = leftBytes
        return true
      }
      if (2 * held > this.bytes || !this.makeRoom(asking)) return false
    }
  }

  giveBack(owner: string, bytes: number): void {
    const held = this.#heldBy.get(owner)! - bytes
    if (held === 0) this.#heldBy.delete(owner)
    else this.#heldBy.set(owner, held)
    this.#freeBytes += bytes
    this.noteGarbage(bytes)
  }

  /** So many bytes are used no more, and will be collected at some time. */
  noteGarbage(bytes: number): void {
    this.#garbageBytes += bytes
    if (this.#garbageBytes < limits.watchEveryBytes) return
    this.#garbageBytes = 0
    this.watch()
  }
}

/** What one request holds of the budget, until it is released. */
export class RequestMemory implements HeldMemory {
  #bytes = 0

  constructor(
    private readonly budget: MemoryBudget,
    public owner: string,
  ) {}

  /** Holds so many bytes more; false when there is no room for them. */
  tryGrow(bytes: number): boolean {
    if (bytes === 0) return true
    if (!this.budget.tryTake(this, bytes)) return false
    this.#bytes += bytes
    return true
  }

  grow(bytes: number): void {
    if (this.tryGrow(bytes)) return
    throw new UpstreamError('overload', 'Cannot hold an answer: other requests hold the memory')
  }

  /** Counts all of it for another owner from now on; false when he would hold too much. */
  moveTo(owner: string): boolean {
    if (owner === this.owner) return true
    const bytes = this.#bytes
    this.release()
    this.owner = owner
    return this.tryGrow(bytes)
  }

  /** Gives everything back; it can be used again. */
  release(): void {
    if (this.#bytes === 0) return
    this.budget.giveBack(this.owner, this.#bytes)
    this.#bytes = 0
  }
}
