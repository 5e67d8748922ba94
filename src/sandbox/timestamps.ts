/** The step of the storage's clock, in milliseconds. */
export const quantumMs = 10

/** The clock of one sandbox, shared by both servers. */
export interface SandboxClock {
  /** Milliseconds since the epoch. */
  nowMs(): number
  /** The timestamp of a write at this moment: milliseconds, a multiple of 10. */
  timestamp(): number
  /** Advances this sandbox's time to at least `ms`; from then on it is ahead of the wall clock. */
  moveTo(ms: number): void
}

/** Wraps a wall clock in milliseconds; `timestampAt` rounds to the quantum. */
export function createClock(wallClock: () => number, timestampAt: (ms: number) => number): SandboxClock {
  let aheadMs = 0
  const nowMs = () => wallClock() + aheadMs
  return {
    nowMs,
    timestamp: () => timestampAt(nowMs()),
    moveTo: (ms) => {
      aheadMs += Math.max(0, ms - nowMs())
    },
  }
}

/**
 * Formats milliseconds as decimal seconds with two decimals; see Sync 1.5 API, "Timestamps". Works on digits, because
 * division would cause rounding errors.
 */
export function formatSeconds(ms: number): string {
  const hundredths = String(Math.floor(ms / quantumMs)).padStart(3, '0')
  return `${hundredths.slice(0, -2)}.${hundredths.slice(-2)}`
}

/**
 * Parses decimal seconds like the real storage: as a double, times 1000, truncated to 10 ms. Like there, some small
 * numbers such as 2.01 are off by one step. Null if negative or not a number.
 */
export function parseSeconds(text: string): number | null {
  if (!/^[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(text)) return null
  const ms = Math.trunc(Number(text) * 1000)
  return ms >= 0 && Number.isSafeInteger(ms) ? ms - (ms % quantumMs) : null
}
