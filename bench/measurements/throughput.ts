import { load, percentiles, type Run } from '../load.ts'
import { interleave, median, ratio } from '../statistics.ts'
import type { Subject } from '../subjects.ts'

/** The results of one subject over all rounds. */
export interface Throughput {
  name: string
  requestsPerSecond: number
  /** Relative to the first subject with that name, round by round. */
  ratioTo(base: Throughput): number
  cpuMicroseconds: number
  /** The same for the CPU time per request. */
  cpuRatioTo(base: Throughput): number
  latencies: number[]
  failures: number
  runs: Run[]
}

export interface ThroughputOptions {
  connections: number
  seconds: number
  rounds: number
  /** Seconds of warm-up: compilers need some thousand requests. */
  warmUpSeconds: number
  script: string
  core?: string
}

/** Measures the subjects in turn. */
export async function measureThroughput(
  subjects: Subject[],
  { rounds, warmUpSeconds, ...options }: ThroughputOptions,
): Promise<Throughput[]> {
  for (const subject of subjects) await load(subject, { ...options, seconds: warmUpSeconds })
  const runs = await interleave(subjects, rounds, (subject) => load(subject, options))
  return subjects.map(({ name }, index) => summarise(name, runs[index]!))
}

function summarise(name: string, runs: Run[]): Throughput {
  const rates = runs.map((run) => run.requestsPerSecond)
  return {
    name,
    requestsPerSecond: median(rates),
    ratioTo: (base) =>
      ratio(
        rates,
        base.runs.map((run) => run.requestsPerSecond),
      ),
    cpuMicroseconds: median(runs.map((run) => run.cpuMicroseconds)),
    cpuRatioTo: (base) =>
      ratio(
        runs.map((run) => run.cpuMicroseconds),
        base.runs.map((run) => run.cpuMicroseconds),
      ),
    latencies: percentiles.map((_, index) => median(runs.map((run) => run.latencies[index]!))),
    failures: runs.reduce((sum, run) => sum + run.failures, 0),
    runs,
  }
}
