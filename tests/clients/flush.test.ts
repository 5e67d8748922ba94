import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { kintoVersions } from './offline.ts'
import { startWorld, type Person, type World } from './world.ts'

describe('deletions without a tombstone, as the storage shows them', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(() => world.stop())

  it.each(kintoVersions)('stop %s until there is a newer record to list', async (version) => {
    const { firefox, phone } = await world.synced({ kept: 'Kept', gone: 'Gone' }, version)

    firefox.wipe('gone')
    await expect(phone.sync()).rejects.toThrow(/server has been flushed/i)
    await expect(phone.sync('pull_only')).rejects.toThrow(/server has been flushed/i)
    firefox.write('new', 'New')
    const after = await phone.sync()

    expect(after.ok).toBe(true)
    expect(await phone.titles()).toMatchObject({ kept: 'Kept', new: 'New' })
  })

  it('let kinto 17 start again from an emptied, reopened database', async () => {
    const { firefox, phone } = await world.synced({ kept: 'Kept', gone: 'Gone' })

    firefox.wipe('gone')
    await phone.collection.clear()
    const result = await phone.reopen().sync()

    expect(result.ok).toBe(true)
    expect(await phone.titles()).toEqual({ kept: 'Kept' })
  })

  it('make kinto 17 restore everything that was deleted, if it resets its sync status', async () => {
    const { firefox, phone } = await world.synced({ kept: 'Kept', gone: 'Gone' })

    firefox.wipe('gone')
    await phone.collection.resetSyncStatus()
    await phone.reopen().sync({ strategy: 'client_wins' })

    expect(firefox.titles()).toEqual({ gone: 'Gone', kept: 'Kept' })
  })
})

describe('flush_safe_etag', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld({ settings: { flush_safe_etag: 'true' } })
  })
  afterAll(() => world.stop())

  it('gives an empty list of changes the timestamp of _since', async () => {
    const person = world.person()
    const { before, after } = wipeOne(person)

    expect(await etagOf(world, person, `?_since=${before}`)).toBe(`"${before}"`)
    expect(await etagOf(world, person, `?gt_last_modified="${before}"&_limit=5`)).toBe(`"${before}"`)
    expect(await etagOf(world, person, `?_since=${before}`, { 'If-None-Match': `"${before}"` })).toBe(
      `"${before}"`,
    )
    expect(await etagOf(world, person, `?_since=${after}`)).toBe(`"${after}"`)
  })

  it('does not affect other lists', async () => {
    const person = world.person()
    const { first, before, after } = wipeOne(person)
    const elsewhere = [
      '',
      `?_since=${first - 10}`,
      `?_since=${after + 5000}`,
      `?_since=${before}&in_ids=gone`,
      `?_since=${before}&in_ids=`,
      `?_since=${before}&exclude_id=kept`,
      `?_since=${first - 20}&_before=${first - 10}`,
    ]

    for (const query of elsewhere)
      expect([query, await etagOf(world, person, query)]).toEqual([query, `"${after}"`])
  })

  it('does the same for HEAD, and inside a batch', async () => {
    const person = world.person()
    const { before, after } = wipeOne(person)
    const path = `/buckets/${person.bucket}/collections/bookmarks/records?_since=${before}`

    const response = await fetch(`${world.url}/v1/batch`, {
      method: 'POST',
      headers: { ...person.headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ requests: [{ path }, { path, method: 'HEAD' }] }),
    })
    const { responses } = (await response.json()) as { responses: object[] }

    expect(await etagOf(world, person, `?_since=${before}`, {}, 'HEAD')).toBe(`"${before}"`)
    expect(await etagOf(world, person, '', {}, 'HEAD')).toBe(`"${after}"`)
    expect(responses).toMatchObject([
      { status: 200, headers: { ETag: `"${before}"` }, body: { data: [] } },
      { status: 200, headers: { ETag: `"${before}"` }, body: {} },
    ])
  })

  it.each(kintoVersions)('lets %s continue after a deletion without a tombstone', async (version) => {
    const { firefox, phone } = await world.synced({ kept: 'Kept', gone: 'Gone' }, version)

    firefox.wipe('gone')
    const after = await phone.sync()
    const again = await phone.sync()
    firefox.write('new', 'New')
    await phone.edit('kept', 'Mine')
    const later = await phone.sync()

    expect([after.ok, again.ok, later.ok]).toEqual([true, true, true])
    expect(await phone.titles()).toEqual({ gone: 'Gone', kept: 'Mine', new: 'New' })
    expect(firefox.titles()).toEqual({ kept: 'Mine', new: 'New' })
  })

  it.each(kintoVersions)('lets %s delete records itself and continue', async (version) => {
    const { firefox, phone } = await world.synced({ kept: 'Kept', gone: 'Gone' }, version)

    await phone.collection.delete('gone')
    const deletion = await phone.sync()
    const again = await phone.sync()

    expect([deletion.ok, again.ok]).toEqual([true, true])
    expect(firefox.titles()).toEqual({ kept: 'Kept' })
    expect(await phone.titles()).toEqual({ kept: 'Kept' })
  })
})

/** Deletes one of two records; returns the timestamps of the first, of both, and of the collection after the deletion. */
function wipeOne({ firefox }: Person): { first: number; before: number; after: number } {
  const first = firefox.write('kept', 'Kept')
  const before = firefox.write('gone', 'Gone')
  const after = firefox.wipe('gone')
  return { first, before, after }
}

async function etagOf(
  { url }: World,
  { bucket, headers }: Person,
  query: string,
  more: Record<string, string> = {},
  method = 'GET',
): Promise<string | null> {
  const response = await fetch(`${url}/v1/buckets/${bucket}/collections/bookmarks/records${query}`, {
    method,
    headers: { ...headers, ...more },
  })
  return response.headers.get('ETag')
}
