import { barChart, lineChart, linearAxis, percentileAxis } from './chart.ts'
import {
  costsTable,
  distanceTables,
  distanceTargets,
  roundTripsTable,
  spreadTable,
} from './distance-report.ts'
import { percentiles } from './load.ts'
import { table } from './table.ts'
import { describeFigure, isMet, type Target } from './targets.ts'
import type { BatchTimes } from './measurements/batch.ts'
import type { AtADistance, Cost, Spread } from './measurements/distance.ts'
import type { Download, SlowReaders } from './measurements/download.ts'
import { kinds, type Profile } from './measurements/profile.ts'
import type { Endurance } from './measurements/endurance.ts'
import type { RoundTrips } from './measurements/round-trips.ts'
import type { Throughput } from './measurements/throughput.ts'
import type { Way } from './measurements/ways.ts'
import type { RedisCost } from './measurements/redis.ts'
import type { WriteCost } from './measurements/writes.ts'

export interface Results {
  machine: string[]
  record: Throughput[]
  /** 64 users in turn. */
  users: Throughput[]
  crowd: Throughput[]
  list: Throughput[]
  workers: Throughput[]
  downloads: Download[]
  slowReaders: SlowReaders
  batch: BatchTimes[]
  /** Empty where the earlier commit could not be built. */
  writes: WriteCost[]
  redis: RedisCost
  ways: Way[]
  /** Of `src`, without the sandbox. */
  lines: number
  roundTrips: RoundTrips[]
  distance: AtADistance[]
  costs: Cost[]
  spread: Spread[]
  endurance: Endurance
  /** Empty without the program perf. */
  profiles: Profile[]
}

const bridgeName = 'Sync Bridge'

export function named<Figure extends { name: string }>(figures: Figure[], name: string): Figure {
  const figure = figures.find((candidate) => candidate.name === name)
  if (!figure) throw new Error(`Nothing was measured under the name ${name}`)
  return figure
}

/** What was measured at the commit that writes are compared with, by the name of the figure. */
const figuresBefore: Record<string, string> = {
  'one record, processor time against straight': '1.58 – 1.63',
  'one record, 64 users in turn, 32 connections: processor time against straight': '1.6',
  'one record, 64 users in turn, 128 connections: processor time against straight': '2.0',
  'one record, requests/s against bare pass-through': '0.36 – 0.50',
  '100 records, requests/s against bare pass-through': '0.80 – 0.90',
  '100 records, requests/s against a stream that rewrites': '0.73',
  '100 000 records, MB/s against a stream that rewrites': '0.90 – 0.98',
  'one PUT, processor time against the commit before': '1',
  'a batch of 25 PUTs, processor time against the commit before': '1',
  'files that run for a warm GET': '53',
  'files that run for a warm list': '56',
  'files that run for a warm PUT': '66',
  'files that run for a warm batch': '70',
}

const mostFiles: Record<string, number> = { GET: 25, list: 26, PUT: 37, batch: 40 }

