import { describe, expect, it } from 'bun:test'
import { toKeyBundle, type KeyBundle } from '../../src/sandbox/crypto.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startSandbox } from '../support/sandbox.ts'
import { decryptPayload } from './decrypt.ts'
import { beginning } from './sync-client.ts'

type Clear = Record<string, unknown> & { id: string }

const sandbox = await startSandbox({ clock: () => beginning })
const user = sandbox.addUser('ann')
fillSampleData(sandbox, user)
const keys = readKeys()
const read = (collection: string) =>
  sandbox.records(user, collection).map(({ payload }) => decryptPayload(keys, payload) as Clear)
const names = ['bookmarks', 'history', 'tabs', 'passwords', 'forms', 'prefs', 'clients']

function childrenOf(folder: Clear | undefined): string[] {
  return (folder?.['children'] ?? []) as string[]
}

/** All times in a record, in milliseconds. */
function timesIn(record: Record<string, unknown>): number[] {
  const { dateAdded, timeCreated, timeLastUsed, timePasswordChanged } = record
  const visits = (record['visits'] ?? []) as { date: number }[]
  const tabs = (record['tabs'] ?? []) as { lastUsed: number }[]
  const times = [dateAdded, timeCreated, timeLastUsed, timePasswordChanged].filter(
    (time) => time !== undefined,
  )
  return [
    ...(times as number[]),
    ...visits.map(({ date }) => date / 1000),
    ...tabs.map(({ lastUsed }) => lastUsed * 1000),
  ]
}

function opens(payload: string): boolean {
  try {
    decryptPayload(keys, payload)
    return true
  } catch {
    return false
  }
}

function readKeys(): KeyBundle {
  const [record] = sandbox.records(user, 'crypto')
  const clear = decryptPayload(toKeyBundle(user.syncKey), record?.payload ?? '') as {
    default: [string, string]
  }
  return toKeyBundle(Buffer.concat(clear.default.map((key) => Buffer.from(key, 'base64'))))
}

