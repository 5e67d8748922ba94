import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { peakBytes } from '../support/processes.ts'
import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { serve, type Running } from '../support/executable.ts'

const seeded = 25_000
const payloadBytes = 4400
const mostBytes = 150 * 1024 * 1024

const running: Running[] = []
let sandbox: Sandbox

beforeAll(async () => {
  sandbox = await startSandbox()
})

afterAll(async () => {
  await Promise.all(running.map((each) => each.stop()))
  await sandbox.stop()
})

// The executable, because the peak memory of a process is measured.
describe('a list of 110 MB', () => {
  it('arrives in one response while the process stays below 150 MB, also for an initially slow reader', async () => {
    const user = sandbox.addUser('owner')
    sandbox.seed(user, 'big', seeded, { payloadBytes })
    const bridge = await serve({ token_server_url: sandbox.tokenServerUrl })
    running.push(bridge)
    const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }

    const seen = await scan(
      `${bridge.url}/v1/buckets/${user.clientState}/collections/big/records`,
      headers,
      () => stallReader(bridge.url),
    )

    expect(seen).toMatchObject({
      status: 200,
      total: `${seeded}`,
      records: seeded,
      distinct: seeded,
      end: ']}',
    })
    expect(seen.bytes).toBeGreaterThan(seeded * payloadBytes)
    expect(peakBytes(bridge.pid)).toBeLessThan(mostBytes)
  }, 300_000)
})

describe('a list of 300 records of 500 KB by their ids', () => {
  it('takes less than 100 MB above idle, in its own order, and little more in a batch that rejects it', async () => {
    const user = sandbox.addUser('owner by index')
    const ids = Array.from({ length: 300 }, (_, index) => `id${index}`)
    const payload = 'x'.repeat(500_000)
    const firstMs = 1_700_000_000_000
    sandbox.load(
      user,
      'big',
      ids.map((id, index) => ({ id, payload, sortindex: index, modified: firstMs + index * 10 })),
    )
    const bridge = await serve({ token_server_url: sandbox.tokenServerUrl, request_timeout_seconds: '60' })
    running.push(bridge)
    const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }
    const path = `/buckets/${user.clientState}/collections/big/records?_sort=-sortindex&in_ids=${ids.join(',')}`
    await fetch(`${bridge.url}/v1/buckets/${user.clientState}/collections/big/records?_limit=1`, {
      headers,
    })
    const idleBytes = peakBytes(bridge.pid)

    const seen = await scan(`${bridge.url}/v1${path}`, headers)
    const listBytes = peakBytes(bridge.pid) - idleBytes
    const batch = await fetch(`${bridge.url}/v1/batch`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ requests: [{ path }, { path: path.replace(/in_ids=.*/, 'in_ids=id1') }] }),
    })

    expect(seen).toMatchObject({ status: 200, records: 300, distinct: 300, end: ']}' })
    const { responses } = (await batch.json()) as { responses: { status: number }[] }
    expect(responses.map(({ status }) => status)).toEqual([413, 200])
    expect(listBytes).toBeLessThan(100e6)
    // A list that a batch has begun to read stays in memory, up to 16 MiB.
    expect(peakBytes(bridge.pid) - idleBytes).toBeLessThan(mostBytes)
  }, 300_000)
})

/** Counts the records of a list as its bytes pass; keeps only the ids. */
async function scan(url: string, headers: Record<string, string>, pause = async () => {}) {
  const response = await fetch(url, { headers })
  const ids = new Set<string>()
  const field = /"id":"([^"\\]+)"/g
  let records = 0
  let bytes = 0
  let rest = ''
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    if (bytes === 0) await pause()
    bytes += chunk.length
    const text = rest + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('latin1')
    let end = 0
    field.lastIndex = 0
    for (let match = field.exec(text); match; match = field.exec(text)) {
      records += 1
      ids.add(match[1]!)
      end = field.lastIndex
    }
    // A field that is cut by the end of the chunk is found with the next one.
    rest = text.slice(Math.max(end, text.length - 100))
  }
  return {
    status: response.status,
    total: response.headers.get('Total-Records'),
    records,
    distinct: ids.size,
    bytes,
    end: rest.slice(-2),
  }
}

/** Reads nothing while the bridge has time for many others. */
async function stallReader(url: string): Promise<void> {
  for (let other = 0; other < 300; other += 1) await fetch(`${url}/__lbheartbeat__`)
}
