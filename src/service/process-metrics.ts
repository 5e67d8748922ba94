import { commit, version } from '../version.ts'
import type { Registry } from '../observability/registry.ts'
import type { BridgeHost } from './services.ts'

/** Adds the metrics that are read on demand. */
export function addProcessMetrics(
  { add }: Registry,
  host: Pick<BridgeHost, 'now' | 'monotonicNow' | 'cpuMs' | 'residentBytes' | 'heapBytes'>,
  parts: {
    /** Requests whose responses are not fully sent. */
    requestsInFlight(): number
    logLinesDropped(): number
  },
): void {
  const build = `sync_bridge_build_info{version="${version}",commit="${commit}"}`
  const inFlight = 'Requests whose responses are not fully sent'
  const startedAtSeconds = Math.round(host.now() - host.monotonicNow()) / 1000
  const counter = { type: 'counter' } as const
  add('sync_bridge_requests_in_flight', inFlight, parts.requestsInFlight)
  add('sync_bridge_processes', 'Number of processes in these metrics', () => 1)
  add(
    'sync_bridge_log_lines_dropped_total',
    'Log lines dropped because their reader was too slow or the disk was full',
    parts.logLinesDropped,
    counter,
  )
  add('sync_bridge_build_info', 'Version and commit', () => [[build, 1]], { merge: 'max' })
  add('process_cpu_seconds_total', 'CPU time', () => host.cpuMs() / 1000, counter)
  add('process_resident_memory_bytes', 'Resident memory', host.residentBytes)
  add('process_heap_bytes', 'Memory allocated by the program', host.heapBytes)
  add('process_start_time_seconds', 'Start time, since 1970', () => startedAtSeconds, { merge: 'min' })
}
