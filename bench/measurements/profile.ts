import { join } from 'node:path'
import { load } from '../load.ts'
import { cores, start, stop } from '../processes.ts'
import {
  compilePeer,
  startBridge,
  startPeer,
  startStraight,
  startUpstream,
  type Server,
} from '../subjects.ts'
import { startWriters, writeAll, writes } from './writes.ts'

/** Whose instructions are counted: of the main thread by where the code lies, and the other threads. */
export const kinds = ['runtime', 'compiled', 'kernel', 'network thread', 'other threads'] as const
type Kind = (typeof kinds)[number]

/** Where a request spends its instructions, which hardly vary with what else a machine does, as time does. */
export interface Profile {
  name: string
  /** Thousands a request. */
  instructions: Record<Kind, number>
}

// Instructions between samples. With fewer the kernel would drop some.
const period = 1_000_003
// Until the compilers are done.
const warmRequests = { record: 100_000, list100: 30_000 }
const mostWarmRounds = 20
const seconds = 3

/** The bridge beside the peers that it is compared with. Nothing where perf cannot count. */
export async function measureProfiles(
  executable: string,
  folder: string,
  script: string,
): Promise<Profile[]> {
  const samples = join(folder, 'samples')
  const { exitCode } = await Bun.$`${record(samples)} true`.quiet().nothrow()
  if (exitCode !== 0) return []
  const upstream = await startUpstream(folder)
  const compile = (name: string) => compilePeer(name, join(folder, 'peers'))
  const straight = await compile('straight')
  const peer = async (name: string, file: string) => startPeer(name, await compile(file), upstream.origin)
  const bridge = await startBridge(executable, upstream.origin)
  const reads: [what: keyof typeof warmRequests, name: string, server: Server][] = [
    ['record', 'one record', await peer('pass-through', 'pass-through')],
    ['record', 'one record', await startStraight(straight, upstream.origin)],
    ['record', 'one record', bridge],
    ['list100', '100 records', await peer('rewritten by a stream', 'rewrite')],
    ['list100', '100 records', bridge],
  ]
  const requests: Profile[] = []
  for (const [what, name, server] of reads) {
    const subject = server.of(what)
    const options = { connections: 32, script, seconds }
    const ask = async () => (await load(subject, options)).requests
    for (let asked = 0, round = 0; asked < warmRequests[what] && round < mostWarmRounds; round += 1)
      asked += await ask()
    requests.push(await profileRequests(`${name}, ${subject.name}`, subject.pids, ask, samples))
  }
  const writers = await startWriters([executable])
  const [{ origin, pids, process: writing }] = writers.bridges as [(typeof writers.bridges)[number]]
  for (const write of writes) {
    const writeMany = () => writeAll(write, origin, writers.users, write.count * 4)
    await writeMany()
    requests.push(await profileRequests(`${write.name}, Sync Bridge`, pids, writeMany, samples))
  }
  const servers = [upstream, ...reads.map(([, , server]) => server)].map(({ process }) => process)
  await Promise.all([...servers, writing, writers.sandbox].map(stop))
  return requests
}

async function profileRequests(
  name: string,
  pids: number[],
  ask: () => Promise<number>,
  samples: string,
): Promise<Profile> {
  const perf = start([...record(samples), '-p', pids.join(',')], { core: cores.load })
  await Bun.sleep(500)
  const requests = await ask()
  perf.kill('SIGINT')
  await perf.exited
  return { name, instructions: await countSamples(samples, period / 1000 / requests) }
}

function record(samples: string): string[] {
  return ['perf', 'record', '-e', 'instructions', '-c', `${period}`, '-o', samples]
}

/** What was recorded last, each sample of which stands for so many. */
async function countSamples(samples: string, unit: number): Promise<Record<Kind, number>> {
  const report = await Bun.$`perf report -i ${samples} --stdio -F sample,comm,dso -t ${';'}`.quiet().text()
  const counts = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>
  for (const [, count, thread, place] of report.matchAll(/^ *(\d+) *;([^;]+);([^;\n]+)/gm)) {
    counts[kindOf(thread!.trim(), place!)] += Number(count) * unit
  }
  return counts
}

/** The main thread has the name of its executable. */
function kindOf(thread: string, place: string): Kind {
  if (thread === 'HTTP Client') return 'network thread'
  if (/^(JITWorker|JSCWarmUp|Heap|mi-|Bun Pool)/.test(thread)) return 'other threads'
  if (place.includes('[JIT]')) return 'compiled'
  return place.includes('[kernel') || place.includes('[vdso]') ? 'kernel' : 'runtime'
}
