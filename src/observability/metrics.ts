import { MetricRegistry } from './metric-families.ts'

import type { MetricFamily } from './metric-families.ts'

/** Values that are looked up when the metrics are read. */
export interface MetricsSources {
  version: string
  commit: string
  /** Requests whose answers have not been sent completely. */
  requestsInFlight(): number
  /** Requests that are admitted at a time. */
  requestsAdmitted(): number
  /** For each kind of target, the circuit breakers that are open or half open. */
  breakers(): { target: string; open: number; halfOpen: number }[]
  logLinesDropped(): number
  /** What the operating system says about this process; null where that is unknown. */
  usage(): ProcessUsage | null
}

export interface ProcessUsage {
  cpuSeconds: number
  residentBytes: number
  heapBytes: number
  /** Since 1970. */
  startedAtSeconds: number
}

/** Counts what happens in this process. Counting takes some ten nanoseconds; texts are made when metrics are read. */
export interface Metrics {
  /** An answered request. `route` is a kind of resource, never a path; `batch` stands for all of its sub-requests. */
  request(route: string, method: string, status: number, durationMs: number): void
  /** A call to upstream: its status, or how it failed; neither when it was aborted. */
  upstreamCall(
    target: string,
    method: string,
    status: number | null,
    failure: string | null,
    ms: number,
  ): void
  credentials(event: string): void
  redisError(reason: string): void
  /** A circuit breaker has opened, after having been closed. */
  circuitOpened(target: string): void
  transaction(event: string): void
  /** An executed batch, by the number of its sub-requests. */
  batch(size: number): void
  /** A request was rejected because of the load: why. */
  shed(reason: string): void
  /** A request was answered 503 before its path was looked at. */
  refused(method: string): void
  /** An unforeseen error: a defect of ours. */
  defect(): void
  /** How late the event loop was, at each look. */
  eventLoopLag(ms: number): void
  families(): MetricFamily[]
}

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const sizeBounds = [1, 2, 5, 10, 25, 50, 100, 250, 1000]
const countedMethods = new Set(['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS'])

export function createMetrics(sources: MetricsSources): Metrics {
  const registry = new MetricRegistry()
  const requests = registry.counter(
    'sync_bridge_requests_total',
    'Answered requests',
    'route',
    'method',
    'status',
  )
  const requestSeconds = registry.histogram(
    'sync_bridge_request_duration_seconds',
    'Until the answer begins',
    secondsBounds,
    'route',
  )
  const defects = registry.counter('sync_bridge_defects_total', 'Requests that met a defect of the bridge')
  const upstreamCalls = registry.counter(
    'sync_bridge_upstream_calls_total',
    'Calls to token server and storage',
    'target',
    'method',
    'result',
  )
  const upstreamSeconds = registry.histogram(
    'sync_bridge_upstream_duration_seconds',
    'Until the answer of token server or storage begins',
    secondsBounds,
    'target',
  )
  const credentials = registry.counter(
    'sync_bridge_credentials_total',
    'Where credentials came from, and what went wrong in the cache',
    'event',
  )
  const redisErrors = registry.counter(
    'sync_bridge_redis_errors_total',
    'Failed commands and connections of Redis',
    'reason',
  )
  const circuitOpenings = registry.counter(
    'sync_bridge_circuit_breaker_openings_total',
    'How often calls to a host were stopped because they kept failing',
    'target',
  )
  const transactions = registry.counter(
    'sync_bridge_transactions_total',
    'Outcomes of reads and writes',
    'event',
  )
  const batchSizes = registry.histogram('sync_bridge_batch_requests', 'Sub-requests in a batch', sizeBounds)
  const shedRequests = registry.counter(
    'sync_bridge_requests_shed_total',
    'Requests rejected because of the load',
    'reason',
  )
  const lags = registry.histogram(
    'sync_bridge_event_loop_lag_seconds',
    'How late the event loop is, ten times a second',
    secondsBounds,
  )
  // Prometheus sees an increase only of counters that it has seen before, so the counters of alerts exist from the start.
  defects()
  credentials('rejected-entry')
  for (const event of ['partial', 'unknown']) transactions(event)
  for (const reason of ['unreachable', 'timeout', 'refused', 'suspended']) redisErrors(reason)
  for (const reason of ['limit', 'lag', 'user', 'memory', 'root-view', 'list', 'body-memory', 'slow-reader'])
    shedRequests(reason)
  for (const target of ['token', 'storage']) circuitOpenings(target)

  const requestOf = memoize((route: string) => ({
    seconds: requestSeconds(route),
    counterOf: memoize((method: string) => {
      const counted = countedMethods.has(method) ? method : 'other'
      return memoize((status: number) => requests(route, counted, status))
    }),
  }))
  const upstreamCallOf = memoize((target: string) => ({
    seconds: upstreamSeconds(target),
    counterOf: memoize((method: string) =>
      memoize((result: string | number) => upstreamCalls(target, method, result)),
    ),
  }))
  const shedOf = memoize((reason: string) => shedRequests(reason))
  const credentialsOf = memoize((event: string) => credentials(event))

  return {
    request(route, method, status, durationMs) {
      const { seconds, counterOf } = requestOf(route)
      seconds.observe(durationMs / 1000)
      counterOf(method)(status).value += 1
    },
    upstreamCall(target, method, status, failure, ms) {
      const { seconds, counterOf } = upstreamCallOf(target)
      seconds.observe(ms / 1000)
      counterOf(method)(failure ?? status ?? 'aborted').value += 1
    },
    credentials: (event) => void (credentialsOf(event).value += 1),
    redisError: (reason) => void (redisErrors(reason).value += 1),
    circuitOpened: (target) => void (circuitOpenings(target).value += 1),
    transaction: (event) => void (transactions(event).value += 1),
    batch: (size) => batchSizes().observe(size),
    shed: (reason) => void (shedOf(reason).value += 1),
    refused: (method) => void (requestOf('none').counterOf(method)(503).value += 1),
    defect: () => void (defects().value += 1),
    eventLoopLag: (ms) => lags().observe(ms / 1000),
    families: () => [
      ...registry.families(),
      circuitBreakersFamily(sources.breakers()),
      ...readFamilies(sources),
    ],
  }
}

