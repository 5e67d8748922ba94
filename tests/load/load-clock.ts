import { Admission, windowMs, type AdmissionOptions, type RejectionReason } from '../../src/load/admission.ts'

export type LoadClock = ReturnType<typeof createLoadClock>

/** An admission whose time passes when it is told to. */
export function createLoadClock(options: Partial<AdmissionOptions> = {}) {
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
    residentBytes: () => 0,
    collectGarbage() {},
    observeLag: (ms) => lags.push(ms),
    observeRejection: (reason) => rejections.push(reason),
    ...options,
  })
  return {
    load,
    /** Why requests were rejected, in their order. */
    rejections,
    lags,
    /** So many windows pass, each late by so many ms, all of it on a processor. */
    pass(windows: number, lagMs = 0) {
      for (let count = 0; count < windows; count++) {
        nowMs += windowMs + lagMs
        cpuMs += lagMs === 0 ? 1 : windowMs + lagMs
        load.endWindow()
      }
    },
  }
}
