import type { MetricFamily, Sample } from './metric-families.ts'

export type Registry = ReturnType<typeof createRegistry>

/**
 * The metrics of this process, in the order in which they are made. Counters and histograms count by a key: the values of their
 * labels with bars between them. These are ours and never a client's, so that none of them holds a bar.
 */
export function createRegistry() {
  const all: (() => MetricFamily)[] = []

  /** Adds one that is looked up when the metrics are read: a gauge, unless `how` says otherwise. */
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
   * Makes a function that adds one; `labels` are the names of its labels. Prometheus sees an increase only of series that it has
   * seen before, so those that alerts count exist from the start: the ones of the `first` keys, and that of a counter without
   * labels.
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

  /** Makes a function that counts a value by the first bound that it does not exceed, and adds it up. */
  function histogram(ending: string, help: string, bounds: readonly number[], labels: string[] = []) {
    const name = `sync_bridge_${ending}`
    // The last count is of the values above all bounds.
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