/** Calls `make` once for each key. */
function memoize<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const known = new Map<Key, Value>()
  return (key) => {
    let value = known.get(key)
    if (value === undefined) known.set(key, (value = make(key)))
    return value
  }
}

function readFamilies({
  version,
  commit,
  requestsInFlight,
  requestsAdmitted,
  logLinesDropped,
  usage,
}: MetricsSources): MetricFamily[] {
  const used = usage()
  const build: [string, number][] = [[`sync_bridge_build_info{version="${version}",commit="${commit}"}`, 1]]
  return [
    gauge(
      'sync_bridge_requests_in_flight',
      'Requests whose answers have not been sent completely',
      requestsInFlight(),
    ),
    gauge('sync_bridge_concurrency_limit', 'Requests that are admitted at a time', requestsAdmitted()),
    gauge('sync_bridge_processes', 'Processes that these metrics are of', 1),
    counter('sync_bridge_log_lines_dropped_total', 'Log lines that were not read in time', logLinesDropped()),
    { ...gauge('sync_bridge_build_info', 'What is running', 1), merge: 'max', samples: build },
    ...(used ? usageFamilies(used) : []),
  ]
}

function usageFamilies(used: ProcessUsage): MetricFamily[] {
  const started = gauge('process_start_time_seconds', 'Start, since 1970', used.startedAtSeconds)
  return [
    counter('process_cpu_seconds_total', 'CPU time', used.cpuSeconds),
    gauge('process_resident_memory_bytes', 'Resident memory', used.residentBytes),
    gauge('process_heap_bytes', 'Memory that the program has allocated', used.heapBytes),
    { ...started, merge: 'min' },
  ]
}

function circuitBreakersFamily(breakers: ReturnType<MetricsSources['breakers']>): MetricFamily {
  const name = 'sync_bridge_circuit_breakers'
  const samples = breakers.flatMap(({ target, open, halfOpen }): [string, number][] => [
    [`${name}{target="${target}",state="open"}`, open],
    [`${name}{target="${target}",state="half-open"}`, halfOpen],
  ])
  return { ...gauge(name, 'Hosts that are not called, or with one call at a time', 0), samples }
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { name, help, type: 'gauge', merge: 'sum', samples: [[name, value]] }
}

function counter(name: string, help: string, value: number): MetricFamily {
  return { ...gauge(name, help, value), type: 'counter' }
}
