import { UpstreamError } from '../domain/errors.ts'
import type { HeldMemory } from '../domain/record-storage.ts'
import { limits } from './limits.ts'

const mebibyte = 1024 * 1024
/** Resident memory is also checked after this much garbage. */
const watchEveryBytes = 16 * mebibyte
/** Garbage is collected above this resident memory, and after each further growth by `collectEveryBytes`. */
const collectAboveBytes = 96 * mebibyte
const collectEveryBytes = 32 * mebibyte

/** The memory of the process. Collects garbage early, because memory would otherwise grow far beyond what is in use. */
export class ProcessMemory {
  /** Whether new requests must be rejected. */
  isShort = false
  #collectedAtBytes = 0

  constructor(
    private readonly process: { residentBytes(): number; collectGarbage(): void },
    private readonly rejectAboveBytes = limits.rejectAboveBytes,
  ) {}

  /** Called several times a second, and after every 16 MiB of garbage. */
  watch(): void {
    const { residentBytes, collectGarbage } = this.process
    let usedBytes = residentBytes()
    this.#collectedAtBytes = Math.min(this.#collectedAtBytes, usedBytes)
    if (usedBytes > collectAboveBytes && usedBytes - this.#collectedAtBytes > collectEveryBytes) {
      collectGarbage()
      usedBytes = this.#collectedAtBytes = residentBytes()
    }
    this.isShort = usedBytes > this.rejectAboveBytes
  }
}

/**
 * The memory for all requests. An owner may hold at most as much as remains free: one alone gets half, two get a third each, and a small
 * request of another owner always fits.
 */
export class MemoryBudget {
  /** Bytes in use. */
  heldBytes = 0
  readonly #heldBy = new Map<string, number>()
  #garbageBytes = 0
  /** Frees the memory of a request other than `asking`; false if there is none to free. */
  makeRoom: (asking: RequestMemory) => boolean = () => false

  /** `watch` checks the size of the process; called after every 16 MiB of garbage. */
  constructor(
    private readonly bytes: number,
    private readonly watch: () => void = () => {},
  ) {}

  /** Creates the memory of one request, empty. The owner's name is as secret as the credentials; it is forgotten once nothing is held. */
  open(owner: string): RequestMemory {
    return new RequestMemory(this, owner)
  }

  /** Reserves bytes for the owner of `asking`; false if that exceeds its share, even after others were dropped. */
  tryReserve(asking: RequestMemory, bytes: number): boolean {
    for (;;) {
      const held = (this.#heldBy.get(asking.owner) ?? 0) + bytes
      const heldBytes = this.heldBytes + bytes
      if (held <= this.bytes - heldBytes) {
        this.#heldBy.set(asking.owner, held)
        this.heldBytes = heldBytes
        return true
      }
      if (2 * held > this.bytes || !this.makeRoom(asking)) return false
      // Ends the loop if nothing was freed.
      if (this.heldBytes + bytes >= heldBytes) return false
    }
  }

  release(owner: string, bytes: number): void {
    const held = this.#heldBy.get(owner)! - bytes
    if (held === 0) this.#heldBy.delete(owner)
    else this.#heldBy.set(owner, held)
    this.heldBytes -= bytes
    this.reportGarbage(bytes)
  }

  /** Counts bytes that garbage collection will free eventually. */
  reportGarbage(bytes: number): void {
    this.#garbageBytes += bytes
    if (this.#garbageBytes < watchEveryBytes) return
    this.#garbageBytes = 0
    this.watch()
  }
}

/** What one request holds of the budget, until `release`. */
export class RequestMemory implements HeldMemory {
  #bytes = 0

  constructor(
    private readonly budget: MemoryBudget,
    public owner: string,
  ) {}

  /** Whether nothing is held. */
  get isEmpty(): boolean {
    return this.#bytes === 0
  }

  /** Reserves bytes; false when there is no room. */
  tryGrow(bytes: number): boolean {
    if (bytes === 0) return true
    if (!this.budget.tryReserve(this, bytes)) return false
    this.#bytes += bytes
    return true
  }

  grow(bytes: number): void {
    if (this.tryGrow(bytes)) return
    throw new UpstreamError('overload', 'Cannot buffer a response: not enough memory')
  }

  shrink(bytes: number): void {
    this.#bytes -= bytes
    this.budget.release(this.owner, bytes)
  }

  /** Transfers everything to another owner; false, and nothing is held, if that exceeds the owner's share. */
  moveTo(owner: string): boolean {
    if (owner === this.owner) return true
    const bytes = this.#bytes
    this.release()
    this.owner = owner
    return this.tryGrow(bytes)
  }

  /** Releases everything; it can be used again. */
  release(): void {
    if (this.#bytes === 0) return
    this.budget.release(this.owner, this.#bytes)
    this.#bytes = 0
  }
}
