import type { BatchTimes } from './measurements/batch.ts'
import type { AtADistance } from './measurements/distance.ts'
import type { Download, SlowReaders } from './measurements/download.ts'
import type { Endurance } from './measurements/endurance.ts'
import type { OwnData } from './measurements/own-data.ts'
import type { RedisCost } from './measurements/redis.ts'
import type { RoundTrips } from './measurements/round-trips.ts'
import type { Throughput } from './measurements/throughput.ts'

/** Everything that one run of `make bench` measures. */
export interface Results {
  machine: string[]
  record: Throughput[]
  list: Throughput[]
  workers: Throughput[]
  downloads: Download[]
  slowReaders: SlowReaders
  batch: BatchTimes[]
  redis: RedisCost
  roundTrips: RoundTrips[]
  distance: AtADistance[]
  endurance: Endurance
  ownData: OwnData
  /** In KB. */
  explorer: number
}

export function named<Figure extends { name: string }>(figures: Figure[], name: string): Figure {
  const figure = figures.find((candidate) => candidate.name === name)
  if (!figure) throw new Error(`Nothing was measured under the name ${name}`)
  return figure
}
