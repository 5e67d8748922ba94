import { describe, expect, it } from 'bun:test'
import type { ClearRecord } from '../../src/client/crypto.ts'
import { decryptRecords } from '../../src/client/decrypt-records.ts'
import { fillSampleData, seedSampleData } from '../../src/sandbox/sample-data.ts'
import { keyPairOf } from '../examples/records.ts'
import { startSandbox } from '../support/sandbox.ts'
import { beginning } from './sync-client.ts'

const engines = { bookmarks: 2, history: 1, tabs: 1, passwords: 1, forms: 1, prefs: 2, clients: 1 }
const names = Object.keys(engines)
const sandbox = await startSandbox({ clock: () => beginning })
const user = sandbox.addUser('ann')
fillSampleData(sandbox, user)
const stored = (collection: string) => sandbox.records(user, collection)

/** The decryptable records of a collection, decrypted. */
async function read(collection: string): Promise<ClearRecord[]> {
  const keyPair = await keyPairOf(sandbox, user, collection)
  return (await decryptRecords(keyPair, stored(collection))).readable
}

function childrenOf(folder: ClearRecord | undefined): string[] {
  return (folder?.['children'] ?? []) as string[]
}

/** All times in a record, in milliseconds. */
function timesIn(record: Record<string, unknown>): number[] {
  const { dateAdded, timeCreated, timeLastUsed, timePasswordChanged } = record
  const visits = (record['visits'] ?? []) as { date: number }[]
  const tabs = (record['tabs'] ?? []) as { lastUsed: number }[]
  const times = [dateAdded, timeCreated, timeLastUsed, timePasswordChanged] as (number | undefined)[]
  return [
    ...times.filter((time) => time !== undefined),
    ...visits.map(({ date }) => date / 1000),
    ...tabs.map(({ lastUsed }) => lastUsed * 1000),
  ]
}

describe('fillSampleData', () => {
  it('fills the usual collections, and names engines and versions of a current Firefox', () => {
    const counts = names.map((name) => [name, stored(name).length])
    const [global] = stored('meta')

    const { storageVersion, engines: told } = JSON.parse(global!.payload) as {
      storageVersion: number
      engines: Record<string, { version: number; syncID: string }>
    }

    expect(Object.fromEntries(counts)).toEqual({
      bookmarks: 300,
      history: 3000,
      tabs: 3,
      passwords: 4,
      forms: 8,
      prefs: 1,
      clients: 3,
    })
    const versions = Object.entries(told).map(([name, { version }]) => [name, version])
    expect([storageVersion, Object.fromEntries(versions)]).toEqual([5, engines])
  })

  it.each(names)('encrypts %s so that each clear record has the id it is stored under', async (name) => {
    const records = stored(name)

    expect((await read(name)).map(({ id }) => id)).toEqual(records.map(({ id }) => id))
    expect(new Set(records.map(({ payload }) => JSON.parse(payload).IV)).size).toBe(records.length)
    expect(records.every(({ id }) => /^[ -~]{1,64}$/.test(id))).toBe(true)
    expect(records.every(({ sortindex }) => (sortindex !== null) === /bookmarks|history/.test(name))).toBe(
      true,
    )
  })

  it('has no time after its upload', async () => {
    const uploads: { clear: ClearRecord; modified: number }[] = []
    for (const name of names) {
      const modified = new Map(stored(name).map((record) => [record.id, record.modified]))
      for (const clear of await read(name)) uploads.push({ clear, modified: modified.get(clear.id) ?? 0 })
    }
    const late = uploads.filter(({ clear, modified }) => timesIn(clear).some((time) => time > modified))

    expect(uploads.flatMap(({ clear }) => timesIn(clear)).length).toBeGreaterThan(3300)
    expect(late).toEqual([])
  })

  it('has one record for each page, tabs for each client, and ids like Firefox', async () => {
    const addresses = (await read('history')).map(({ histUri }) => histUri)
    const clients = (await read('clients')).map(({ id, name }) => [id, name])
    const forms = stored('forms').map(({ id }) => id)

    expect(new Set(addresses).size).toBe(addresses.length)
    expect((await read('tabs')).map(({ id, clientName }) => [id, clientName])).toEqual(clients)
    expect(forms.every((id) => /^[A-Za-z0-9+/]{16}$/.test(id))).toBe(true)
    expect(forms.filter((id) => id.includes('/')).length).toBeGreaterThan(1)
    expect(stored('prefs')).toMatchObject([{ id: 'e2VjODAzMGY3LWMyMGEtNDY0Zi05YjBlLTEzYTNhOWU5NzM4NH0=' }])
    expect((await read('passwords')).every(({ id }) => /^\{[0-9a-f-]{36}\}$/.test(id))).toBe(true)
  })

  it('is the same each time for the same user, except for undecryptable records, if requested', async () => {
    await using other = await startSandbox({ clock: () => beginning })
    const again = other.addUser('ann')

    fillSampleData(other, again, { unreadable: ['forms'] })
    const forms = other.records(again, 'forms')
    const others = names.filter((name) => name !== 'forms').map((name) => other.records(again, name))

    expect(others).toEqual(names.filter((name) => name !== 'forms').map(stored))
    const { unreadable } = await decryptRecords(await keyPairOf(other, again, 'forms'), forms)
    expect(unreadable).toMatchObject([{ reason: 'It was encrypted with another key, or tampered with' }])
  })
})

describe('seedSampleData', () => {
  it('adds records that the same keys decrypt, with bookmarks in a folder that lists them', async () => {
    const sizes = () => Promise.all(names.map(async (name) => (await read(name)).length))
    const before = await sizes()

    for (const name of [...names, 'scratch', 'constructor']) seedSampleData(sandbox, user, name, 3)

    const bookmarks = await read('bookmarks')
    const folder = bookmarks.find(({ title }) => title === 'Seeded')!
    const inside = bookmarks.filter(({ parentid }) => parentid === folder.id)
    const others = [...(await read('scratch')), ...(await read('constructor'))]
    expect(await sizes()).toEqual(before.map((count) => count + 3))
    expect(childrenOf(folder).toSorted()).toEqual(inside.map(({ id }) => id))
    const three = ['Record 1', 'Record 2', 'Record 3']
    expect(others.map(({ title }) => title).toSorted()).toEqual([...three, ...three].toSorted())
  })

  it('starts with an account that has only its keys', () => {
    const empty = sandbox.addUser('empty')

    fillSampleData(sandbox, empty, { isEmpty: true })

    const filled = [...names, 'crypto', 'meta'].filter((name) => sandbox.records(empty, name).length > 0)
    expect(filled).toEqual(['crypto', 'meta'])
  })
})
