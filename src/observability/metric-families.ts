/** The values of one metric, as Prometheus knows it: plain data, which workers send to their supervisor. */
export interface MetricFamily {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  /** How the values of several processes become one. */
  merge: 'sum' | 'max' | 'min'
  /** Each with its name and labels as they are shown: `name{label="value"}`. */
  samples: [series: string, value: number][]
}

/** Counts up; counting is one addition. */
export class Counter {
  value = 0
}

/** Counts values by the first bound that they do not exceed, and adds them up. */
export class Histogram {
  sum = 0
  /** For each bound by itself, not cumulated; the last counts the values above all bounds. */
  readonly counts: number[]
  readonly #bounds: readonly number[]

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    let place = 0
    while (place < this.#bounds.length && value > this.#bounds[place]!) place++
    this.counts[place]! += 1
    this.sum += value
  }
}

/** Counters or histograms of one name, one for each set of label values. Label values are ours, never a client's. */
export class LabelledMetric<Metric> {
  readonly #labelNames: readonly string[]
  readonly #create: () => Metric
  readonly #metrics = new Map<string, Metric>()

  constructor(labelNames: readonly string[], create: () => Metric) {
    this.#labelNames = labelNames
    this.#create = create
  }

  /** The metric with these label values, the same at every call. Callers that count often keep it. */
  of(...values: (string | number)[]): Metric {
    const labels = this.#labelNames.map((name, index) => `${name}="${values[index]}"`).join(',')
    const known = this.#metrics.get(labels)
    if (known) return known
    const made = this.#create()
    this.#metrics.set(labels, made)
    return made
  }

  entries(): Iterable<[labels: string, metric: Metric]> {
    return this.#metrics
  }
}

/** Counters as a family. */
export function counterFamily(name: string, help: string, counters: LabelledMetric<Counter>): MetricFamily {
  const samples = Array.from(counters.entries(), ([labels, { value }]): [string, number] => [
    series(name, labels),
    value,
  ])
  return { name, help, type: 'counter', merge: 'sum', samples }
}

/** Histograms as a family. */
export function histogramFamily(
  name: string,
  help: string,
  bounds: readonly number[],
  histograms: LabelledMetric<Histogram>,
): MetricFamily {
  const samples = Array.from(histograms.entries(), ([labels, histogram]) => {
    let count = 0
    const buckets = [...bounds, '+Inf'].map((bound, index): [string, number] => {
      count += histogram.counts[index]!
      return [series(`${name}_bucket`, joined(labels, `le="${bound}"`)), count]
    })
    const totals: [string, number][] = [
      [series(`${name}_sum`, labels), histogram.sum],
      [series(`${name}_count`, labels), count],
    ]
    return [...buckets, ...totals]
  })
  return { name, help, type: 'histogram', merge: 'sum', samples: samples.flat() }
}

function series(name: string, labels: string): string {
  return labels === '' ? name : `${name}{${labels}}`
}

function joined(labels: string, label: string): string {
  return labels === '' ? label : `${labels},${label}`
}

/** The content type of `renderFamilies`; see Prometheus, "Exposition formats". */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Families in the text format of Prometheus. */
export function renderFamilies(families: MetricFamily[]): string {
  const lines = families.flatMap(({ name, help, type, samples }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(([series, value]) => `${series} ${value}`),
  ])
  return `${lines.join('\n')}\n`
}

/** Joins the metrics of several processes. */
export function mergeFamilies(processes: MetricFamily[][]): MetricFamily[] {
  const merged = new Map<string, { family: MetricFamily; values: Map<string, number> }>()
  for (const family of processes.flat()) {
    const known = merged.get(family.name) ?? { family, values: new Map<string, number>() }
    merged.set(family.name, known)
    for (const [series, value] of family.samples) {
      const before = known.values.get(series)
      known.values.set(series, before === undefined ? value : combine(family.merge, before, value))
    }
  }
  return [...merged.values()].map(({ family, values }) => ({ ...family, samples: [...values] }))
}

/**
 * The counters and histograms among them. Those of a process that has ended still count: a sum that goes down would look
 * like a restart of all processes.
 */
export function countersOf(families: MetricFamily[]): MetricFamily[] {
  return families.filter(({ type, merge }) => type !== 'gauge' && merge === 'sum')
}

function combine(merge: MetricFamily['merge'], a: number, b: number): number {
  switch (merge) {
    case 'sum':
      return a + b
    case 'max':
      return Math.max(a, b)
    case 'min':
      return Math.min(a, b)
    default:
      return merge satisfies never
  }
}
