/**
 * Where a request and a start spend their instructions, by thread and by kind of code: the bridge beside the peers that
 * it is compared with. Instructions hardly vary with what else the machine does, as time does. Needs perf.
 *
 * Usage: bun bench/profile.ts [path of the executable]
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { load, loadScript } from './load.ts'
import { firstAnswer } from './measurements/start-up.ts'
import { startWriters, writeAll, writes } from './measurements/writes.ts'
import { cores, familyOf, freePort, start, stopAll } from './processes.ts'
import { writeSampleData } from './sample-data.ts'
import {
  bridgeEnvironment,
  compilePeer,
  startBridge,
  startPeer,
  startStraight,
  startUpstream,
} from './subjects.ts'
import type { Server } from './subjects.ts'

const executable = resolve(process.argv[2] ?? 'dist/sync-bridge')
const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-profile-'))
const samples = join(folder, 'samples')
// Instructions between samples. With fewer the kernel would drop some.
const periods = { request: 1_000_003, start: 200_003 }
const startRounds = 10
// Until the compilers are done.
const warmRequests = { record: 100_000, list100: 30_000 }
// The workers of nginx are somebody else.
chmodSync(folder, 0o755)

const columns = ['runtime', 'compiled', 'kernel', 'network thread', 'other threads'] as const
type Column = (typeof columns)[number]
type Counts = Map<Column, number>

try {
  const script = join(folder, 'load.lua')
  writeFileSync(script, loadScript)
  await writeSampleData(folder)
  const upstream = await startUpstream(folder)
  const peer = (name: string) => compilePeer(name, join(folder, 'peers'))
  const straight = await peer('straight')
  const bridge = await startBridge(executable, upstream.origin)
  const reads: [what: keyof typeof warmRequests, server: Server][] = [
    ['record', await startPeer('pass-through', await peer('pass-through'), upstream.origin)],
    ['record', await startStraight(straight, upstream.origin)],
    ['record', bridge],
    ['list100', await startPeer('rewritten by a stream', await peer('rewrite'), upstream.origin)],
    ['list100', bridge],
  ]
  printHead(['thousands of instructions per request', 'all', ...columns])
  for (const [what, server] of reads) {
    const subject = server.of(what)
    const options = { connections: 32, script }
    await profile(`${what}: ${subject.name}`, subject.pids, {
      async warm() {
        for (let asked = 0; asked < warmRequests[what];)
          asked += (await load(subject, { ...options, seconds: 2 })).requests
      },
      ask: async () => (await load(subject, { ...options, seconds: 3 })).requests,
    })
  }
  const { users, bridges } = await startWriters([executable])
  for (const write of writes) {
    await profile(`${write.name}: Sync Bridge`, bridges[0]!.pids, {
      warm: () => writeAll(write, bridges[0]!.origin, users, write.count * 3),
      ask: () => writeAll(write, bridges[0]!.origin, users, write.count * 5),
    })
  }
  printHead([
    'millions of instructions to the first answer',
    'all',
    ...columns,
    'MB of files',
    'MB of its own',
  ])
  await profileStart('bare Bun.serve', [await peer('bare')], '/')
  await profileStart('straight', [straight], '/')
  await profileStart('sync-bridge version', [executable, 'version'], null)
  await profileStart('sync-bridge serve', [executable, 'serve'], '/v1/__lbheartbeat__')
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}
process.exit()

async function profile(
  name: string,
  pids: number[],
  { warm, ask }: { warm(): Promise<unknown>; ask(): Promise<number> },
): Promise<void> {
  await warm()
  const perf = start([...record(periods.request), '-p', pids.join(',')], { core: cores.load })
  await Bun.sleep(500)
  const requests = await ask()
  perf.kill('SIGINT')
  await perf.exited
  const counts: Counts = new Map()
  await addSamples(counts, periods.request / 1000 / requests)
  printCounts(name, counts, 0)
}

/** From the start of a process to its first answer, or to its end if it is asked nothing; the mean of some starts. */
async function profileStart(name: string, command: string[], path: string | null): Promise<void> {
  const counts: Counts = new Map()
  let memory: string[] = []
  for (let round = 0; round < startRounds; round += 1) {
    const port = freePort()
    const environment = { PORT: `${port}`, ...bridgeEnvironment(port, 'http://127.0.0.1:9') }
    const perf = start([...record(periods.start), '--', ...command], { core: cores.measured, environment })
    if (path !== null) {
      await firstAnswer(`http://127.0.0.1:${port}${path}`)
      const pid = familyOf(perf.pid)[1]!
      memory = residentBySource(pid)
      process.kill(pid, 'SIGKILL')
    }
    await perf.exited
    await addSamples(counts, periods.start / 1e6 / startRounds)
  }
  printCounts(name, counts, 1, memory)
}

function record(period: number): string[] {
  return ['perf', 'record', '-e', 'instructions', '-c', `${period}`, '-o', samples]
}

/** MB of pages that files have, the executable's above all, and of those that are the process's own. */
function residentBySource(pid: number): string[] {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return ['RssFile', 'RssAnon'].map((kind) => {
    const [kilobytes] = /\d+/.exec(status.slice(status.indexOf(kind)))!
    return (Number(kilobytes) / 1024).toFixed(1)
  })
}

/** Adds what was recorded last, each sample of which stands for so many of the unit. */
async function addSamples(counts: Counts, unit: number): Promise<void> {
  const report = await Bun.$`perf report -i ${samples} --stdio -F sample,comm,dso -t ${';'}`.quiet().text()
  for (const [, count, thread, place] of report.matchAll(/^ *(\d+) *;([^;]+);([^;\n]+)/gm)) {
    const column = columnOf(thread!.trim(), place!)
    counts.set(column, (counts.get(column) ?? 0) + Number(count) * unit)
  }
}

function printCounts(name: string, counts: Counts, decimals: number, more: string[] = []): void {
  const cells = columns.map((column) => counts.get(column) ?? 0)
  const all = cells.reduce((sum, cell) => sum + cell, 0)
  print([name, ...[all, ...cells].map((cell) => cell.toFixed(decimals)), ...more])
}

/** The main thread has the name of its executable; its own work is told apart by where the code lies. */
function columnOf(thread: string, place: string): Column {
  if (thread === 'HTTP Client') return 'network thread'
  if (/^(JITWorker|JSCWarmUp|Heap|mi-|Bun Pool)/.test(thread)) return 'other threads'
  if (place.includes('[JIT]')) return 'compiled'
  return place.includes('[kernel') || place.includes('[vdso]') ? 'kernel' : 'runtime'
}

function printHead(cells: string[]): void {
  print(cells)
  print(cells.map((_, index) => (index === 0 ? '---' : '---:')))
}

function print(cells: string[]): void {
  console.log(`| ${cells.join(' | ')} |`)
}
