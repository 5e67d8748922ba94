import { counterFamily, Counter, Histogram, histogramFamily, Tallies } from './tallies.ts'

import type { MetricFamily } from './metric-families.ts'

/** Figures that are asked for when the metrics are read. */
export interface MetricsSources {
  version: string
  commit: string
  /** Requests whose answers are not wholly sent. */
  requestsInFlight(): number
  /** Requests that are admitted at a time. */
  requestsAdmitted(): number
  /** The breakers towards each kind of target that let nothing through, or one call at a time. */
  breakers(): { target: string; open: number; halfOpen: number }[]
  logLinesDropped(): number
  /** What the operating system says of this process; null where nobody knows. */
  usage(): ProcessUsage | null
}

export interface ProcessUsage {
  cpuSeconds: number
  residentBytes: number
  heapBytes: number
  /** Since 1970. */
  startedAtSeconds: number
}

/** Counts what happens in this process. Counting costs some ten nanoseconds; texts are made when they are read. */
export interface Metrics {
  /** An answered request. `route` is a kind of resource, never a path; `batch` stands for all of its sub-requests. */
  request(route: string, method: string, status: number, durationMs: number): void
  /** An exchange with upstream: a status, or how it failed; neither when it was given up. */
  exchange(target: string, method: string, status: number | null, failure: string | null, ms: number): void
  credentials(event: string): void
  redisTrouble(trouble: string): void
  /** A breaker has opened, after having been closed. */
  breakerOpened(target: string): void
  transaction(event: string): void
  /** A batch that was carried out, by the number of its sub-requests. */
  batch(size: number): void
  /** A request was refused because of the load: why. */
  shed(reason: string): void
  /** It was not even looked at. */
  refused(method: string): void
  /** How late the event loop was, at each look. */
  eventLoopLag(ms: number): void
  families(): MetricFamily[]
}

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const sizeBounds = [1, 2, 5, 10, 25, 50, 100, 250, 1000]
const countedMethods = new Set(['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS'])

export function createMetrics(sources: MetricsSources): Metrics {
  const requests = new Tallies(['route', 'method', 'status'], () => new Counter())
  const requestSeconds = new Tallies(['route'], () => new Histogram(secondsBounds))
  const exchanges = new Tallies(['target', 'method', 'result'], () => new Counter())
  const exchangeSeconds = new Tallies(['target'], () => new Histogram(secondsBounds))
  const credentials = new Tallies(['event'], () => new Counter())
  const redisTroubles = new Tallies(['trouble'], () => new Counter())
  const transactions = new Tallies(['event'], () => new Counter())
  const batchSizes = new Tallies([], () => new Histogram(sizeBounds))
  const openings = new Tallies(['target'], () => new Counter())
  const sheds = new Tallies(['reason'], () => new Counter())
  const lags = new Tallies([], () => new Histogram(secondsBounds))
  // These are alarms: they have to be there, at zero, before they are needed.
  for (const reason of ['limit', 'lag', 'user']) sheds.of(reason)
  for (const target of ['token', 'storage']) openings.of(target)
  transactions.of('partial')
  transactions.of('unknown')

  const requestOf = remember((route: string) => ({
    seconds: requestSeconds.of(route),
    counterOf: remember((method: string) => {
      const counted = countedMethods.has(method) ? method : 'other'
      return remember((status: number) => requests.of(route, counted, status))
    }),
  }))
  const exchangeOf = remember((target: string) => ({
    seconds: exchangeSeconds.of(target),
    counterOf: remember((method: string) =>
      remember((result: string | number) => exchanges.of(target, method, result)),
    ),
  }))
  const shedOf = remember((reason: string) => sheds.of(reason))
  const credentialsOf = remember((event: string) => credentials.of(event))

  return {
    request(route, method, status, durationMs) {
      const { seconds, counterOf } = requestOf(route)
      seconds.observe(durationMs / 1000)
      counterOf(method)(status).value += 1
    },
    exchange(target, method, status, failure, ms) {
      const { seconds, counterOf } = exchangeOf(target)
      seconds.observe(ms / 1000)
      counterOf(method)(failure ?? status ?? 'given-up').value += 1
    },
    credentials: (event) => void (credentialsOf(event).value += 1),
    redisTrouble: (trouble) => void (redisTroubles.of(trouble).value += 1),
    breakerOpened: (target) => void (openings.of(target).value += 1),
    transaction: (event) => void (transactions.of(event).value += 1),
    batch: (size) => batchSizes.of().observe(size),
    shed: (reason) => void (shedOf(reason).value += 1),
    refused: (method) => void (requestOf('none').counterOf(method)(503).value += 1),
    eventLoopLag: (ms) => lags.of().observe(ms / 1000),
    families: () => [
      counterFamily('sync_bridge_requests_total', 'Answered requests', requests),
      histogramFamily(
        'sync_bridge_request_duration_seconds',
        'Until the answer begins',
        secondsBounds,
        requestSeconds,
      ),
      counterFamily('sync_bridge_upstream_exchanges_total', 'Calls of token server and storage', exchanges),
      histogramFamily(
        'sync_bridge_upstream_duration_seconds',
        'Until the answer of upstream begins',
        secondsBounds,
        exchangeSeconds,
      ),
      counterFamily(
        'sync_bridge_credentials_total',
        'Where credentials came from, and cache trouble',
        credentials,
      ),
      counterFamily('sync_bridge_redis_troubles_total', 'Trouble with Redis', redisTroubles),
      counterFamily('sync_bridge_breaker_openings_total', 'Targets that began to be left alone', openings),
      breakersFamily(sources.breakers()),
      counterFamily('sync_bridge_transactions_total', 'What became of reads and writes', transactions),
      histogramFamily('sync_bridge_batch_requests', 'Sub-requests in a batch', sizeBounds, batchSizes),
      counterFamily('sync_bridge_requests_shed_total', 'Requests refused because of the load', sheds),
      histogramFamily(
        'sync_bridge_event_loop_lag_seconds',
        'How late the event loop is, ten times a second',
        secondsBounds,
        lags,
      ),
      ...readFamilies(sources),
    ],
  }
}

/** The same answer for the same question, without asking again. */
function remember<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
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
    gauge('sync_bridge_requests_in_flight', 'Requests whose answers are not wholly sent', requestsInFlight()),
    gauge('sync_bridge_requests_admitted', 'Requests that are admitted at a time', requestsAdmitted()),
    gauge('sync_bridge_processes', 'Processes that these figures are of', 1),
    counter('sync_bridge_log_lines_dropped_total', 'Log lines that nobody took in time', logLinesDropped()),
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

function breakersFamily(breakers: ReturnType<MetricsSources['breakers']>): MetricFamily {
  const name = 'sync_bridge_breakers'
  const samples = breakers.flatMap(({ target, open, halfOpen }): [string, number][] => [
    [`${name}{target="${target}",state="open"}`, open],
    [`${name}{target="${target}",state="half-open"}`, halfOpen],
  ])
  return { ...gauge(name, 'Targets that are left alone, or tried with one call at a time', 0), samples }
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { name, help, type: 'gauge', merge: 'sum', samples: [[name, value]] }
}

function counter(name: string, help: string, value: number): MetricFamily {
  return { ...gauge(name, help, value), type: 'counter' }
}