/** Everything that is expected, with what was measured. */
export function readTargets(results: Results): Target[] {
  const { record, users, crowd, list, workers, downloads, slowReaders, batch, endurance } = results
  const { writes, ways, lines } = results
  const bridge = named(record, bridgeName)
  const straight = named(record, 'straight')
  const download = named(downloads, bridgeName)
  const passed = named(downloads, 'pass-through')
  const atLeast = (what: string, figure: number, limit: number): Target => {
    return { what, was: figuresBefore[what] ?? '', figure, bound: 'at least', limit, unit: '' }
  }
  const atMost = (what: string, figure: number, limit: number, unit: Target['unit'] = ''): Target => {
    return { what, was: figuresBefore[what] ?? '', figure, bound: 'at most', limit, unit }
  }
  return [
    atMost(
      'one record, processor time against straight',
      bridge.cpuMicroseconds / straight.cpuMicroseconds,
      1.15,
    ),
    ...[32, 128].map((connections) =>
      atMost(
        `one record, 64 users in turn, ${connections} connections: processor time against straight`,
        named(users, `${bridgeName}, ${connections} connections`).cpuMicroseconds /
          named(users, `straight, ${connections} connections`).cpuMicroseconds,
        1.2,
      ),
    ),
    atLeast(
      'one record, requests/s against bare pass-through',
      bridge.ratioTo(named(record, 'pass-through')),
      0.55,
    ),
    atLeast('one record, requests/s against straight', bridge.ratioTo(straight), 0.9),
    atLeast(
      'one record, requests/s against nginx proxy_pass',
      bridge.ratioTo(named(record, 'nginx proxy_pass')),
      0.45,
    ),
    atLeast(
      'one record, 256 connections against 32',
      named(crowd, '256 connections').ratioTo(named(crowd, '32 connections')),
      0.8,
    ),
    atLeast(
      '100 records, requests/s against bare pass-through',
      named(list, bridgeName).ratioTo(named(list, 'pass-through')),
      0.85,
    ),
    atLeast(
      '100 records, requests/s against a stream that rewrites',
      named(list, bridgeName).ratioTo(named(list, 'rewritten by a stream')),
      0.9,
    ),
    atLeast('100 000 records, MB/s against bare pass-through', download.ratioTo(passed), 0.7),
    atLeast(
      '100 000 records, MB/s against a stream that rewrites',
      download.ratioTo(named(downloads, 'rewritten by a stream')),
      0.95,
    ),
    atMost('100 000 records, memory above idle', download.megabytesAboveIdle, 60, ' MB'),
    atMost(
      '100 000 records, first byte later than pass-through',
      download.firstByteMs - passed.firstByteMs,
      5,
      ' ms',
    ),
    atMost(
      '20 slow readers of 100 000 records, memory above idle',
      slowReaders.megabytesAboveIdle,
      150,
      ' MB',
    ),
    ...writes.map(({ name, ratioToBefore }) =>
      atMost(`${name}, processor time against the commit before`, ratioToBefore, 0.7),
    ),
    ...ways.map(({ name, files }) =>
      atMost(`files that run for a warm ${name}`, files, mostFiles[name]!, ' files'),
    ),
    atMost('lines of src without sandbox, explorer and docs page', lines, 14_500, ' lines'),
    atMost('25 conditional writes in a batch, time against one by one', batch[1]!.ratioToBatch, 0.15),
    atLeast('2 workers against 1', named(workers, '2 workers').ratioTo(named(workers, '1 worker')), 1.6),
    ...distanceTargets(results),
    atMost(
      `memory after ${endurance.requests.toLocaleString('en')} requests against after 10,000`,
      endurance.megabytes.late / endurance.megabytes.early,
      1.1,
    ),
  ]
}

/** The targets as text for a terminal. */
export function summarise(targets: Target[]): string {
  const width = Math.max(...targets.map(({ what }) => what.length))
  const rows = targets.map((target) => {
    const { what, was, bound, limit, unit } = target
    const verdict = isMet(target) ? 'ok' : 'MISSED'
    return `${what.padEnd(width)}  ${was.padStart(11)}  ${describeFigure(target).padStart(12)}  ${`${bound} ${limit}${unit}`.padEnd(18)} ${verdict}`
  })
  return `${rows.join('\n')}\n`
}