describe('fillSampleData', () => {
  it('fills the usual collections', () => {
    const counts = Object.fromEntries(names.map((name) => [name, sandbox.records(user, name).length]))

    expect(counts).toEqual({
      bookmarks: 300,
      history: 3000,
      tabs: 3,
      passwords: 4,
      forms: 8,
      prefs: 1,
      clients: 3,
    })
  })

  it('leaves meta/global readable', () => {
    const [global] = sandbox.records(user, 'meta')

    expect(JSON.parse(global?.payload ?? '')).toMatchObject({
      storageVersion: 5,
      engines: Object.fromEntries(names.map((name) => [name, { syncID: expect.any(String) }])),
    })
  })

  it('names the versions of engines that a Firefox of today has', () => {
    const [global] = sandbox.records(user, 'meta')
    const { engines } = JSON.parse(global?.payload ?? '') as { engines: Record<string, { version: number }> }

    const versions = Object.entries(engines).map(([name, { version }]) => [name, version])
    expect(Object.fromEntries(versions)).toEqual({
      bookmarks: 2,
      history: 1,
      tabs: 1,
      passwords: 1,
      forms: 1,
      prefs: 2,
      clients: 1,
    })
  })

  it.each(names)('encrypts %s so that each clear record has the id it is stored under', (name) => {
    const stored = sandbox.records(user, name)

    expect(read(name).map(({ id }) => id)).toEqual(stored.map(({ id }) => id))
    expect(new Set(stored.map(({ payload }) => JSON.parse(payload).IV)).size).toBe(stored.length)
    expect(stored.every(({ id }) => /^[ -~]{1,64}$/.test(id))).toBe(true)
  })

  it('gives timestamps of the past, multiples of 10 ms', () => {
    const times = names.flatMap((name) => sandbox.records(user, name).map(({ modified }) => modified))

    expect(
      times.every((time) => time % 10 === 0 && time < beginning && time > beginning - 200 * 86_400_000),
    ).toBe(true)
    expect(new Set(times).size).toBeGreaterThan(40)
  })

  it('sets sortindex where Firefox does', () => {
    const isSet = (name: string) => sandbox.records(user, name).map(({ sortindex }) => sortindex !== null)

    expect([...isSet('bookmarks'), ...isSet('history')].every(Boolean)).toBe(true)
    expect(['tabs', 'passwords', 'forms', 'prefs', 'clients'].flatMap(isSet).some(Boolean)).toBe(false)
  })

  it('makes bookmarks a tree', () => {
    const byId = new Map(read('bookmarks').map((record) => [record.id, record]))
    const folders = [...byId.values()].filter(({ type }) => type === 'folder')

    for (const { id, parentid, parentName } of byId.values()) {
      if (parentid === 'places') continue
      const parent = byId.get(String(parentid))
      expect(parent?.['title']).toBe(parentName)
      expect(childrenOf(parent).filter((child) => child === id)).toEqual([id])
    }
    const roots = folders.filter(({ parentid }) => parentid === 'places').map(({ id }) => id)
    expect(roots.toSorted()).toEqual(['menu', 'mobile', 'toolbar', 'unfiled'])
    expect(folders.flatMap(childrenOf)).toHaveLength(byId.size - roots.length)
    expect(folders.length).toBeGreaterThan(10)
  })

  it('has separators, and the same tags on all bookmarks of one address', () => {
    const bookmarks = read('bookmarks')
    const marked = bookmarks.filter(({ type }) => type === 'bookmark')
    const tagsByUrl = Map.groupBy(marked, ({ bmkUri }) => bmkUri)

    expect(bookmarks.filter(({ type }) => type === 'separator').length).toBeGreaterThan(3)
    expect(marked.filter(({ tags }) => (tags as string[]).length > 1).length).toBeGreaterThan(3)
    expect([...tagsByUrl.values()].some((same) => same.length > 1)).toBe(true)
    for (const same of tagsByUrl.values()) {
      expect(new Set(same.map(({ tags }) => JSON.stringify(tags))).size).toBe(1)
    }
  })

  it('says of nothing that it happened after its upload', () => {
    const uploads = names.flatMap((name) => {
      const modified = new Map(sandbox.records(user, name).map((record) => [record.id, record.modified]))
      return read(name).map((clear) => ({ clear, modified: modified.get(clear.id) ?? 0 }))
    })
    const late = uploads.filter(({ clear, modified }) => timesIn(clear).some((time) => time > modified))

    expect(uploads.flatMap(({ clear }) => timesIn(clear)).length).toBeGreaterThan(3300)
    expect(late).toEqual([])
  })

  it('visits no page in two records', () => {
    const addresses = read('history').map(({ histUri }) => histUri)

    expect(new Set(addresses).size).toBe(addresses.length)
  })

  it('names form entries and preferences as Firefox does', () => {
    const forms = sandbox.records(user, 'forms').map(({ id }) => id)

    expect(forms.every((id) => /^[A-Za-z0-9+/]{16}$/.test(id))).toBe(true)
    expect(forms.filter((id) => id.includes('/')).length).toBeGreaterThan(1)
    expect(sandbox.records(user, 'prefs')).toMatchObject([
      { id: 'e2VjODAzMGY3LWMyMGEtNDY0Zi05YjBlLTEzYTNhOWU5NzM4NH0=' },
    ])
  })

  it('has a record that no key opens only where it is asked for', async () => {
    const other = await startSandbox({ clock: () => beginning })
    const sameUser = other.addUser('ann')

    fillSampleData(other, sameUser, { unreadable: ['history', 'forms'] })
    const unreadable = Object.fromEntries(
      names.map((name) => [
        name,
        other.records(sameUser, name).filter(({ payload }) => !opens(payload)).length,
      ]),
    )
    await other.stop()

    expect(unreadable).toEqual({
      ...Object.fromEntries(names.map((name) => [name, 0])),
      history: 1,
      forms: 1,
    })
  })

  it('is the same each time for the same user', async () => {
    const again = await startSandbox({ clock: () => beginning })
    const sameUser = again.addUser('ann')

    fillSampleData(again, sameUser)
    const records = names.map((name) => again.records(sameUser, name))
    await again.stop()

    expect(records).toEqual(names.map((name) => sandbox.records(user, name)))
  })

  it('has tabs for each client, and passwords under GUIDs', () => {
    const clients = read('clients').map(({ id, name }) => [id, name])

    expect(read('tabs').map(({ id, clientName }) => [id, clientName])).toEqual(clients)
    expect(read('passwords').every(({ id }) => /^\{[0-9a-f-]{36}\}$/.test(id))).toBe(true)
  })
})

describe('decryptPayload', () => {
  it('refuses what was changed or encrypted with other keys', () => {
    const [record] = sandbox.records(user, 'tabs')
    const payload = JSON.parse(record?.payload ?? '') as { ciphertext: string }
    const changed = JSON.stringify({ ...payload, ciphertext: `A${payload.ciphertext.slice(1)}` })

    expect(() => decryptPayload(keys, changed)).toThrow('HMAC')
    expect(() => decryptPayload(toKeyBundle(user.syncKey), record?.payload ?? '')).toThrow('HMAC')
  })
})
