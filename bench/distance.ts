/**
 * What the bridge does where its storage is far away: round trips for each operation, and requests per second of many clients,
 * beside its peers. `run.ts` measures everything.
 *
 * Usage: bun bench/distance.ts [path of the executable] [--quick] [--round-trips | --throughput | --costs | --spread]
 *        [--ms=20,50,100] [--clients=64,256,1000] [--crowds=one,64,each] [--rounds=3] [--seconds=3]
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startFar } from './far.ts'
import { loadScript } from './load.ts'
import { crowds, measureCosts, measureDistance, measureSpread } from './measurements/distance.ts'
import { measureRoundTrips } from './measurements/round-trips.ts'
import { stopAll } from './processes.ts'
import { costsTable, distanceTables, roundTripsTable, spreadTable } from './distance-report.ts'
import { writeSampleData } from './sample-data.ts'
import { compilePeer } from './subjects.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    'round-trips': { type: 'boolean', default: false },
    throughput: { type: 'boolean', default: false },
    costs: { type: 'boolean', default: false },
    spread: { type: 'boolean', default: false },
    ms: { type: 'string' },
    clients: { type: 'string' },
    crowds: { type: 'string', default: 'one,64,each' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
  },
})
const { quick } = values
const executable = resolve(positionals[0] ?? 'dist/sync-bridge')
const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-distance-'))
// The workers of nginx are somebody else.
chmodSync(folder, 0o755)
const isAll = !values['round-trips'] && !values.throughput && !values.costs && !values.spread
const numbers = (list: string) => list.split(',').map(Number)
const short = { one: crowds[0], 64: crowds[1], each: crowds[2] } as Record<string, (typeof crowds)[number]>

try {
  if (isAll || values['round-trips']) {
    console.log(roundTripsTable(await measureRoundTrips(executable, folder, quick ? 3 : 7)))
  }
  const script = join(folder, 'load.lua')
  writeFileSync(script, loadScript)
  await writeSampleData(folder)
  const far = await startFar(folder)
  const options = {
    roundTrips: numbers(values.ms ?? (quick ? '50' : '20,50,100')),
    clients: numbers(values.clients ?? (quick ? '256' : '64,256,1000')),
    crowds: values.crowds.split(',').map((name) => short[name]!),
    rounds: Number(values.rounds ?? (quick ? 1 : 3)),
    seconds: Number(values.seconds ?? 3),
    warmUpSeconds: quick ? 2 : 8,
    script,
    folder,
    peers: {
      passThrough: await compilePeer('pass-through', join(folder, 'peers')),
      straight: await compilePeer('straight', join(folder, 'peers')),
    },
  }
  if (isAll || values.throughput) console.log(distanceTables(await measureDistance(executable, far, options)))
  if (isAll || values.costs) {
    console.log(costsTable(await measureCosts(executable, far, { ...options, slices: quick ? 2 : 5 })))
  }
  if (isAll || values.spread) console.log(spreadTable(await measureSpread(executable, far, options)))
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}
process.exit()
