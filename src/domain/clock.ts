/** The clocks of this machine. */
export interface Clock {
  /** Wall clock, ms since 1970. */
  now(): number
  /** A monotonic clock in ms. */
  monotonicNow(): number
}
