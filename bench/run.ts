/**
 * Measures the executable and its peers and writes RESULTS.md and its charts. Usage: bun bench/run.ts [path of the executable]. FULL=1: a
 * million requests in the last part. QUICK=1: a quick run of everything in two minutes, without writing files.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { limits } from '../src/load/limits.ts'
import { startFar } from './far.ts'
import { loadScript } from './load.ts'
import { describeMachine, installTools } from './machine.ts'
import { measureBatch } from './measurements/batch.ts'
import { measureDistance } from './measurements/distance.ts'
import { measureDownloads, measureSlowReaders } from './measurements/download.ts'
import { measureEndurance } from './measurements/endurance.ts'
import { measureExplorer } from './measurements/explorer.ts'
import { measureOwnData } from './measurements/own-data.ts'
import { measureRedis } from './measurements/redis.ts'
import { measureRoundTrips } from './measurements/round-trips.ts'
import { measureThroughput } from './measurements/throughput.ts'
import { cores, stop, stopAll } from './processes.ts'
import { drawCharts, summarise, writePage } from './report.ts'
import type { Results } from './results.ts'
import { writeSampleData } from './sample-data.ts'
import {
  compilePeer,
  startBridge,
  startNginxProxy,
  startPeer,
  startStraight,
  startUpstream,
} from './subjects.ts'
import { readTargets, targetsOf } from './targets.ts'

const executable = resolve(process.argv[2] ?? 'dist/sync-bridge')
const isFull = process.env.FULL === '1'
const isQuick = process.env.QUICK === '1'
const rounds = isQuick ? 1 : 5
const seconds = isQuick ? 1 : 2
/** Those of two users. */
const connections = 2 * limits.callsPerUser
const warmUp = (full: number) => (isQuick ? 1 : full)
const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-bench-'))
// The workers of nginx run as another user.
chmodSync(folder, 0o755)

try {
  await installTools()
  const results = await measure()
  const targets = readTargets(results)
  if (!isQuick) {
    writeFileSync(join(import.meta.dir, 'RESULTS.md'), writePage(results, targets))
    for (const [name, picture] of Object.entries(drawCharts(results))) {
      writeFileSync(join(import.meta.dir, name), picture)
    }
    await Bun.$`${process.execPath} fmt ${import.meta.dir}`.quiet()
  }
  process.stdout.write(`\n${summarise(targets)}`)
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}
process.exit()

