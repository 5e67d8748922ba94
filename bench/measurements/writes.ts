import { cores, cpuMicroseconds, start, stop } from '../processes.ts'
import { interleave, median, ratio } from '../statistics.ts'
import { startBridge } from '../subjects.ts'

/** Processor time of one write, beside that of an earlier commit. */
export interface WriteCost {
  name: string
  microseconds: number
  microsecondsBefore: number
  ratioToBefore: number
}

const writesOfBatch = 25
/** Rounds before anything counts: some thousand writes, so that the compilers are nearly done. */
const warmUpRounds = 10
const record = { data: { payload: 'x'.repeat(1400) } }

interface User {
  clientState: string
  keyId: string
  authorization: string
}

interface Write {
  name: string
  /** How often each user asks for it in one round. */
  count: number
  send(origin: string, user: User): Promise<void>
}

export const writes: Write[] = [
  { name: 'one PUT', count: 20, send: put },
  { name: `a batch of ${writesOfBatch} PUTs`, count: 5, send: batch },
]

/** Bridges over one storage, which is the sandbox, and its users. */
export async function startWriters(executables: string[]) {
  const sandbox = start([process.execPath, `${import.meta.dir}/../sandbox.ts`, '0', '16'], {
    core: cores.load,
    stdout: 'pipe',
  })
  const { value } = await (sandbox.stdout as ReadableStream<Uint8Array>).getReader().read()
  const access = JSON.parse(Buffer.from(value!).toString()) as { tokenServerUrl: string; users: User[] }
  const settings = { record_tabs_put_enabled: 'true' }
  const bridges = await Promise.all(
    executables.map((executable) => startBridge(executable, access.tokenServerUrl, { settings })),
  )
  return { sandbox, users: access.users, bridges }
}

/** Writes so many times as each of the users at once, each of whom waits for their answer; returns how many that were. */
export async function writeAll(
  { send }: Write,
  origin: string,
  users: User[],
  count: number,
): Promise<number> {
  await Promise.all(
    users.map(async (user) => {
      for (let done = 0; done < count; done += 1) await send(origin, user)
    }),
  )
  return count * users.length
}

/** PUTs, and batches of them, at two executables in turn. */
export async function measureWrites(
  executables: { before: string; bridge: string },
  rounds: number,
): Promise<WriteCost[]> {
  const { sandbox, users, bridges } = await startWriters([executables.before, executables.bridge])
  const costs: WriteCost[] = []
  for (const write of writes) {
    const cost = async ({ origin, pids }: (typeof bridges)[number]) => {
      const before = cpuMicroseconds(pids)
      const written = await writeAll(write, origin, users, write.count)
      return (cpuMicroseconds(pids) - before) / written
    }
    for (const bridge of bridges) for (let warm = 0; warm < warmUpRounds; warm += 1) await cost(bridge)
    const [before, now] = await interleave(bridges, rounds, cost)
    costs.push({
      name: write.name,
      microseconds: median(now!),
      microsecondsBefore: median(before!),
      ratioToBefore: ratio(now!, before!),
    })
  }
  await Promise.all([...bridges.map(({ process }) => process), sandbox].map(stop))
  return costs
}

function headersOf({ authorization, keyId }: User): Record<string, string> {
  return { Authorization: authorization, 'X-KeyID': keyId, 'Content-Type': 'application/json' }
}

function pathOf({ clientState }: User, id: string): string {
  return `/v1/buckets/${clientState}/collections/tabs/records/${id}`
}

async function put(origin: string, user: User): Promise<void> {
  const init = { method: 'PUT', headers: headersOf(user), body: JSON.stringify(record) }
  await succeed(origin + pathOf(user, 'record-1'), init)
}

async function batch(origin: string, user: User): Promise<void> {
  const ids = Array.from({ length: writesOfBatch }, (_, index) => `record-${index}`)
  const requests = ids.map((id) => ({ method: 'PUT', path: pathOf(user, id), body: record }))
  const init = { method: 'POST', headers: headersOf(user), body: JSON.stringify({ requests }) }
  const { responses } = (await succeed(`${origin}/v1/batch`, init)) as { responses: { status: number }[] }
  if (responses.some(({ status }) => status !== 200)) throw new Error('A write of a batch failed')
}

async function succeed(url: string, init: RequestInit): Promise<unknown> {
  const response = await fetch(url, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`Cannot write: ${response.status} ${text}`)
  return JSON.parse(text)
}
