import type { MetricFamily, Sample } from './metric-families.ts'

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

/** Counts what happens in this process. */
export type Metrics = ReturnType<typeof createMetrics>

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const sizeBounds = [1, 2, 5, 10, 25, 50, 100, 250, 1000]
const countedMethods = new Set(['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS'])

export function createMetrics(sources: MetricsSources) {
  const { counter, histogram, families } = createRegistry()
  const timing = (ending: string, help: string, label = '') => histogram(ending, help, secondsBounds, label)
  const requests = counter('requests_total', 'Answered requests', 'route method status')
  const requestSeconds = timing('request_duration_seconds', 'Time to first byte', 'route')
  const defect = counter('defects_total', 'Requests that met a defect of the bridge')
  const upstreamCalls = counter('upstream_calls_total', 'Calls to upstream', 'target method result')
  const upstreamSeconds = timing('upstream_duration_seconds', 'Time to first byte of upstream', 'target')
  const credentials = counter('credentials_total', 'Sources of credentials', 'event', 'rejected-entry')
  const redisError = counter('redis_errors_total', 'Redis errors', 'reason', 'unreachable timeout refused')
  const openings = 'circuit_breaker_openings_total'
  const circuitOpened = counter(openings, 'Openings of circuit breakers', 'target', 'token storage')
  const troubles = 'partial unknown unremoved'
  const transaction = counter('transactions_total', 'Outcomes of writes', 'event', troubles)
  const listBroken = counter('lists_broken_total', 'Lists that broke off after their beginning was sent')
  const batch = histogram('batch_requests', 'Sub-requests in a batch', sizeBounds)
  const shedReasons = 'limit lag user memory root-view body-memory slow-reader'
  const shed = counter('requests_shed_total', 'Requests rejected under load', 'reason', shedReasons)
  const lagSeconds = timing('event_loop_lag_seconds', 'Lateness of the event loop')

  return {
    /** An answered request. `route` is a kind of resource, never a path; `batch` stands for all of its sub-requests. */
    request(route: string, method: string, status: number, durationMs: number): void {
      requests(`${route}|${countedMethods.has(method) ? method : 'other'}|${status}`)
      requestSeconds(durationMs / 1000, route)
    },
    /** A call to upstream with its result: a status, how it failed, or neither when it was aborted. */
    upstreamCall(
      target: string,
      method: string,
      status: number | null,
      failure: string | null,
      ms: number,
    ): void {
      upstreamCalls(`${target}|${method}|${failure ?? status ?? 'aborted'}`)
      upstreamSeconds(ms / 1000, target)
    },
    credentials,
    /** A list has broken off after its beginning was sent. */
    listBroken,
    redisError,
    /** A circuit breaker has opened, after having been closed. */
    circuitOpened,
    transaction,
    /** An executed batch, by the number of its sub-requests. */
    batch,
    /** A request was rejected because of the load: why. */
    shed,
    /** An unforeseen error: a defect of ours. */
    defect,
    /** How late the event loop was, at each look. */
    eventLoopLag: (ms: number) => lagSeconds(ms / 1000),
    families: (): MetricFamily[] => [...families(), ...readFamilies(sources)],
  }
}

/**
 * The counters and histograms of this process, in the order in which they are made. Each counts by a key: the values of its labels
 * with bars between them. They are ours and never a client's, so that none of them holds a bar.
 */