/** The page that is kept, but for the notes at its end. */
export function writePage(results: Results, targets: Target[]): string {
  const {
    machine,
    record,
    users,
    crowd,
    list,
    workers,
    downloads,
    slowReaders,
    batch,
    writes,
    redis,
    ways,
    lines,
    roundTrips,
    distance,
    costs,
    spread,
    endurance,
    profiles,
  } = results
  const [early, late] = [endurance.megabytes.early, endurance.megabytes.late]
  return `# Performance

\`make bench\` measures this on any Debian in about twenty minutes and writes this page; \`make bench FULL=1\` asks a
million requests in the last part. Everything runs on loopback. Each figure is a ratio to a peer measured in the same
run: the subjects take turns, ${record[0]!.runs.length} rounds of them, and what counts is the median of the rounds. The
measured process has one core for itself; the storage (nginx with fixed answers) and the load (wrk) share another.
Processor time is that of all threads of the measured process, per request.

${table(
  ['', 'was', 'is', 'wanted', ''],
  targets.map((target) => [
    target.what,
    target.was,
    describeFigure(target),
    `${target.bound} ${target.limit}${target.unit}`,
    isMet(target) ? 'met' : '**missed**',
  ]),
)}

Measured with ${machine.join('; ')}.

## One record

1.5 KB, the client's credentials known, 32 connections.

![requests per second](throughput.svg)

${throughputTable(record, 'pass-through')}

![latency distribution](latency.svg)

64 users in turn:

${throughputTable(users, 'straight, 32 connections')}

With more connections than the runtime keeps open to a host:

${throughputTable(crowd, '32 connections')}

## Lists

100 records, 150 KB, 32 connections:

${throughputTable(list, 'pass-through')}

100 000 records, 148 MB, one reader:

${table(
  ['', 'MB/s', 'to pass-through', 'first byte', 'memory above idle'],
  downloads.map((download) => [
    download.name,
    download.megabytesPerSecond.toFixed(0),
    download.ratioTo(named(downloads, 'pass-through')).toFixed(2),
    `${download.firstByteMs.toFixed(1)} ms`,
    `${download.megabytesAboveIdle.toFixed(0)} MB`,
  ]),
)}

20 readers of that list at 500 KB/s each: at most ${slowReaders.megabytesAboveIdle.toFixed(0)} MB above idle.

![memory with slow readers](slow-readers.svg)

## Writes

25 records, each only if it does not exist yet; each answer of the storage (the sandbox) takes 20 ms.

${table(
  ['', 'ms', 'the batch takes'],
  batch.map(({ name, ms, ratioToBatch }) => [name, ms.toFixed(0), `${ratioToBatch.toFixed(2)} of it`]),
)}

Processor time of a write over that storage without its 20 ms, 16 users at once, and at the commit before requests were
declared once (3b6a77a):

${table(
  ['', 'was', 'is', 'ratio'],
  writes.map(({ name, microseconds, microsecondsBefore, ratioToBefore }) => [
    name,
    `${microsecondsBefore.toFixed(0)} µs`,
    `${microseconds.toFixed(0)} µs`,
    ratioToBefore.toFixed(2),
  ]),
)}

## At a distance

Token server and storage at the other end of a wire that delays every byte and limits nothing; to connect takes a round trip, too.
Their duration in round trips, over TLS:

${roundTripsTable(roundTrips)}

One record, as often as so many clients can ask for it. A ratio is to a peer of the same protocol in the same rounds. Of another user with each
request the token server has to be asked first, so half as much is possible. \`load\` is how much of its core load, wire and
storage took, \`others\` how much of the machine whatever else ran.

${distanceTables(distance)}

What a request costs, all four servers asked in the same seconds on the same core, so that the machine's pace does not matter; the ratio
is the median of slices of three seconds:

${costsTable(costs)}

64 users, as many clients as above, who pause so that four fifths of the most are asked, at 50 ms:

${spreadTable(spread)}

## Ways

Files of \`src\` that run code for one more request, by line coverage: ${ways.map(({ name, files }) => `${name} ${files}`).join(', ')}.
Without sandbox, explorer and docs page \`src\` has ${lines.toLocaleString('en')} lines.

## Processes

64 connections. One worker has one core, two have two, which storage and load take their part of:

${throughputTable(workers, '1 worker')}

Memory was ${early.toFixed(0)} MB after 10 000 requests, and ${late.toFixed(0)} MB after ${endurance.requests.toLocaleString('en')}.

![memory over many requests](endurance.svg)

Redis: ${(redis.bytes / 1000).toFixed(2)} KB and ${redis.commands.toFixed(1)} commands for each user whom the bridge did not know.

## Where the instructions go

Counted by sampling every millionth, because instructions vary by 2 % where time varies by much more. Of the main thread:
what the runtime's own code does (engine, headers, bodies, sockets, collector), what our code and the framework were
compiled to, and the kernel. The network thread is the runtime's, for calls to the storage; others compile and clean up.

${profileTable(profiles)}
`
}