async function measure(): Promise<Results> {
  say('Preparing')
  const script = join(folder, 'load.lua')
  writeFileSync(script, loadScript)
  await writeSampleData(folder)
  const peer = (name: string) => compilePeer(name, join(folder, 'peers'))
  const [passThrough, parseAndPrint, framework, stream, rewrite, straight] = [
    await peer('pass-through'),
    await peer('parse-and-print'),
    await peer('framework'),
    await peer('stream'),
    await peer('rewrite'),
    await peer('straight'),
  ]
  const upstream = await startUpstream(folder)

  say('One record')
  // The compilers need a hundred thousand requests.
  const options = { rounds, seconds, warmUpSeconds: warmUp(7), script }
  const nginx = await startNginxProxy(folder, upstream.origin)
  const passing = await startPeer('pass-through', passThrough, upstream.origin)
  const printing = await startPeer('parse and print', parseAndPrint, upstream.origin)
  const framed = await startPeer('framework alone', framework, upstream.origin)
  const direct = await startStraight(straight, upstream.origin)
  const bridge = await startBridge(executable, upstream.origin)
  const servers = [upstream, nginx, passing, printing, framed, direct, bridge]
  const record = show(
    'record',
    await measureThroughput(
      servers.map((server) => ({ ...server.of('record'), users: 2 })),
      { ...options, connections },
    ),
  )

  say('Lists')
  const rewriting = await startPeer('rewritten by a stream', rewrite, upstream.origin)
  const list = show(
    'list',
    await measureThroughput(
      [rewriting, bridge].map((server) => ({ ...server.of('list100'), users: 2 })),
      { ...options, connections, rounds: isQuick ? 1 : 11 },
    ),
  )
  await Promise.all(
    [bridge, passing, printing, framed, direct, rewriting].map((server) => stop(server.process)),
  )
  const fresh = [
    nginx,
    await startPeer('pass-through', passThrough, upstream.origin),
    await startPeer('unchanged by a stream', stream, upstream.origin),
    await startPeer('rewritten by a stream', rewrite, upstream.origin),
    await startBridge(executable, upstream.origin),
    await startPeer('parse and print', parseAndPrint, upstream.origin),
  ] as const
  const downloads = show(
    'downloads',
    await measureDownloads(
      fresh.map((server) => server.of('list100k')),
      isQuick ? 1 : 9,
    ),
  )
  await Promise.all(fresh.map((server) => stop(server.process)))
  const patient = await startBridge(executable, upstream.origin)
  const slowReaders = show(
    'slowReaders',
    await measureSlowReaders(patient.of('list100k'), limits.listsPerUser, 10),
  )
  await stop(patient.process)

  say('Writes')
  const batch = show('batch', await measureBatch(executable, isQuick ? 1 : 5))

  say('At a distance')
  const roundTrips = show('roundTrips', await measureRoundTrips(executable, folder, isQuick ? 3 : 7))
  const far = await startFar(folder)
  const distance = show(
    'distance',
    await measureDistance(executable, far, {
      rounds: isQuick ? 1 : 3,
      seconds: isQuick ? 2 : 3,
      warmUpSeconds: warmUp(4),
      script,
      peers: { passThrough, straight },
    }),
  )

  say('Processes')
  const workers = show('workers', await measureWorkers(script))

  say('Redis')
  const redis = await measureRedis(executable, upstream.origin, { connections, seconds, script })

  say('Endurance')
  const enduring = await startBridge(executable, upstream.origin)
  const endurance = show(
    'endurance',
    await measureEndurance(
      { ...enduring.of('record'), users: 2 },
      {
        requests: isFull ? 1_000_000 : isQuick ? 20_000 : 300_000,
        seconds: isFull ? 900 : 30,
        script,
      },
    ),
  )
  await stop(enduring.process)

  say("A person's own data")
  const ownData = show('ownData', await measureOwnData(executable, folder, isQuick ? 3000 : 300_000))

  say('The explorer')
  const withExplorer = await startBridge(executable, upstream.origin, {
    settings: { explorer_enabled: 'true' },
  })
  const explorer = show('explorer', await measureExplorer(`${withExplorer.origin}/v1/explore`))
  await stop(withExplorer.process)

  const machine = await describeMachine(executable)
  return {
    machine,
    record,
    list,
    workers,
    downloads,
    slowReaders,
    batch,
    redis,
    roundTrips,
    distance,
    endurance,
    ownData,
    explorer,
  }
}

// Storage and load run on any free core, so the workers have less than two whole cores.
async function measureWorkers(script: string): Promise<Results['workers']> {
  const core = cores.both
  const { origin: tokenServerUrl, ...upstream } = await startUpstream(folder, core)
  const servers = [
    await startBridge(executable, tokenServerUrl, { name: '1 worker' }),
    await startBridge(executable, tokenServerUrl, { name: '2 workers', core, settings: { workers: '2' } }),
  ]
  const subjects = servers.map((server) => ({ ...server.of('record'), users: 4 }))
  const options = { connections: 2 * connections, rounds, seconds, warmUpSeconds: warmUp(4), script, core }
  const workers = await measureThroughput(subjects, options)
  await Promise.all([...servers, upstream].map((server) => stop(server.process)))
  return workers
}

/** Prints how a part met its targets, so that a run that is cut off has not measured in vain. */
function show<Part extends keyof Results>(part: Part, figures: Results[Part]): Results[Part] {
  process.stdout.write(summarise(targetsOf(part, figures)))
  return figures
}

function say(what: string): void {
  process.stdout.write(`${what} ...\n`)
}
