/** One metric family of Prometheus as plain data, which workers send to their supervisor. */
export interface MetricFamily {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  /** How to combine the values of several processes. */
  merge: 'sum' | 'max' | 'min'
  samples: Sample[]
}

/** A value with its name and labels: `name{label="value"}`. */
export type Sample = [series: string, value: number]

/** The content type of `renderFamilies`; see Prometheus, "Exposition formats". */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Formats families in the text format of Prometheus. */
export function renderFamilies(families: MetricFamily[]): string {
  const lines = families.flatMap(({ name, help, type, samples }) => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(([series, value]) => `${series} ${value}`),
  ])
  return `${lines.join('\n')}\n`
}

/** Merges the metrics of several processes. */
export function mergeFamilies(processes: MetricFamily[][]): MetricFamily[] {
  const merged = new Map<string, { family: MetricFamily; values: Map<string, number> }>()
  for (const family of processes.flat()) {
    const { values } = merged.getOrInsertComputed(family.name, () => ({ family, values: new Map() }))
    for (const [series, value] of family.samples) {
      const before = values.get(series)
      values.set(series, before === undefined ? value : combine[family.merge](before, value))
    }
  }
  return [...merged.values()].map(({ family, values }) => ({ ...family, samples: [...values] }))
}

const combine = { sum: (a: number, b: number) => a + b, max: Math.max, min: Math.min }

/**
 * Selects the counters and histograms. Those of ended processes still count, because a sum that goes down looks like a restart of all
 * processes.
 */
export function countersOf(families: MetricFamily[]): MetricFamily[] {
  return families.filter(({ type, merge }) => type !== 'gauge' && merge === 'sum')
}
