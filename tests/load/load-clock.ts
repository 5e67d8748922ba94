import { Admission, windowMs } from '../../src/load/admission.ts'
import type { AdmissionOptions, RejectionReason } from '../../src/load/admission.ts'

/** An admission whose time passes when it is told to. */
export interface LoadClock {
  load: Admission
  /** Why requests were rejected, in their order. */
  rejections: RejectionReason[]
  lags: number[]
  /** So many windows pass, each late by so many ms, all of it on a processor. */
  pass(windows: number, lagMs?: number): void
}

export function createLoadClock(options: Partial<AdmissionOptions> = {}): LoadClock {
  let nowMs = 0
  let cpuMs = 0
  const rejections: RejectionReason[] = []
  const lags: number[] = []
  const load = new Admission({
    maxRequests: 100,
    maxRequestsOfUser: 8,
    maxLagMs: 100,
    maxRootViews: 2,
    now: () => nowMs,
    cpuMs: () => cpuMs,
    residentBytes: () => null,
    collectGarbage() {},
    observeLag: (ms) => lags.push(ms),
    observeRejection: (reason) => rejections.push(reason),
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
