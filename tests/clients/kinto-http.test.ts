import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import KintoClient from 'kinto-http/lib/index.js'
import type Collection from 'kinto-http/lib/collection.js'
import { seal } from './sealed.ts'
import { startWorld, type Person, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

describe('kinto-http: lists', () => {
  it('filters by ids, encoded and as an array, and by time', async () => {
    const { person, records } = someone()
    const [, second] = write(person, 'a', 'b', 'c', '{guid}')
    const ids = async (filters: Record<string, string>) =>
      idsOf((await records().listRecords({ filters })).data)

    expect(await ids({ in_ids: 'a,c' })).toEqual(['c', 'a'])
    expect(await ids({ in_id: ['a', '{guid}', 'unknown'] as never })).toEqual(['{guid}', 'a'])
    expect(await ids({ exclude_id: 'a,c' })).toEqual(['{guid}', 'b'])
    expect(await ids({ _before: `${second}` })).toEqual(['a'])
    expect(await ids({ gt_last_modified: `${second}`, _expected: '"1"' })).toEqual(['{guid}', 'c'])
    expect(await ids({ in_ids: '' })).toEqual([])
  })

  it('follows all pages by itself, up to the requested number', async () => {
    const { person, records } = someone()
    write(person, 'a', 'b', 'c', 'd', 'e')

    const all = await records().listRecords({ limit: 2, pages: Infinity })
    const two = await records().listRecords({ limit: 2, pages: 2 })
    const some = await records().listRecords({ limit: 2, pages: Infinity, filters: { exclude_id: 'e,b' } })

    expect(idsOf(all.data)).toEqual(['e', 'd', 'c', 'b', 'a'])
    expect(idsOf(two.data)).toEqual(['e', 'd', 'c', 'b'])
    expect([all, two].map(({ hasNextPage }) => hasNextPage)).toEqual([false, true])
    expect(idsOf(some.data)).toEqual(['d', 'c', 'a'])
  })

  it('gets an error when a conditional list changes between pages', async () => {
    const { person, records } = someone()
    write(person, 'a', 'b', 'c')
    const etag = (await records().getRecordsTimestamp())!

    const first = await records().listRecords({ limit: 2, headers: { 'If-Match': etag } })
    write(person, 'd')

    await expect(first.next()).rejects.toMatchObject({ response: { status: 412 } })
  })
})

describe('kinto-http: records', () => {
  it('creates, changes and deletes without conditions', async () => {
    const { person, records } = someone()

    const { data: created } = await records().createRecord({ id: 'r', payload: 'one', sortindex: 3 })
    const { data: changed } = await records().updateRecord({ id: 'r', payload: 'two' })
    const overwritten = await records().createRecord({ id: 'r', payload: 'three' })
    await records().deleteRecord('r')

    expect(created).toEqual({ id: 'r', last_modified: expect.any(Number), payload: 'one', sortindex: 3 })
    expect(changed).toMatchObject({ payload: 'two', sortindex: 3 })
    expect(changed.last_modified).toBeGreaterThan(created.last_modified)
    expect(overwritten.data).toMatchObject({ payload: 'three' })
    expect(world.sandbox.records(person.user, 'bookmarks')).toEqual([])
    await expect(records().deleteRecord('r')).rejects.toMatchObject({ data: { code: 404, errno: 110 } })
  })

  it('creates safely: never over an existing record', async () => {
    const { person, records } = someone()
    const fresh = await records().createRecord({ id: 'fresh', payload: 'x' }, { safe: true })
    const [time] = write(person, 'taken')

    const refusal = records().createRecord({ id: 'taken', payload: 'mine' }, { safe: true })

    expect(fresh.data.id).toBe('fresh')
    await expect(refusal).rejects.toMatchObject({
      data: { errno: 114, details: { existing: { id: 'taken', last_modified: time } } },
    })
  })

  it('changes and deletes safely: only the version that it knows', async () => {
    const { person, records } = someone()
    const { data: known } = await records().createRecord({ id: 'r', payload: 'one' })
    const { data: current } = await records().updateRecord({ ...known, payload: 'two' }, { safe: true })
    const stale = { data: { errno: 114, details: { existing: { id: 'r', payload: 'two' } } } }

    await expect(
      records().updateRecord({ ...known, payload: 'three' }, { safe: true }),
    ).rejects.toMatchObject(stale)
    await expect(records().deleteRecord(known, { safe: true })).rejects.toMatchObject(stale)
    await records().deleteRecord(current, { safe: true })
    expect(world.sandbox.records(person.user, 'bookmarks')).toEqual([])
  })
})

describe('kinto-http: batches', () => {
  it('writes and deletes more than fits into one batch', async () => {
    const { person, records } = someone()
    write(person, 'gone', 'kept')

    const responses = (await records().batch((batch) => {
      for (let n = 0; n < 60; n++) void batch.createRecord({ id: `record ${n}`, payload: `${n}` })
      void batch.deleteRecord('gone')
    })) as { status: number }[]

    expect(responses).toHaveLength(61)
    expect(world.sandbox.records(person.user, 'bookmarks')).toHaveLength(61)
    expect(responses.at(-1)).toMatchObject({
      status: 204,
      body: { data: { id: 'gone', last_modified: expect.any(Number), deleted: true } },
    })
  })

  it('sorts the outcomes into published, skipped, conflicts and errors', async () => {
    const { person, bucket } = someone()
    write(person, 'taken')

    const outcomes = await bucket.batch(
      (batch) => {
        const bookmarks = batch.collection('bookmarks')
        bookmarks.createRecord({ id: 'new', payload: 'x' }, { safe: true })
        bookmarks.createRecord({ id: 'taken', payload: 'mine' }, { safe: true })
        bookmarks.deleteRecord('unknown')
        batch.collection('history').createRecord({ id: 'r', payload: 'x' })
        bookmarks.createRecord({ id: '{guid}', payload: 'x' })
      },
      { aggregate: true },
    )

    expect(outcomes).toMatchObject({
      published: [{ data: { id: 'new', payload: 'x' } }, { data: { id: '{guid}', payload: 'x' } }],
      skipped: [{ id: 'unknown' }],
      conflicts: [{ remote: { id: 'taken', payload: expect.any(String) } }],
      errors: [{ error: { errno: 115 } }],
    })
  })
})

function someone() {
  const person = world.person()
  const client = new KintoClient(`${world.url}/v1`, { headers: person.headers })
  const bucket = client.bucket(person.bucket)
  return { person, bucket, records: (name = 'bookmarks'): Collection => bucket.collection(name) }
}

/** Writes records in sequence; returns their timestamps. */
function write({ user }: Person, ...ids: string[]): number[] {
  return ids.map((id) => world.sandbox.write(user, 'bookmarks', [{ id, payload: seal(id, { title: id }) }]))
}

function idsOf(data: { id: string }[]): string[] {
  return data.map(({ id }) => id)
}
