/** A group of figures of one name, as Prometheus knows them: plain data that can travel between processes. */
export interface MetricFamily {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  /** How the figures of several processes become one. */
  merge: 'sum' | 'max' | 'min'
  /** Each with its name and labels as they are shown: `name{label="value"}`. */
  samples: [series: string, value: number][]
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

/** The figures of several processes as those of one. */
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

/** What still counts of a process that is gone: a counter that went back would look like a restart of all. */
export function lastingFamilies(families: MetricFamily[]): MetricFamily[] {
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
