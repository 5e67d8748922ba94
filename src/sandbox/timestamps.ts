/** The storage keeps time in steps of this many milliseconds. */
export const quantumMs = 10

/** The time of one sandbox, shared by both servers. */
export interface SandboxClock {
  /** Milliseconds since the epoch. */
  nowMs(): number
  /** The timestamp that a write at this moment gets: milliseconds, a multiple of 10. */
  timestamp(): number
  /** Makes it at least this late, for this sandbox only; from then on the time runs ahead of the given clock. */
  moveTo(ms: number): void
}

/** Wraps a wall clock in milliseconds. The Python server rounds timestamps up, the Rust ones down. */
export function createClock(wallClock: () => number, roundsUp: boolean): SandboxClock {
  let aheadMs = 0
  const nowMs = () => wallClock() + aheadMs
  return {
    nowMs,
    timestamp: () => (roundsUp ? Math.ceil : Math.floor)(nowMs() / quantumMs) * quantumMs,
    moveTo: (ms) => {
      aheadMs += Math.max(0, ms - nowMs())
    },
  }
}

/**
 * Milliseconds as the decimal seconds used on the wire, always with two digits; see Sync 1.5 API, "Timestamps".
 * Built from digits rather than by division, so that no value suffers from binary fractions.
 */
export function formatSeconds(ms: number): string {
  const hundredths = String(Math.floor(ms / quantumMs)).padStart(3, '0')
  return `${hundredths.slice(0, -2)}.${hundredths.slice(-2)}`
}

/**
 * Reads decimal seconds as the storage does: as a double, times 1000, cut to 10 ms. This is off by one step for some
 * small numbers such as 2.01; so is the real server. Null for what is not a number or negative.
 */
export function parseSeconds(text: string): number | null {
  if (!/^[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(text)) return null
  const ms = Math.trunc(Number(text) * 1000)
  return ms >= 0 && Number.isSafeInteger(ms) ? ms - (ms % quantumMs) : null
}
