import { describe, expect, it } from 'bun:test'
import { decryptRecords, type ClearRecord } from '../../src/client/crypto.ts'
import { fillSampleData, seedSampleData } from '../../src/sandbox/sample-data.ts'
import { keyPairOf, readableOf } from '../support/records.ts'
import { startSandbox } from '../support/sandbox.ts'
import { beginning } from './sync-client.ts'

const names = ['bookmarks', 'history', 'tabs', 'passwords', 'forms', 'prefs', 'clients']
const sandbox = await startSandbox({ clock: () => beginning })
const user = sandbox.addUser('ann')
fillSampleData(sandbox, user)
const stored = (collection: string) => sandbox.records(user, collection)

const read = (collection: string) => readableOf(sandbox, user, collection)

function childrenOf(folder: ClearRecord | undefined): string[] {
  return (folder?.['children'] ?? []) as string[]
}

// That a Firefox keeps all of it is tested in tests/firefox.
// Whole sandboxes, because their users and records do not exist without their servers.
describe('fillSampleData', () => {
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
