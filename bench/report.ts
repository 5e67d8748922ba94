import { limits } from '../src/load/limits.ts'
import { barChart, lineChart, linearAxis, percentileAxis } from './chart.ts'
import { percentiles } from './load.ts'
import { bridgeName, distancePeers } from './measurements/distance.ts'
import { named, type Results } from './results.ts'
import { table } from './table.ts'
import { describeFigure, isMet, type Target } from './targets.ts'

/** The targets as text for a terminal. */
export function summarise(targets: Target[]): string {
  const width = Math.max(...targets.map(({ what }) => what.length))
  const rows = targets.map((target) => {
    const { what, bound, limit, unit } = target
    const verdict = isMet(target) ? 'ok' : 'MISSED'
    return `${what.padEnd(width)}  ${describeFigure(target).padStart(10)}  ${`${bound} ${limit}${unit}`.padEnd(16)} ${verdict}`
  })
  return `${rows.join('\n')}\n`
}

/** The results page. */
export function writePage(results: Results, targets: Target[]): string {
  const { machine, record, list, downloads, redis, distance, endurance, ownData } = results
  const { early, late } = endurance.megabytes
  return `# Performance

\`make bench\` measures this on any Debian in nine minutes and writes this page. Everything runs on loopback. Every figure is a ratio to a peer
in the same run: the programs take turns, and the median of the rounds counts. All of them are started with the
environment and the scheduling policy of the service's unit, and have one core; the storage (nginx with fixed answers) and the load (wrk) share another.

${table(
  ['', 'is', 'wanted', ''],
  targets.map((target) => [
    target.what,
    describeFigure(target),
    `${target.bound} ${target.limit}${target.unit}`,
    isMet(target) ? 'met' : '**missed**',
  ]),
)}

Measured with ${machine.join('; ')}. *Pass-through* hands answers on as they come, *straight* does what a GET of one record needs in one file, *a stream that
rewrites* turns the storage's list into ours.

![requests per second](throughput.svg)

![latency distribution](latency.svg)

One record, the storage beside the bridge, 32 connections of two users:

${table(
  ['', 'requests/s', 'processor time', 'median', '99 %'],
  record.map(({ name, requestsPerSecond, cpuMicroseconds, latencies }) => [
    name,
    Math.round(requestsPerSecond).toLocaleString('en'),
    cpuMicroseconds > 0 ? `${cpuMicroseconds.toFixed(0)} µs` : '',
    ...[50, 99].map((percentile) => `${latencies[percentiles.indexOf(percentile)]!.toFixed(2)} ms`),
  ]),
)}

A list of 100 records:

${table(
  ['', 'requests/s', 'processor time'],
  list.map(({ name, requestsPerSecond, cpuMicroseconds }) => [
    name,
    Math.round(requestsPerSecond).toLocaleString('en'),
    `${cpuMicroseconds.toFixed(0)} µs`,
  ]),
)}

One record, token server and storage 50 ms away, over TLS:

${table(
  ['', '', 'requests/s', 'refused', 'median', '99 %', 'processor time', `to ${distancePeers.passThrough}`],
  distance.map((figure) => [
    figure.crowd,
    figure.name,
    Math.round(figure.requestsPerSecond).toLocaleString('en'),
    `${(figure.refused * 100).toFixed(figure.refused > 0 ? 1 : 0)} %`,
    `${figure.p50.toFixed(0)} ms`,
    `${figure.p99.toFixed(0)} ms`,
    `${figure.cpuMicroseconds.toFixed(0)} µs`,
    figure.ratioTo[distancePeers.passThrough]!.toFixed(2),
  ]),
)}

100,000 records, 148 MB, one reader:

${table(
  ['', 'MB/s', 'first byte', 'memory above idle'],
  downloads.map((download) => [
    download.name,
    download.megabytesPerSecond.toFixed(0),
    `${download.firstByteMs.toFixed(1)} ms`,
    `${download.megabytesAboveIdle.toFixed(0)} MB`,
  ]),
)}

![memory with slow readers](slow-readers.svg)

![memory over many requests](endurance.svg)

Memory was ${early.toFixed(0)} MB after 10,000 requests and ${late.toFixed(0)} MB after ${endurance.requests.toLocaleString('en')}. Redis takes ${(redis.bytes / 1000).toFixed(2)} KB and ${redis.commands.toFixed(1)} commands for each user whom the bridge
did not know.

A person's own commands over ${ownData.records.toLocaleString('en')} history records of 800 bytes, their own bridge included; \`bun bench/own-data.ts\` measures only these:

${table(
  ['', 'peak memory', 'time'],
  ownData.commands.map(({ name, peakMegabytes, seconds }) => [
    name,
    `${peakMegabytes.toFixed(0)} MB`,
    `${seconds.toFixed(0)} s`,
  ]),
)}
`
}

/** The charts by file name. */
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
      `Memory while ${limits.listsPerUser} slow readers each take a list of 148 MB`,
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
