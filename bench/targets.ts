import { limits } from '../src/load/limits.ts'
import { bridgeName, crowds, distancePeers } from './measurements/distance.ts'
import { named, type Results } from './results.ts'

/** One figure with its target. */
export interface Target {
  what: string
  figure: number
  bound: 'at least' | 'at most'
  limit: number
  unit: '' | ' MB' | ' KB' | ' ms'
}

export function isMet({ figure, bound, limit }: Target): boolean {
  return bound === 'at least' ? figure >= limit : figure <= limit
}

export function describeFigure({ figure, unit }: Target): string {
  return unit === '' ? figure.toFixed(2) : `${figure.toFixed(1)}${unit}`
}

const mostRoundTrips: Record<string, number> = {
  'GET of a record': 1.2,
  list: 1.2,
  '/collections': 1.2,
  'batch of 12 reads in three collections': 1.2,
  'PUT over a record': 2.4,
  'PUT of a new record': 2.4,
  // A DELETE has a connection of its own, so it costs two more for the handshakes of TCP and TLS.
  DELETE: 4.6,
  'batch of 25 PUTs': 2.4,
  '12 PUTs and 12 DELETEs in one collection': 5.8,
  '24 PUTs in three collections': 4.9,
  '12 PUTs and 12 DELETEs in three collections': 6.9,
}

const atLeast = (what: string, figure: number, limit: number): Target => {
  return { what, figure, bound: 'at least', limit, unit: '' }
}
const atMost = (what: string, figure: number, limit: number, unit: Target['unit'] = ''): Target => {
  return { what, figure, bound: 'at most', limit, unit }
}

/** The targets of each part of the results, in the order of the page. */
const targetsByPart: { [Part in keyof Results]?: (figures: Results[Part]) => Target[] } = {
  record: (record) => [
    atMost(
      'one record, processor time to straight',
      named(record, bridgeName).cpuRatioTo(named(record, 'straight')),
      1.3,
    ),
  ],
  list: (list) => [
    atLeast(
      '100 records, requests/s to a stream that rewrites',
      named(list, bridgeName).ratioTo(named(list, 'rewritten by a stream')),
      1,
    ),
  ],
  downloads(downloads) {
    const download = named(downloads, bridgeName)
    const firstByteMs = download.firstByteMs - named(downloads, 'pass-through').firstByteMs
    return [
      atLeast(
        '100,000 records, MB/s to a stream that rewrites',
        download.ratioTo(named(downloads, 'rewritten by a stream')),
        0.95,
      ),
      atMost('100,000 records, memory above idle', download.megabytesAboveIdle, 60, ' MB'),
      atMost('100,000 records, first byte later than pass-through', firstByteMs, 5, ' ms'),
    ]
  },
  slowReaders: ({ megabytesAboveIdle }) => [
    atMost(
      `${limits.listsPerUser} slow readers of that list, memory above idle`,
      megabytesAboveIdle,
      150,
      ' MB',
    ),
  ],
  batch: (batch) => [
    atMost('25 conditional writes in a batch, time to one by one', batch[1]!.ratioToBatch, 0.15),
  ],
  // On two cores, not 2: storage and load take 21 µs of a request there, and the bridge some 60, so 2 * 60 / (60 + 21) is the most.
  workers: (workers) => [
    atLeast('2 workers to 1', named(workers, '2 workers').ratioTo(named(workers, '1 worker')), 1.4),
  ],
  roundTrips: (roundTrips) =>
    roundTrips.map(({ name, count }) => atMost(`round trips: ${name}`, count, mostRoundTrips[name]!)),
  distance(distance) {
    const { passThrough, with256Calls } = distancePeers
    const bounds: [peer: string, least: number][] = [
      [passThrough, 0.95],
      [with256Calls, 0.9],
      [passThrough, 0.375],
    ]
    return crowds.flatMap(({ name: crowd }, index) => {
      const [peer, least] = bounds[index]!
      const { ratioTo, refused } = distance.find((each) => each.crowd === crowd && each.name === bridgeName)!
      return [
        atLeast(`50 ms, ${crowd}: requests/s to ${peer}`, ratioTo[peer]!, least),
        atMost(`50 ms, ${crowd}: share refused`, refused, 0),
      ]
    })
  },
  endurance: ({ megabytes, requests }) => [
    atMost(
      `memory after ${requests.toLocaleString('en')} requests to after 10,000`,
      megabytes.late / megabytes.early,
      1.1,
    ),
  ],
  // A fifth above 243 KB.
  explorer: (kilobytes) => [
    atMost('the explorer: page, script and stylesheet, uncompressed', kilobytes, 290, ' KB'),
  ],
  ownData: ({ records, commands }) =>
    commands.map(({ name, peakMegabytes }) =>
      atMost(
        `${records.toLocaleString('en')} history records, peak memory: ${name}`,
        peakMegabytes,
        400,
        ' MB',
      ),
    ),
}

/** The targets of one part, with the measured values. */
export function targetsOf<Part extends keyof Results>(part: Part, figures: Results[Part]): Target[] {
  return targetsByPart[part]?.(figures) ?? []
}

/** All targets, with the measured values. */
export function readTargets(results: Results): Target[] {
  return (Object.keys(targetsByPart) as (keyof Results)[]).flatMap((part) => targetsOf(part, results[part]))
}