function createRegistry() {
  const families: (() => MetricFamily)[] = []
  const add = (
    ending: string,
    type: MetricFamily['type'],
    help: string,
    samples: (name: string) => Sample[],
  ) => {
    const name = `sync_bridge_${ending}`
    families.push(() => ({ name, help, type, merge: 'sum', samples: samples(name) }))
  }

  /**
   * Makes a function that adds one; `labels` names its labels. Prometheus sees an increase only of series that it has seen
   * before, so those that alerts count exist from the start: the ones of the `first` values, and that of a counter without
   * labels.
   */
  function counter(ending: string, help: string, labels = '', first = '') {
    // Without labels the only key is the empty text, which is the only word of an empty `first`.
    const initial = labels === '' || first !== '' ? first.split(' ') : []
    const values = new Map(initial.map((key) => [key, 0]))
    add(ending, 'counter', help, (name) =>
      Array.from(values, ([key, value]): Sample => [series(name, labelText(labels, key)), value]),
    )
    return (key = ''): void => void values.set(key, (values.get(key) ?? 0) + 1)
  }

  /** Makes a function that counts a value by the first bound that it does not exceed, and adds it up. */
  function histogram(ending: string, help: string, bounds: readonly number[], labels = '') {
    // The last count is of the values above all bounds.
    const histograms = new Map<string, { sum: number; counts: number[] }>()
    add(ending, 'histogram', help, (name) =>
      [...histograms].flatMap(([key, { sum, counts }]): Sample[] => {
        const own = labelText(labels, key)
        let count = 0
        const buckets = [...bounds, '+Inf'].map((bound, index): Sample => {
          count += counts[index]!
          return [series(`${name}_bucket`, `${own && `${own},`}le="${bound}"`), count]
        })
        return [...buckets, [series(`${name}_sum`, own), sum], [series(`${name}_count`, own), count]]
      }),
    )
    return (value: number, key = ''): void => {
      let histogram = histograms.get(key)
      if (!histogram) histograms.set(key, (histogram = { sum: 0, counts: Array(bounds.length + 1).fill(0) }))
      const place = bounds.findIndex((bound) => value <= bound)
      histogram.counts[place === -1 ? bounds.length : place]! += 1
      histogram.sum += value
    }
  }

  return { counter, histogram, families: () => families.map((family) => family()) }
}

function labelText(names: string, key: string): string {
  if (names === '') return ''
  const values = key.split('|')
  return names
    .split(' ')
    .map((name, index) => `${name}="${values[index]}"`)
    .join(',')
}

function series(name: string, labels: string): string {
  return labels === '' ? name : `${name}{${labels}}`
}

function readFamilies(sources: MetricsSources): MetricFamily[] {
  const { version, commit, requestsInFlight, requestsAdmitted, logLinesDropped } = sources
  const used = sources.usage()
  const breakers = 'sync_bridge_circuit_breakers'
  const states = sources.breakers().flatMap(({ target, open, halfOpen }): Sample[] => [
    [`${breakers}{target="${target}",state="open"}`, open],
    [`${breakers}{target="${target}",state="half-open"}`, halfOpen],
  ])
  const family = (
    name: string,
    help: string,
    value: number,
    how: Partial<MetricFamily> = {},
  ): MetricFamily => {
    return { name, help, type: 'gauge', merge: 'sum', samples: [[name, value]], ...how }
  }
  const counter = { type: 'counter' } as const
  const inFlight = 'Requests whose answers have not been sent completely'
  const dropped = 'Log lines that were not read in time'
  const build = series('sync_bridge_build_info', `version="${version}",commit="${commit}"`)
  return [
    family(breakers, 'Open and half-open circuit breakers', 0, { samples: states }),
    family('sync_bridge_requests_in_flight', inFlight, requestsInFlight()),
    family('sync_bridge_concurrency_limit', 'Requests that are admitted at a time', requestsAdmitted()),
    family('sync_bridge_processes', 'Processes that these metrics are of', 1),
    family('sync_bridge_log_lines_dropped_total', dropped, logLinesDropped(), counter),
    family('sync_bridge_build_info', 'What is running', 1, { merge: 'max', samples: [[build, 1]] }),
    ...(used
      ? [
          family('process_cpu_seconds_total', 'CPU time', used.cpuSeconds, counter),
          family('process_resident_memory_bytes', 'Resident memory', used.residentBytes),
          family('process_heap_bytes', 'Memory that the program has allocated', used.heapBytes),
          family('process_start_time_seconds', 'Start, since 1970', used.startedAtSeconds, { merge: 'min' }),
        ]
      : []),
  ]
}
