import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { expectError } from './expectations.ts'

let bridge: TestBridge

beforeAll(async () => {
  bridge = await startTestBridge({
    writable: ['tabs'],
    settings: { readable_collections: 'tabs, crypto' },
  })
  for (const name of ['tabs', 'passwords', 'crypto'])
    bridge.sandbox.write(bridge.user, name, [{ id: 'a', payload: name }])
})

afterAll(() => bridge.stop())

describe('section 9: collections that the operator does not expose', () => {
  const records = '/collections/passwords/records'

  it.each([
    ['GET', '/collections/passwords'],
    ['GET', '/collections/Passwords'],
    ['GET', '/collections/p%61sswords'],
    ['GET', records],
    ['HEAD', records],
    ['GET', `${records}?_since=junk`],
    ['GET', `${records}/a`],
    ['HEAD', `${records}/a`],
    ['PUT', `${records}/a`],
    ['DELETE', `${records}/a`],
    ['POST', records],
    ['PATCH', `${records}/a`],
  ])('are 404 for %s %s, before credentials are checked', async (method, path) => {
    const body = method === 'PUT' ? { data: { payload: 'x' } } : undefined
    const before = bridge.sandbox.requests.storage.entries.length
    const answers = [
      await bridge.ask(path, { method, body }),
      await bridge.ask(`/v1/buckets/${bridge.user.clientState}${path}`, { method, body, as: null }),
    ]

    for (const answer of answers) {
      if (method === 'HEAD') expect(answer.status).toBe(404)
      else expectError(answer, 404, 111)
      expect(answer.headers.get('allow')).toBeNull()
    }
    expect(bridge.sandbox.requests.storage.entries.length).toBe(before)
  })

  it('are 404 in batches, next to exposed ones', async () => {
    const bucket = `/buckets/${bridge.user.clientState}`
    const requests = [
      { path: `${bucket}${records}` },
      { path: `${bucket}${records}/a` },
      { method: 'PUT', path: `${bucket}${records}/a`, body: { data: { payload: 'x' } } },
      { path: `${bucket}/collections/tabs/records/a` },
    ]

    const { body } = await bridge.ask('/v1/batch', { method: 'POST', body: { requests } })

    expect(body.responses.map(({ status }: { status: number }) => status)).toEqual([404, 404, 404, 200])
  })

  it('are not listed, and others are', async () => {
    const { body, headers } = await bridge.ask('/collections')

    expect(body.data.map(({ id }: { id: string }) => id).toSorted()).toEqual(['crypto', 'tabs'])
    expect(headers.get('total-records')).toBe('2')
    expect((await bridge.ask('/collections/tabs/records')).body.data).toHaveLength(1)
  })
})