/** What profiles show. */
export function profileTable(profiles: Profile[]): string {
  if (profiles.length === 0) return 'Not counted: perf is missing, or cannot count here.'
  return table(
    ['thousands a request', 'all', ...kinds],
    profiles.map(({ name, instructions }) => {
      const counts = kinds.map((kind) => instructions[kind])
      const all = counts.reduce((sum, count) => sum + count, 0)
      return [name, ...[all, ...counts].map((count) => count.toFixed(0))]
    }),
  )
}

/** The pictures by their file names. */
export function drawCharts({ record, slowReaders, endurance }: Results): Record<string, string> {
  const base = named(record, 'pass-through')
  const bars = record.map((subject) => ({
    label: subject.name,
    value: subject.requestsPerSecond,
    text: `${Math.round(subject.requestsPerSecond).toLocaleString('en')}/s · ${subject.ratioTo(base).toFixed(2)}`,
    isMarked: subject.name === bridgeName,
  }))
  const series = record.map(({ name, latencies }) => ({
    name,
    points: percentiles.map((percentile, index): [number, number] => [percentile, latencies[index]!]),
    isMarked: name === bridgeName,
  }))
  const slowest = Math.max(...series.flatMap(({ points }) => points.map(([, ms]) => ms)))
  const megabytes = (points: [number, number][]) => Math.max(...points.map(([, value]) => value))
  return {
    'throughput.svg': barChart(
      'GET one record',
      'requests per second, and the ratio to pass-through; one core',
      bars,
    ),
    'latency.svg': lineChart(
      'How long a GET of one record takes',
      '32 connections as fast as they go, so a slower server shows longer waits',
      percentileAxis('percentile', percentiles, [1, 50, 90, 99, 99.9]),
      linearAxis('ms', slowest),
      series,
    ),
    'slow-readers.svg': lineChart(
      'Memory while 20 slow readers each take a list of 148 MB',
      'MB above idle, over seconds',
      linearAxis('seconds', slowReaders.course.at(-1)![0]),
      linearAxis('MB', Math.max(10, megabytes(slowReaders.course))),
      [{ name: bridgeName, points: slowReaders.course, isMarked: true }],
    ),
    'endurance.svg': lineChart(
      'Memory over many requests',
      'resident, in MB',
      linearAxis('requests', endurance.requests, (value) => value.toLocaleString('en')),
      linearAxis('MB', megabytes(endurance.course)),
      [{ name: bridgeName, points: endurance.course, isMarked: true }],
    ),
  }
}

function throughputTable(subjects: Throughput[], baseName: string): string {
  const base = named(subjects, baseName)
  const rows = subjects.map((subject) => {
    const { name, requestsPerSecond, cpuMicroseconds, latencies, failures } = subject
    const at = (percentile: number) => `${latencies[percentiles.indexOf(percentile)]!.toFixed(2)} ms`
    return [
      name,
      Math.round(requestsPerSecond).toLocaleString('en'),
      subject.ratioTo(base).toFixed(2),
      cpuMicroseconds > 0 ? `${cpuMicroseconds.toFixed(0)} µs` : '',
      at(50),
      at(99),
      String(failures),
    ]
  })
  return table(['', 'requests/s', `to ${baseName}`, 'processor time', 'median', '99 %', 'failures'], rows)
}
