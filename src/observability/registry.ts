import type { MetricFamily, Sample } from './metric-families.ts'

export type Registry = ReturnType<typeof createRegistry>

/**
 * Creates the registry of this process's metrics, in order of creation. Counters and histograms use a key: the label values joined by `|`.
 * Label values are ours, never a client's, so none contains a `|`.
 */
export function createRegistry() {
  const all: (() => MetricFamily)[] = []

  /** Adds a metric that is read on demand: a gauge, unless `how` says otherwise. */
  function add(
    name: string,
    help: string,
    read: () => number | Sample[],
    how: Partial<Pick<MetricFamily, 'type' | 'merge'>> = {},
  ): void {
    all.push(() => {
      const value = read()
      const samples: Sample[] = typeof value === 'number' ? [[name, value]] : value
      return { name, help, type: 'gauge', merge: 'sum', samples, ...how }
    })
  }

  /**
   * Creates a counter and returns its increment function. Prometheus only sees increases of series that exist, so the series in `first`,
   * and a counter without labels, start at 0.
   */
  function counter(
    ending: string,
    help: string,
    labels: string[] = [],
    first: readonly string[] = labels.length === 0 ? [''] : [],
  ) {
    const name = `sync_bridge_${ending}`
    const values = new Map(first.map((key) => [key, 0]))
    const read = () => Array.from(values, ([key, value]): Sample => [series(name, labels, key), value])
    add(name, help, read, { type: 'counter' })
    return (key = ''): void => void values.set(key, (values.get(key) ?? 0) + 1)
  }

  /** Creates a histogram and returns a function that records a value. */
  function histogram(ending: string, help: string, bounds: readonly number[], labels: string[] = []) {
    const name = `sync_bridge_${ending}`
    // The last count is for values above all bounds.
    const histograms = new Map<string, { sum: number; counts: number[] }>()
    const read = () =>
      [...histograms].flatMap(([key, { sum, counts }]): Sample[] => {
        let count = 0
        const buckets = [...bounds, '+Inf'].map((bound, index): Sample => {
          count += counts[index]!
          return [series(`${name}_bucket`, labels, key, `le="${bound}"`), count]
        })
        buckets.push([series(`${name}_sum`, labels, key), sum], [series(`${name}_count`, labels, key), count])
        return buckets
      })
    add(name, help, read, { type: 'histogram' })
    return (value: number, key = ''): void => {
      let histogram = histograms.get(key)
      if (!histogram) histograms.set(key, (histogram = { sum: 0, counts: Array(bounds.length + 1).fill(0) }))
      let place = 0
      while (place < bounds.length && value > bounds[place]!) place += 1
      histogram.counts[place]! += 1
      histogram.sum += value
    }
  }

  return { add, counter, histogram, families: () => all.map((read) => read()) }
}

function series(name: string, labels: string[], key: string, ...more: string[]): string {
  const values = key.split('|')
  const shown = [...labels.map((label, index) => `${label}="${values[index]}"`), ...more].join(',')
  return shown === '' ? name : `${name}{${shown}}`
}
