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

/** Counts what happens in this process. Counting takes some ten nanoseconds; texts are made when metrics are read. */
export type Metrics = ReturnType<typeof createMetrics>

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const sizeBounds = [1, 2, 5, 10, 25, 50, 100, 250, 1000]
const countedMethods = new Set(['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS'])

export function createMetrics(sources: MetricsSources) {
  const registry = new Registry()
  const requests = registry.counter('sync_bridge_requests_total', 'Answered requests', [
    'route',
    'method',
    'status',
  ])
  const requestSeconds = registry.histogram(
    'sync_bridge_request_duration_seconds',
    'Until the answer begins',
    secondsBounds,
    ['route'],
  )
  const defect = registry.counter('sync_bridge_defects_total', 'Requests that met a defect of the bridge')
  const upstreamCalls = registry.counter(
    'sync_bridge_upstream_calls_total',
    'Calls to token server and storage',
    ['target', 'method', 'result'],
  )
  const upstreamSeconds = registry.histogram(
    'sync_bridge_upstream_duration_seconds',
    'Until the answer of token server or storage begins',
    secondsBounds,
    ['target'],
  )
  const credentials = registry.counter(
    'sync_bridge_credentials_total',
    'Where credentials came from, and what went wrong in the cache',
    ['event'],
    ['rejected-entry'],
  )
  const redisError = registry.counter(
    'sync_bridge_redis_errors_total',
    'Failed commands and connections of Redis',
    ['reason'],
    ['unreachable', 'timeout', 'refused', 'suspended'],
  )
  const circuitOpened = registry.counter(
    'sync_bridge_circuit_breaker_openings_total',
    'How often calls to a host were stopped because they kept failing',
    ['target'],
    ['token', 'storage'],
  )
  const transaction = registry.counter(
    'sync_bridge_transactions_total',
    'Outcomes of reads and writes',
    ['event'],
    ['partial', 'unknown'],
  )
  const batch = registry.histogram('sync_bridge_batch_requests', 'Sub-requests in a batch', sizeBounds)
  const shed = registry.counter(
    'sync_bridge_requests_shed_total',
    'Requests rejected because of the load',
    ['reason'],
    ['limit', 'lag', 'user', 'memory', 'root-view', 'list', 'body-memory', 'slow-reader'],
  )
  const lagSeconds = registry.histogram(
    'sync_bridge_event_loop_lag_seconds',
    'How late the event loop is, ten times a second',
    secondsBounds,
  )

  function countRequest(route: string, method: string, status: number): void {
    requests(route, countedMethods.has(method) ? method : 'other', status)
  }

  return {
    /** An answered request. `route` is a kind of resource, never a path; `batch` stands for all of its sub-requests. */
    request(route: string, method: string, status: number, durationMs: number): void {
      countRequest(route, method, status)
      requestSeconds(durationMs / 1000, route)
    },
    /** A request was answered 503 before its path was looked at. */
    refused: (method: string) => countRequest('none', method, 503),
    /** A call to upstream: its status, or how it failed; neither when it was aborted. */
    upstreamCall(
      target: string,
      method: string,
      status: number | null,
      failure: string | null,
      ms: number,
    ): void {
      upstreamCalls(target, method, failure ?? status ?? 'aborted')
      upstreamSeconds(ms / 1000, target)
    },
    credentials,
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
    families: (): MetricFamily[] => [...registry.families(), ...readFamilies(sources)],
  }
}

/** Values of labels are ours, never a client's, and are given in the order of their names. */
type LabelValue = string | number

/** The counters and histograms of this process. */
class Registry {
  readonly #families: (() => MetricFamily)[] = []

  /** All of them, in the order in which they were made. */
  families(): MetricFamily[] {
    return this.#families.map((family) => family())
  }

  /**
   * Makes a function that adds one. Prometheus sees an increase only of series that it has seen before, so those that
   * alerts count exist from the start: the ones of the `first` values, and that of a counter without labels.
   */
  counter(name: string, help: string, labelNames: string[] = [], first: LabelValue[] = []) {
    const counters = this.#add({ name, help, type: 'counter' }, labelNames, () => new Counter())
    if (labelNames.length === 0) counters.at([])
    for (const value of first) counters.at([value])
    return (...values: LabelValue[]): void => void (counters.at(values).value += 1)
  }

  /** Makes a function that adds a value to a histogram. */
  histogram(name: string, help: string, bounds: readonly number[], labelNames: string[] = []) {
    const histograms = this.#add({ name, help, type: 'histogram' }, labelNames, () => new Histogram(bounds))
    return (value: number, ...values: LabelValue[]): void => histograms.at(values).observe(value)
  }

