/**
 * One kind of request, WAY, asked TURNS times of a bridge in this process. `measurements/ways.ts` runs it as a test file,
 * because only tests count which lines run.
 */
import { it } from 'bun:test'
import { startTestBridge, type AskInit } from '../tests/support/bridge.ts'

const records = '/collections/tabs/records'
const writes = Array.from({ length: 25 }, (_, index) => `record-${index}`)

it('asks', async () => {
  const bridge = await startTestBridge({ writable: ['tabs'] })
  const data = { payload: 'x'.repeat(100) }
  const path = `/v1/buckets/${bridge.user.clientState}${records}`
  const requests = writes.map((id) => ({ method: 'PUT', path: `${path}/${id}`, body: { data } }))
  const ways: Record<string, [path: string, init: AskInit]> = {
    GET: [`${records}/record-1`, {}],
    list: [records, {}],
    PUT: [`${records}/record-1`, { method: 'PUT', body: { data } }],
    batch: ['/v1/batch', { method: 'POST', body: { requests } }],
  }
  await bridge.ask(...ways.batch!)
  const way = ways[process.env.WAY!]!
  for (let turn = 0; turn < Number(process.env.TURNS); turn += 1) {
    const { status } = await bridge.ask(...way)
    if (status !== 200) throw new Error(`Cannot count: status ${status}`)
  }
  await bridge.stop()
}, 60_000)
