import { createLog } from '../../src/observability/log.ts'
import { createRegistry } from '../../src/observability/registry.ts'
import { createObservers } from '../../src/service/observers.ts'
import { addProcessMetrics } from '../../src/service/process-metrics.ts'

import type { Call } from '../../src/routes/call.ts'
import type { BridgeHost } from '../../src/service/services.ts'

export type Observed = ReturnType<typeof observed>

/** The observations of a bridge without the bridge: its metrics, starting with this state of the process. */
export function observed(host: Partial<BridgeHost> = {}) {
  const state = { inFlight: 0, lostLines: 0 }
  const registry = createRegistry()
  const known = {
    now: Date.now,
    monotonicNow: () => 0,
    cpuMs: () => 1,
    residentBytes: () => 1e8,
    heapBytes: () => 1,
  }
  addProcessMetrics(
    registry,
    { ...known, ...host },
    {
      requestsInFlight: () => state.inFlight,
      logLinesDropped: () => state.lostLines,
    },
  )
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const plain = { level: 'warning', renderer: 'json', colour: false, priorities: false, write } as const
  const observers = createObservers(createLog({ ...plain, now: Date.now }), registry, null, Date.now)
  return {
    ...observers,
    state,
    /** What was logged as a warning or an error. */
    lines,
    families: registry.families,
    figures: () => Object.fromEntries(registry.families().flatMap(({ samples }) => samples)),
    answered(route: string, method: string, status: number, ms: number) {
      observers.request({ route, method, headers: {} } as Call, { status, headers: {}, body: null }, ms)
    },
    called(method: string, status: number | null, failure: string | null, ms: number, target = 'storage') {
      const call = { target, method, status, failure, ms }
      observers.upstreamCall(call as Parameters<typeof observers.upstreamCall>[0])
    },
  }
}
