import { UpstreamError } from '../domain/errors.ts'
import type { HeldMemory } from '../domain/record-storage.ts'
import { limits } from './limits.ts'

const mebibyte = 1024 * 1024
/** After so many bytes of garbage, resident memory is looked at out of turn. */
const watchEveryBytes = 16 * mebibyte
/** Resident memory above which garbage is collected, and how much more it grows until the next collection. */
const collectAboveBytes = 128 * mebibyte
const collectEveryBytes = 64 * mebibyte

/** The memory of the whole process. Garbage is collected early, because late collection lets it grow far beyond what is used. */
export class ProcessMemory {
  /** Whether it is nearly as much as it should be, so that nothing new is admitted. */
  isShort = false
  #collectedAtBytes = 0

  constructor(private readonly process: { residentBytes(): number; collectGarbage(): void }) {}

  /** Called several times a second, and after much garbage. */
  watch(): void {
    const { residentBytes, collectGarbage } = this.process
    let usedBytes = residentBytes()
    this.#collectedAtBytes = Math.min(this.#collectedAtBytes, usedBytes)
    if (usedBytes > collectAboveBytes && usedBytes - this.#collectedAtBytes > collectEveryBytes) {
      collectGarbage()
      usedBytes = this.#collectedAtBytes = residentBytes()
    }
    this.isShort = usedBytes > limits.shedAboveBytes
  }
}

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

  /** `watch` looks at the size of the process; called each time requests have left 16 MiB of garbage. */
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
  tryReserve(asking: RequestMemory, bytes: number): boolean {
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

  release(owner: string, bytes: number): void {
    const held = this.#heldBy.get(owner)! - bytes
    if (held === 0) this.#heldBy.delete(owner)
    else this.#heldBy.set(owner, held)
    this.#freeBytes += bytes
    this.reportGarbage(bytes)
  }

  /** So many bytes are used no more, and will be collected at some time. */
  reportGarbage(bytes: number): void {
    this.#garbageBytes += bytes
    if (this.#garbageBytes < watchEveryBytes) return
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
    if (!this.budget.tryReserve(this, bytes)) return false
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
    this.budget.release(this.owner, this.#bytes)
    this.#bytes = 0
  }
}
