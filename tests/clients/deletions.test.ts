import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { kintoVersions, type KintoVersion } from './offline.ts'
import { startWorld, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

// The oldest client takes its own deletion for a flush of the server: see flush.test.ts.
const versions = kintoVersions.filter((version) => version !== 'kinto 1.2.2')

describe.each(versions)('%s: Collection.delete(), which Firefox does not notice', (version) => {
  it('deletes the record in the storage', async () => {
    const { phone, firefox } = await prepare(version)

    await phone.collection.delete('r')
    const result = await phone.sync()

    expect(result).toMatchObject({ ok: true, published: [{ id: 'r', deleted: true }] })
    expect(firefox.titles()).toEqual({ other: 'Other' })
    expect(await phone.titles()).toEqual({ other: 'Other' })
    expect(await phone.pending()).toEqual([])
  })

  it('counts a record that no longer exists as deleted', async () => {
    const { phone, firefox } = await prepare(version)

    await phone.collection.delete('r')
    phone.beforePush(() => firefox.wipe('r'))
    const result = await phone.sync()

    expect(result.ok).toBe(true)
    expect(await phone.pending()).toEqual([])
  })

  it.each(['before', 'during'] as const)('reports changes made meanwhile (%s)', async (moment) => {
    const { phone, firefox } = await prepare(version)
    const change = () => firefox.write('r', 'Theirs')

    await phone.collection.delete('r')
    if (moment === 'before') change()
    else phone.beforePush(change)
    const result = await phone.sync()

    expect(result.ok).toBe(false)
    expect(result.conflicts).toMatchObject([{ local: { id: 'r' }, remote: { id: 'r', title: 'Theirs' } }])
    expect(firefox.titles()).toEqual({ other: 'Other', r: 'Theirs' })
  })

  it.each([
    ['server_wins', 'takes the changed record back', 'Theirs'],
    ['client_wins', 'leaves a record without content, as the documentation warns', ''],
  ] as const)('%s: %s', async (strategy, _, title) => {
    const { phone, firefox } = await prepare(version)

    await phone.collection.delete('r')
    firefox.write('r', 'Theirs')
    const result = await phone.sync(strategy)

    expect(result.ok).toBe(true)
    expect(firefox.titles()).toEqual({ other: 'Other', r: title })
    expect(await phone.titles()).toEqual(firefox.titles())
  })
})

describe.each(versions)('%s: a change to a record that was wiped meanwhile', (version) => {
  it('manual: reports it, with nothing on the remote side', async () => {
    const { phone, firefox } = await prepare(version)

    await phone.edit('r', 'Mine')
    phone.beforePush(() => firefox.wipe('r'))
    const result = await phone.sync()

    expect(result.ok).toBe(false)
    expect(result.conflicts).toMatchObject([{ local: { id: 'r', title: 'Mine' }, remote: null }])
    expect(await phone.pending()).toEqual(['r'])
  })

  it.each([
    ['client_wins', 'brings the record back', { other: 'Other', r: 'Mine' }],
    ['server_wins', 'deletes it here as well', { other: 'Other' }],
  ] as const)('%s: %s', async (strategy, _, titles) => {
    const { phone, firefox } = await prepare(version)

    await phone.edit('r', 'Mine')
    phone.beforePush(() => firefox.wipe('r'))
    const result = await phone.sync(strategy)

    expect(result.ok).toBe(true)
    expect(firefox.titles()).toEqual(titles)
    expect(await phone.titles()).toEqual(firefox.titles())
  })
})

const prepare = (version: KintoVersion) => world.synced({ other: 'Other', r: 'Old' }, version)
