/** The values of one metric, as Prometheus knows it: plain data, which workers send to their supervisor. */
export interface MetricFamily {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  /** How the values of several processes become one. */
  merge: 'sum' | 'max' | 'min'
  samples: Sample[]
}

/** A value with its name and labels as they are shown: `name{label="value"}`. */
export type Sample = [series: string, value: number]

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
 * The counters and histograms among them. Those of a process that has ended still count: a sum that goes down would look
 * like a restart of all processes.
 */
export function countersOf(families: MetricFamily[]): MetricFamily[] {
  return families.filter(({ type, merge }) => type !== 'gauge' && merge === 'sum')
}
