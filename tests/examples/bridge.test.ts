import { afterAll, afterEach, beforeEach, describe, expect, it, spyOn } from 'bun:test'
import { ask, list } from '../../docs/examples/bridge.js'

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

describe('ask', () => {
  const busy = (status: number, retryAfter: string) =>
    Response.json({ message: 'Too busy' }, { status, headers: { 'Retry-After': retryAfter } })
  const told = spyOn(console, 'error')
  beforeEach(() => void told.mockImplementation(() => {}))
  afterEach(() => void told.mockReset())
  afterAll(() => told.mockRestore())

  it('asks again after the pause that an answer names', async () => {
    answers = [busy(503, '0'), busy(429, '0'), Response.json({ data: [] })]

    const { body } = await ask(user, user.BRIDGE_URL)

    expect(body).toEqual({ data: [] })
    expect(told.mock.calls.flat()).toEqual([
      'The bridge answers 503: asking again in 0 s',
      'The bridge answers 429: asking again in 0 s',
    ])
  })

  it('gives up after the third repeat', async () => {
    answers = Array.from({ length: 5 }, () => busy(503, '0'))

    const asked = ask(user, user.BRIDGE_URL)

    await expect(asked).rejects.toThrow('The bridge answers 503: Too busy')
    expect(answers).toHaveLength(1)
  })

  it.each(['61', 'Wed, 21 Oct 2026 07:28:00 GMT'])('does not wait for %s', async (retryAfter) => {
    answers = [busy(503, retryAfter), Response.json({ data: [] })]

    const asked = ask(user, user.BRIDGE_URL)

    await expect(asked).rejects.toThrow('The bridge answers 503: Too busy')
    expect(answers).toHaveLength(1)
  })
})
