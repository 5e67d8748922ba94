import { describe, expect, it } from 'bun:test'
import { decryptPayload, toKeyBundle, type KeyBundle } from '../../src/sandbox/crypto.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
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
      tabs: 2,
      passwords: 4,
      forms: 5,
      prefs: 1,
      clients: 2,
    })
  })

  it('leaves meta/global readable', () => {
    const [global] = sandbox.records(user, 'meta')

    expect(JSON.parse(global?.payload ?? '')).toMatchObject({
      storageVersion: 5,
      engines: Object.fromEntries(names.map((name) => [name, { syncID: expect.any(String) }])),
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
