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
class Counter {
  value = 0

  samples(name: string, labels: string): MetricFamily['samples'] {
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

  samples(name: string, labels: string): MetricFamily['samples'] {
    let count = 0
    const buckets = [...this.bounds, '+Inf'].map((bound, index): [string, number] => {
      count += this.#counts[index]!
      return [series(`${name}_bucket`, `${labels}${labels && ','}le="${bound}"`), count]
    })
    return [...buckets, [series(`${name}_sum`, labels), this.#sum], [series(`${name}_count`, labels), count]]
  }
}

/**
 * The counter or histogram with these label values, the same at every call; callers that count often keep it. Values are
 * given in the order of the names, and are ours, never a client's.
 */
type Labelled<Metric> = (...values: (string | number)[]) => Metric

/** The counters and histograms of this process. */
export class MetricRegistry {
  readonly #families: (() => MetricFamily)[] = []

  counter(name: string, help: string, ...labelNames: string[]): Labelled<Counter> {
    return this.#add({ name, help, type: 'counter' }, labelNames, () => new Counter())
  }

  histogram(
    name: string,
    help: string,
    bounds: readonly number[],
    ...labelNames: string[]
  ): Labelled<Histogram> {
    return this.#add({ name, help, type: 'histogram' }, labelNames, () => new Histogram(bounds))
  }

  /** All of them, in the order in which they were made. */
  families(): MetricFamily[] {
    return this.#families.map((family) => family())
  }

  #add<Metric extends Counter | Histogram>(
    head: Pick<MetricFamily, 'name' | 'help' | 'type'>,
    labelNames: string[],
    create: () => Metric,
  ): Labelled<Metric> {
    const metrics = new Map<string, Metric>()
    this.#families.push(() => ({
      ...head,
      merge: 'sum',
      samples: Array.from(metrics, ([labels, metric]) => metric.samples(head.name, labels)).flat(),
    }))
    return (...values) => {
      const labels = labelNames.map((name, index) => `${name}="${values[index]}"`).join(',')
      const known = metrics.get(labels)
      if (known) return known
      const made = create()
      metrics.set(labels, made)
      return made
    }
  }
}

function series(name: string, labels: string): string {
  return labels === '' ? name : `${name}{${labels}}`
}

/** The content type of `renderFamilies`; see Prometheus, "Exposition formats". */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Families in the text format of Prometheus. */
export function renderFamilies(families: MetricFamily[]): string {
  const lines = families.flatMap(({ name, help, type, samples }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(([shown, value]) => `${shown} ${value}`),
  ])
  return `${lines.join('\n')}\n`
}

/** Joins the metrics of several processes. */
export function mergeFamilies(processes: MetricFamily[][]): MetricFamily[] {
  const merged = new Map<string, { family: MetricFamily; values: Map<string, number> }>()
  for (const family of processes.flat()) {
    const known = merged.get(family.name) ?? { family, values: new Map<string, number>() }
    merged.set(family.name, known)
    for (const [shown, value] of family.samples) {
      const before = known.values.get(shown)
      known.values.set(shown, before === undefined ? value : combine[family.merge](before, value))
    }
  }
  return [...merged.values()].map(({ family, values }) => ({ ...family, samples: [...values] }))
}

const combine = { sum: (a: number, b: number) => a + b, max: Math.max, min: Math.min }

/**
 * The counters and histograms among them. Those of a process that has ended still count: a sum that goes down would look
 * like a restart of all processes.
 */
export function countersOf(families: MetricFamily[]): MetricFamily[] {
  return families.filter(({ type, merge }) => type !== 'gauge' && merge === 'sum')
}
