import { windowMs } from '../../src/routes/admitted-limit.ts'
import { Load } from '../../src/routes/load.ts'

import type { LoadOptions, RefusalReason } from '../../src/routes/load.ts'

/** A load whose time passes when it is told to. */
export interface LoadClock {
  load: Load
  /** What the server would say; a test without a server sets it. */
  inFlight: number
  /** How many were refused, by reason. */
  refusals: Record<RefusalReason, number>
  lags: number[]
  /** So many windows pass, each late by so many ms, all of it on a processor. */
  pass(windows: number, lagMs?: number): void
}

export function createLoadClock(options: Partial<LoadOptions> = {}): LoadClock {
  let nowMs = 0
  let cpuMs = 0
  const clock: LoadClock = {
    load: null as unknown as Load,
    inFlight: 0,
    refusals: { limit: 0, lag: 0, user: 0 },
    lags: [],
    pass(windows, lagMs = 0) {
      for (let count = 0; count < windows; count++) {
        nowMs += windowMs + lagMs
        cpuMs += lagMs === 0 ? 1 : windowMs + lagMs
        clock.load.endWindow()
      }
    },
  }
  clock.load = new Load({
    maxRequests: 100,
    maxRequestsOfUser: 8,
    maxLagMs: 100,
    requestsInFlight: () => clock.inFlight,
    now: () => nowMs,
    cpuMs: () => cpuMs,
    observeLag: (ms) => clock.lags.push(ms),
    observeRefusal: (reason) => (clock.refusals[reason] += 1),
    ...options,
  })
  return clock
}
