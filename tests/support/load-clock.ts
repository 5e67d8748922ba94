import { LoadShedder, windowMs } from '../../src/routes/load-shedding.ts'

import type { LoadOptions, RejectionReason } from '../../src/routes/load-shedding.ts'

/** A load shedder whose time passes when it is told to. */
export interface LoadClock {
  load: LoadShedder
  /** How many were rejected, by reason. */
  rejections: Record<RejectionReason, number>
  lags: number[]
  /** So many windows pass, each late by so many ms, all of it on a processor. */
  pass(windows: number, lagMs?: number): void
}

export function createLoadClock(options: Partial<LoadOptions> = {}): LoadClock {
  let nowMs = 0
  let cpuMs = 0
  const rejections = {
    limit: 0,
    lag: 0,
    user: 0,
    memory: 0,
    'root-view': 0,
    list: 0,
    'body-memory': 0,
    'slow-reader': 0,
  }
  const lags: number[] = []
  const load = new LoadShedder({
    maxRequests: 100,
    maxRequestsOfUser: 8,
    maxLagMs: 100,
    now: () => nowMs,
    cpuMs: () => cpuMs,
    residentBytes: () => null,
    collectGarbage() {},
    observeLag: (ms) => lags.push(ms),
    observeRejection: (reason) => (rejections[reason] += 1),
    ...options,
  })
  return {
    load,
    rejections,
    lags,
    pass(windows, lagMs = 0) {
      for (let count = 0; count < windows; count++) {
        nowMs += windowMs + lagMs
        cpuMs += lagMs === 0 ? 1 : windowMs + lagMs
        load.endWindow()
      }
    },
  }
}
