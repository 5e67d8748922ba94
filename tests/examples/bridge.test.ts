import { afterAll, describe, expect, it } from 'bun:test'
import { list } from '../../docs/examples/bridge.js'

let answers: Response[] = []
const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => answers.shift()! })
const user = { BRIDGE_URL: server.url.origin, BUCKET: 'b', BEARER_TOKEN: 't', KEY_ID: 'k' }
afterAll(() => server.stop(true))

describe('list', () => {
  it('takes a page of any length', async () => {
    const data = Array.from({ length: 1_000_000 }, (_, index) => ({ id: String(index) }))
    answers = [Response.json({ data })]

    const { records } = await list(user, '/collections/history/records')

    expect(records.length).toBe(data.length)
  })
})
