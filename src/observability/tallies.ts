import type { MetricFamily } from './metric-families.ts'

/** Counts up. Whoever counts keeps it, so that counting is one addition. */
export class Counter {
  value = 0
}

/** How many values fell below each bound, and their sum. */
export class Histogram {
  sum = 0
  /** Not cumulated; the last is for what is above all bounds. */
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

/** Figures of one kind, told apart by their labels. The values of labels are ours: a few, and never a client's. */
export class Tallies<Tally> {
  readonly #labelNames: readonly string[]
  readonly #create: () => Tally
  readonly #tallies = new Map<string, Tally>()

  constructor(labelNames: readonly string[], create: () => Tally) {
    this.#labelNames = labelNames
    this.#create = create
  }

  /** The figure with these labels, the same at every call; to be kept where it is counted often. */
  of(...values: (string | number)[]): Tally {
    const labels = this.#labelNames.map((name, index) => `${name}="${values[index]}"`).join(',')
    const known = this.#tallies.get(labels)
    if (known) return known
    const made = this.#create()
    this.#tallies.set(labels, made)
    return made
  }

  entries(): Iterable<[labels: string, tally: Tally]> {
    return this.#tallies
  }
}

/** Counters as a family. */
export function counterFamily(name: string, help: string, counters: Tallies<Counter>): MetricFamily {
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
  histograms: Tallies<Histogram>,
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
