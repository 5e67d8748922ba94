import { describe, expect, it } from 'bun:test'
import { startTestBridge } from '../support/bridge.ts'
import { putOf } from './expectations.ts'
import { batchOf, openWorld, statuses } from './world.ts'

const { bridge, bucket, batch } = await openWorld({ writable: ['history', 'forms'] })

const put = (collection: string, id: string, data: object) => ({
  path: `${bucket}/collections/${collection}/records/${id}`,
  ...putOf(data),
})
const read = async (collection: string, id: string) =>
  (await bridge.ask(`/collections/${collection}/records/${id}`)).body.data

describe('section 4: PUT returns the record as stored', () => {
  it.each([{ ttl: 600 }, {}])('after %j in a batch over two collections', async (data) => {
    bridge.sandbox.write(bridge.user, 'history', [{ id: 'touched', payload: 'x' }])
    bridge.sandbox.write(bridge.user, 'forms', [{ id: 'touched', payload: 'x' }])

    const answer = await batch({ requests: [put('history', 'touched', data), put('forms', 'touched', data)] })

    const told = answer.body.responses.map((response: { body: { data: object } }) => response.body.data)
    expect(told).toEqual([await read('history', 'touched'), await read('forms', 'touched')])
  })

  it('or as sent, if an expired record may have left a sortindex', async () => {
    const modified = bridge.sandbox.nowMs() - 60_000
    const expired = {
      payload: 'x',
      sortindex: 7,
      modified: modified - (modified % 10),
      expiry: modified + 1000,
    }
    const ids = ['alone', 'first', 'second']
    bridge.sandbox.load(
      bridge.user,
      'history',
      ids.map((id) => ({ id, ...expired })),
    )

    const alone = await bridge.ask('/collections/history/records/alone', putOf({ payload: 'new' }))
    const requests = ['first', 'second'].map((id) => put('history', id, { payload: 'new' }))
    const together = await batch({ requests })

    const told = [alone.body, ...together.body.responses.map(({ body }: { body: unknown }) => body)]
    for (const [index, { data }] of told.entries()) {
      const { sortindex, ...stored } = await read('history', ids[index]!)
      expect(sortindex).toBe(7)
      expect(data).toEqual(stored)
    }
  })
})

describe('section 5: a batch of 25 records over a storage that accepts fewer in one upload', () => {
  it.each([
    [{ max_post_records: 10 }, 200],
    [{ max_post_bytes: 10 }, 200],
    [{ collections: { history: { max_post_bytes: 10 } } }, 200],
    [{ max_post_records: 10, max_total_records: 10 }, 413],
  ])('is stored, unless one staged batch is too small: %j', async (limits, status) => {
    await using own = await startTestBridge({ writable: ['history'] })
    Object.assign(own.sandbox.switches.limits, limits)
    const path = `/buckets/${own.user.clientState}/collections/history/records`
    const requests = Array.from({ length: 25 }, (_, index) => ({
      path: `${path}/id${index}`,
      ...putOf({ payload: `${index}` }),
    }))

    const answer = await batchOf(own)({ requests })

    expect(statuses(answer)).toEqual(Array(25).fill(status))
    expect(own.sandbox.records(own.user, 'history')).toHaveLength(status === 200 ? 25 : 0)
  })
})