  #add<Metric extends Counter | Histogram>(
    head: Pick<MetricFamily, 'name' | 'help' | 'type'>,
    labelNames: string[],
    create: () => Metric,
  ): Labelled<Metric> {
    const metrics = new Labelled(create)
    this.#families.push(() => ({
      ...head,
      merge: 'sum',
      samples: metrics.all().flatMap(([values, metric]) => {
        const labels = labelNames.map((name, index) => `${name}="${values[index]}"`)
        return metric.samples(head.name, labels)
      }),
    }))
    return metrics
  }
}

/** Metrics by the values of their labels: a tree, because texts would cost more than counting does. */
class Labelled<Metric> {
  #metric: Metric | null = null
  readonly #branches = new Map<LabelValue, Labelled<Metric>>()

  constructor(private readonly create: () => Metric) {}

  /** The metric with these label values, the same at every call. */
  at(values: LabelValue[], depth = 0): Metric {
    if (depth === values.length) return (this.#metric ??= this.create())
    const value = values[depth]!
    let branch = this.#branches.get(value)
    if (branch === undefined) this.#branches.set(value, (branch = new Labelled(this.create)))
    return branch.at(values, depth + 1)
  }

  all(): [LabelValue[], Metric][] {
    const own: [LabelValue[], Metric][] = this.#metric === null ? [] : [[[], this.#metric]]
    const further = Array.from(this.#branches, ([value, branch]) =>
      branch.all().map(([values, metric]): [LabelValue[], Metric] => [[value, ...values], metric]),
    )
    return [...own, ...further.flat()]
  }
}

class Counter {
  value = 0

  samples(name: string, labels: string[]): Sample[] {
    return [[series(name, labels), this.value]]
  }
}

/** Counts values by the first bound that they do not exceed, and adds them up. */
class Histogram {
  #sum = 0
  /** For each bound by itself, not cumulated; the last counts the values above all bounds. */
  readonly #counts: number[]

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    let place = 0
    while (place < this.bounds.length && value > this.bounds[place]!) place++
    this.#counts[place]! += 1
    this.#sum += value
  }

  samples(name: string, labels: string[]): Sample[] {
    let count = 0
    const buckets = [...this.bounds, '+Inf'].map((bound, index): Sample => {
      count += this.#counts[index]!
      return [series(`${name}_bucket`, [...labels, `le="${bound}"`]), count]
    })
    return [...buckets, [series(`${name}_sum`, labels), this.#sum], [series(`${name}_count`, labels), count]]
  }
}

function series(name: string, labels: string[]): string {
  return labels.length === 0 ? name : `${name}{${labels.join(',')}}`
}

function readFamilies(sources: MetricsSources): MetricFamily[] {
  const { version, commit, requestsInFlight, requestsAdmitted, logLinesDropped } = sources
  const used = sources.usage()
  const breakers = 'sync_bridge_circuit_breakers'
  const states = sources.breakers().flatMap(({ target, open, halfOpen }): Sample[] => [
    [`${breakers}{target="${target}",state="open"}`, open],
    [`${breakers}{target="${target}",state="half-open"}`, halfOpen],
  ])
  const build: Sample[] = [[`sync_bridge_build_info{version="${version}",commit="${commit}"}`, 1]]
  return [
    { ...gauge(breakers, 'Hosts that are not called, or with one call at a time', 0), samples: states },
    gauge(
      'sync_bridge_requests_in_flight',
      'Requests whose answers have not been sent completely',
      requestsInFlight(),
    ),
    gauge('sync_bridge_concurrency_limit', 'Requests that are admitted at a time', requestsAdmitted()),
    gauge('sync_bridge_processes', 'Processes that these metrics are of', 1),
    total('sync_bridge_log_lines_dropped_total', 'Log lines that were not read in time', logLinesDropped()),
    { ...gauge('sync_bridge_build_info', 'What is running', 1), merge: 'max', samples: build },
    ...(used ? usageFamilies(used) : []),
  ]
}

function usageFamilies(used: ProcessUsage): MetricFamily[] {
  return [
    total('process_cpu_seconds_total', 'CPU time', used.cpuSeconds),
    gauge('process_resident_memory_bytes', 'Resident memory', used.residentBytes),
    gauge('process_heap_bytes', 'Memory that the program has allocated', used.heapBytes),
    { ...gauge('process_start_time_seconds', 'Start, since 1970', used.startedAtSeconds), merge: 'min' },
  ]
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { name, help, type: 'gauge', merge: 'sum', samples: [[name, value]] }
}

function total(name: string, help: string, value: number): MetricFamily {
  return { ...gauge(name, help, value), type: 'counter' }
}
