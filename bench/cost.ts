/**
 * Processor time of one record, the executable beside the peer that is written straight: the quick look while the way of
 * a request is worked on. `run.ts` measures everything.
 *
 * Usage: bun bench/cost.ts [path of the executable] [rounds]
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { loadScript, percentiles } from './load.ts'
import { measureThroughput } from './measurements/throughput.ts'
import { stopAll } from './processes.ts'
import { writeSampleData } from './sample-data.ts'
import { compilePeer, startBridge, startStraight, startUpstream } from './subjects.ts'

const executable = resolve(process.argv[2] ?? 'dist/sync-bridge')
const rounds = Number(process.argv[3] ?? 3)
const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-cost-'))
// The workers of nginx are somebody else.
chmodSync(folder, 0o755)

try {
  const script = join(folder, 'load.lua')
  writeFileSync(script, loadScript)
  await writeSampleData(folder)
  const upstream = await startUpstream(folder)
  const straight = await startStraight(await compilePeer('straight', join(folder, 'peers')), upstream.origin)
  const bridge = await startBridge(executable, upstream.origin)
  const subjects = [straight.of('record'), bridge.of('record')]
  for (const connections of [1, 32]) {
    const options = { rounds, seconds: 2, warmUpSeconds: 5, script, connections }
    const [base, ours] = await measureThroughput(subjects, options)
    for (const { name, cpuMicroseconds, requestsPerSecond, latencies, failures } of [base!, ours!]) {
      const [p50, p99] = [50, 99].map((percentile) => latencies[percentiles.indexOf(percentile)]!)
      console.log(
        `c=${connections} ${name.padEnd(12)} ${cpuMicroseconds.toFixed(1)} µs, ${requestsPerSecond.toFixed(0)} requests/s, ` +
          `p99/p50 ${(p99! / p50!).toFixed(1)}, ${failures} failures`,
      )
    }
    console.log(`c=${connections} ratio ${(ours!.cpuMicroseconds / base!.cpuMicroseconds).toFixed(2)}`)
  }
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}
process.exit()
