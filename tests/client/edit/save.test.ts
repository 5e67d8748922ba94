import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import type { ClearRecord } from '../../../src/client/crypto.ts'
import { isReadable } from '../../../src/client/collection.ts'
import type { Edit } from '../../../src/client/edit/edit.ts'
import type { Saved } from '../../../src/client/edit/saved.ts'
import { readTree } from '../../../src/client/edit/tree.ts'
import type { ClientError } from '../../../src/client/errors.ts'
import { SyncClient } from '../../../src/client/sync-client.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { accountAt, all, replaceKeys, upload } from '../world.ts'
import { complaints, shapeOf } from './trees.ts'
import { clearBookmark, clearFolder } from '../records.ts'

let bridge: TestBridge
let client: SyncClient
beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['bookmarks', 'passwords', 'history'] })
  client = new SyncClient(accountAt(bridge))
  await replaceKeys(bridge)
})
afterAll(() => bridge.stop())

const root = (id: string, ...children: string[]) => clearFolder(id, 'places', children)
const folder = (id: string, parentid: string, ...children: string[]) =>
  clearFolder(id, parentid, children, { title: `Folder ${id}` })
const link = (id: string, parentid: string, more: object = {}) =>
  clearBookmark(id, parentid, { title: `Title ${id}`, ...more })

/** A user with a small tree, and a client. */
async function newAccount() {
  const user = bridge.sandbox.addUser(`user ${crypto.randomUUID()}`)
  const own = new SyncClient(accountAt(bridge, user))
  const world = { sandbox: bridge.sandbox, user }
  await replaceKeys(world, [randomBytes(32), randomBytes(32)])
  const records = () => all(own.collection('bookmarks').records())
  await upload(
    world,
    'bookmarks',
    root('menu', 'f', 'a'),
    root('toolbar', 'c'),
    root('unfiled'),
    root('mobile'),
    folder('f', 'menu', 'b', 'g'),
    folder('g', 'f', 'd'),
    link('a', 'menu'),
    link('b', 'f', { tags: ['one'] }),
    link('c', 'toolbar'),
    link('d', 'g'),
  )
  return {
    user,
    client: own,
    records,
    shape: async () => shapeOf(readTree(await records())),
    clear: async (id: string) => (await records()).find(({ stored }) => stored.id === id)?.clear,
    /** Writes like Firefox. */
    write: (...clear: Parameters<typeof upload>[2][]) => upload(world, 'bookmarks', ...clear),
    /** A client before whose first writes something happens. */
    racing(happen: (attempt: number) => Promise<unknown>) {
      let attempt = 0
      return new SyncClient(accountAt(bridge, user), {
        async fetch(address, init) {
          if (address.endsWith('/batch')) await happen((attempt += 1))
          return fetch(address, init)
        },
      })
    },
  }
}

const edits: Edit[] = [
  { op: 'change', id: 'a', fields: { title: 'New', tags: ['x'] } },
  { op: 'move', id: 'b', folder: 'toolbar', after: null },
  { op: 'add', id: 'h', kind: 'folder', title: 'H', folder: 'menu', after: 'a' },
  { op: 'add', id: 'e', address: 'https://b.example', title: 'E', folder: 'h' },
  { op: 'remove', id: 'g' },
]

describe('save', () => {
  it('writes what the edits want, and returns what undoes it', async () => {
    const account = await newAccount()
    const before = await account.shape()

    const { problems, written, saved } = await account.client.edit(edits)
    const after = await account.records()
    const undone = await account.client.undo(saved!)

    expect([problems, written, complaints(after)]).toEqual([[], 9, []])
    expect(shapeOf(readTree(after))).toBe(
      [
        'menu|folder|Bookmarks Menu|||',
        '  f|folder|Folder f|||',
        '  a|bookmark|New|https://a.example/|x|',
        '  h|folder|H|||',
        '    e|bookmark|E|https://b.example/|one|',
        'toolbar|folder|Bookmarks Toolbar|||',
        '  b|bookmark|Title b|https://b.example/|one|',
        '  c|bookmark|Title c|https://c.example/||',
        'unfiled|folder|Other Bookmarks|||',
        'mobile|folder|Mobile Bookmarks|||',
      ].join('\n'),
    )
    expect(after.find(({ stored }) => stored.id === 'd')!.clear).toEqual({ id: 'd', deleted: true })
    expect([undone.problems, await account.shape()]).toEqual([[], before])
    expect(complaints(await account.records())).toEqual([])
    expect(await account.clear('d')).toEqual(link('d', 'g'))
  })

  it('applies the edits again to what another device has written meanwhile', async () => {
    const account = await newAccount()
    const racing = account.racing(async (attempt) => {
      if (attempt === 1)
        await account.write(root('toolbar', 'c', 'z'), link('z', 'toolbar', { bmkUri: 'https://b.example/' }))
      if (attempt === 2) await account.write({ ...link('a', 'menu'), keyword: 'k' })
    })

    const { problems } = await racing.edit(edits)

    const records = await account.records()
    expect([problems, complaints(records)]).toEqual([[], []])
    expect(await account.clear('toolbar')).toMatchObject({ children: ['b', 'c', 'z'] })
    expect(await account.clear('a')).toMatchObject({ title: 'New', tags: ['x'], keyword: 'k' })
    // A written bookmark has what the others of its address have: Firefox would take it from them.
    expect(await account.clear('z')).toMatchObject({ tags: ['one'] })
  })

  it('names what another device has changed itself, and writes the rest', async () => {
    const account = await newAccount()
    const racing = account.racing(async (attempt) => {
      if (attempt > 1) return
      await account.write(
        { ...link('a', 'menu'), title: 'Theirs' },
        folder('g', 'f', 'd', 'new'),
        link('new', 'g'),
      )
    })

    const { problems, saved } = await racing.edit(edits)

    expect(problems.map(({ code, id, message }) => [code, id, message])).toEqual([
      ['changed', 'a', 'The title of "Theirs" was changed by another device meanwhile: it stays'],
      ['kept', 'new', '"Title new" was added by another device meanwhile: it stays'],
    ])
    expect(await account.clear('a')).toMatchObject({ title: 'Theirs', tags: ['x'] })
    expect(await account.clear('g')).toMatchObject({ children: ['new'] })
    expect(saved!.after.map(({ id }) => id).toSorted()).toEqual([
      'a',
      'b',
      'd',
      'e',
      'f',
      'g',
      'h',
      'menu',
      'toolbar',
    ])
    expect(complaints(await account.records())).toEqual([])
  })

  it('gives up after five attempts, and says so', async () => {
    const account = await newAccount()
    let count = 0
    const racing = account.racing((attempt) => {
      count = attempt
      return account.write({ ...link('a', 'menu'), keyword: `k${attempt}` })
    })

    const error = await racing.edit([edits[0]!]).catch(({ message }: ClientError) => message)

    expect(count).toBe(5)
    expect(error).toBe(
      'Nothing was written: other devices changed the same records 5 times meanwhile. Run it again',
    )
    expect(await account.clear('a')).toMatchObject({ title: 'Title a' })
  })

  it('looks at what was written when the response is lost', async () => {
    const account = await newAccount()
    let count = 0
    const losing = new SyncClient(accountAt(bridge, account.user), {
      async fetch(address, init) {
        const answer = await fetch(address, init)
        if (!address.endsWith('/batch') || count++ > 0) return answer
        await answer.body?.cancel()
        throw new Error('connection lost')
      },
    })

    const { problems, saved } = await losing.edit(edits)

    expect([count, problems, saved!.after.length]).toEqual([1, [], 9])
    expect(complaints(await account.records())).toEqual([])
    expect(await account.clear('e')).toMatchObject({ parentid: 'h' })
  })

  it('writes nothing that Firefox would not accept, and nothing for a bridge that does not allow it', async () => {
    const account = await newAccount()
    await using readonly = await startTestBridge()
    await replaceKeys(readonly)
    const before = await account.shape()
    const message = (given: Edit[]) =>
      account.client.edit(given).then(String, (error: ClientError) => error.message)

    const invalid = await message([
      { op: 'add', address: 'example.org' },
      { op: 'add', address: 'https://x.example', tags: [' '] },
      { op: 'move', id: 'f', folder: 'g' },
      { op: 'remove', id: 'menu' },
      { op: 'change', id: 'f', fields: { address: 'https://x.example' } },
      { op: 'move', id: 'a', folder: 'b' },
    ])
    const refused = new SyncClient(accountAt(readonly)).edit([{ op: 'add', address: 'https://x.example' }])

    expect(invalid.split('\n')).toEqual([
      'Cannot add "example.org": "example.org" is no address: it must begin with https:// or similar, without spaces in its host',
      'Cannot add "https://x.example": the tag "" is invalid: Firefox ignores blank tags, and those of more than 100 characters',
      'Cannot move "Folder f" into "Folder g", which is in it',
      'Cannot remove "Bookmarks Menu": it is a root folder',
      'Cannot change "Folder f": a folder has no address, tags or keyword',
      'Cannot put "Title a" into "Title b": it is no folder',
    ])
    await expect(refused).rejects.toThrow(
      'Nothing was written: writes to bookmarks are not enabled on this bridge',
    )
    expect(await account.shape()).toBe(before)
  })

  it('splits additions and moves that do not fit into one transaction, and refuses the rest beforehand', async () => {
    await using small = await startTestBridge({
      writable: ['bookmarks'],
      settings: { batch_max_requests: '12' },
    })
    const own = new SyncClient(accountAt(small))
    await replaceKeys(small)
    await upload(small, 'bookmarks', root('unfiled'), root('menu'))
    const ids = Array.from({ length: 40 }, (_, index) => `n${index}`)

    const added = await own.edit([
      { op: 'add', id: 'in', kind: 'folder', title: 'In' },
      ...ids.map((id): Edit => ({ op: 'add', id, address: `https://${id}.example/`, folder: 'in' })),
    ])
    const removing = await own.edit([{ op: 'remove', id: 'in' }]).catch(({ message }: ClientError) => message)
    const reason =
      'Nothing was written: this takes 42 requests in one transaction, and the bridge allows 12 (service.batch_max_requests). Change fewer items at once'
    expect(removing).toBe(reason)

    const records = await all(own.collection('bookmarks').records())
    expect(complaints(records)).toEqual([])
    expect(readTree(records).items.get('in')!.children).toEqual(ids)
    expect(added.written).toBeGreaterThan(41)

    // What was written in parts is taken back in parts, each of which leaves a valid tree.
    const torn: string[] = []
    let transactions = 0
    const undone = await own.undo(added.saved!, {
      async onWrite() {
        transactions += 1
        torn.push(...complaints(await all(own.collection('bookmarks').records())))
      },
    })
    expect([undone.problems, torn, transactions]).toEqual([[], [], 4])
    expect(readTree(await all(own.collection('bookmarks').records())).items.get('unfiled')!.children).toEqual(
      [],
    )
  })

  it('writes in parts what the storage does not take at once, or says so', async () => {
    await using small = await startTestBridge({
      writable: ['bookmarks'],
      settings: { batch_max_requests: '100' },
      sandbox: { limits: { max_total_records: 15, max_post_records: 15 } },
    })
    const own = new SyncClient(accountAt(small))
    await replaceKeys(small)
    await upload(small, 'bookmarks', root('unfiled'), root('menu'))
    const ids = Array.from({ length: 40 }, (_, index) => `n${index}`)

    const added = await own.edit(
      ids.map((id): Edit => ({ op: 'add', id, address: `https://${id}.example/` })),
    )
    const removal = own.remove('bookmarks', ids)
    await expect(removal).rejects.toMatchObject({
      message:
        'Nothing was written: the storage does not take 41 records at once. Change fewer items at once',
      mayBeApplied: false,
    })
    const kept = readTree(await all(own.collection('bookmarks').records())).items.get('unfiled')!.children
    await own.undo(added.saved!)

    expect(kept).toEqual(ids)
    expect(readTree(await all(own.collection('bookmarks').records())).items.get('unfiled')!.children).toEqual(
      [],
    )
  })

  it('adds, changes and deletes other records', async () => {
    const user = bridge.sandbox.addUser(`user ${crypto.randomUUID()}`)
    const own = new SyncClient(accountAt(bridge, user))
    const world = { sandbox: bridge.sandbox, user }
    await replaceKeys(world)
    const login = { id: '{1}', hostname: 'https://x.example', username: 'u', password: 'p' }
    await upload(world, 'passwords', login, { ...login, id: '{2}' })
    const passwords = async () =>
      (await all(own.collection('passwords').records())).filter(isReadable).map(({ clear }) => clear)

    const change = await own.edit([{ op: 'change', id: '{1}', fields: { username: 'new' } }], {
      collection: 'passwords',
    })
    const removal = await own.remove('passwords', ['{2}', 'none'])
    const changed = await passwords()
    const page = { histUri: 'https://x.example/', title: 't', visits: [] }
    const { written, problems } = await own.edit([{ op: 'add', record: page }], { collection: 'history' })
    const added = await all(own.collection('history').records())
    await upload(world, 'passwords', { ...login, username: 'new', password: 'theirs' })
    const undone = [await own.undo(removal.saved!), await own.undo(change.saved!)]

    expect(changed).toEqual([{ ...login, username: 'new' }])
    expect([written, problems]).toEqual([1, []])
    expect(added.map(({ clear }) => clear)).toEqual([{ ...page, id: expect.stringMatching(/^[\w-]{12}$/) }])
    expect(undone.map(({ problems }) => problems)).toEqual([[], []])
    expect(await passwords()).toEqual(
      expect.arrayContaining([
        { ...login, password: 'theirs' },
        { ...login, id: '{2}' },
      ]),
    )
  })
})

describe('undo', () => {
  it('puts back exactly what was there, also what Firefox would not take, and all else with it', async () => {
    const account = await newAccount()
    const odd: ClearRecord[] = [
      link('none', 'f', { bmkUri: '', tags: ['t'], keyword: 'k' }),
      link('bad', 'f', { bmkUri: 'http://[bad', title: '', tags: [] }),
      link('query', 'f', { bmkUri: 'place:sort=1' }),
      link('bare', 'f', { tags: undefined, keyword: null, title: null }),
      link('long', 'f', { bmkUri: 'HTTPS://long.example', title: 't'.repeat(5000), keyword: 'K' }),
      link('same', 'f', { tags: [' One', 'one', 'g'.repeat(101), ''], bmkUri: 'https://same.example/' }),
      link('other', 'f', { tags: ['else'], bmkUri: 'https://same.example' }),
    ]
    const ids = odd.map(({ id }) => id)
    await account.write(folder('f', 'menu', ...ids, 'b', 'g'), ...odd)
    const before = await Promise.all(ids.map(account.clear))
    const changed: Edit[] = ids.map((id) => {
      const address = `https://${id}.example/${id === 'query' ? '' : 'new'}`
      return { op: 'change', id, fields: { title: 'New', address, tags: ['new'], keyword: id } }
    })
    const fit: Edit[] = [
      ...changed.filter(({ id }) => id !== 'query'),
      { op: 'move', id: 'bare', folder: 'toolbar' },
    ]

    const outcomes = []
    for (const some of [ids.map((id): Edit => ({ op: 'remove', id })), fit]) {
      const { saved } = await account.client.edit([
        ...some,
        { op: 'change', id: 'a', fields: { title: 'A' } },
      ])
      const { problems } = await account.client.undo(saved!)
      outcomes.push([problems, (await account.clear('a'))!.title])
      expect(await Promise.all(ids.map(account.clear))).toEqual(before)
    }

    expect(outcomes).toEqual([
      [[], 'Title a'],
      [[], 'Title a'],
    ])
  })

  it('takes a keyword from no bookmark that had it before', async () => {
    const account = await newAccount()
    const twice = ['k1', 'k2'].map((id) => link(id, 'f', { bmkUri: `https://${id}.example/`, keyword: 'k' }))
    await account.write(folder('f', 'menu', 'k1', 'k2', 'b', 'g'), ...twice)
    const removed = await account.client.remove('bookmarks', ['k1'])
    const { problems } = await account.client.undo(removed.saved!)
    const changed = await account.client.edit([{ op: 'change', id: 'k1', fields: { keyword: '' } }])
    const renamed = await account.client.edit([{ op: 'change', id: 'k1', fields: { title: 'New' } }])
    await account.client.undo(renamed.saved!)

    const again = await account.client.undo(changed.saved!)

    expect([...problems, ...again.problems]).toEqual([])
    expect([await account.clear('k1'), await account.clear('k2')]).toMatchObject([
      { keyword: 'k' },
      { keyword: 'k' },
    ])
  })

  it('names what cannot be put back, and puts back the rest', async () => {
    const account = await newAccount()
    const { saved } = await account.client.edit([
      { op: 'remove', id: 'b' },
      { op: 'change', id: 'a', fields: { title: 'New' } },
    ])
    // A folder can't become a bookmark in Firefox, but other programs write this.
    await account.write(link('f', 'menu'))

    const { problems } = await account.client.undo(saved!)

    expect(problems.map(({ message }) => message)).toEqual([
      'Cannot put "Title b" into "Title f": it is no folder',
    ])
    expect(await account.clear('a')).toMatchObject({ title: 'Title a' })
    expect(await account.clear('b')).toMatchObject({ deleted: true })
  })

  it('keeps what was changed since, and says so', async () => {
    const account = await newAccount()
    const { saved } = await account.client.edit(edits)
    await account.write({ ...(await account.clear('a'))!, id: 'a', title: 'Later' })

    const { problems } = await account.client.undo(saved!)

    expect(problems.map(({ message }) => message)).toEqual([
      'The title of "Later" was changed by another device meanwhile: it stays',
    ])
    expect(await account.clear('a')).toMatchObject({ title: 'Later', tags: [] })
    expect(await account.clear('d')).toMatchObject({ title: 'Title d' })
  })

  it('leaves a new folder in which another device has put something, and says so', async () => {
    const account = await newAccount()
    const { saved } = await account.client.edit([
      { op: 'add', id: 'h', kind: 'folder', title: 'H', folder: 'menu' },
      { op: 'add', id: 'e', address: 'https://e.example', title: 'E', folder: 'h' },
    ])
    await account.write({ ...(await account.clear('h'))!, id: 'h', children: ['e', 'x'] }, link('x', 'h'))

    const { problems } = await account.client.undo(saved!)

    expect(problems.map(({ message }) => message)).toEqual([
      '"Title x" was added by another device meanwhile: it stays',
    ])
    expect([(await account.clear('h'))!.children, (await account.clear('e'))!.deleted]).toEqual([['x'], true])
  })

  it('leaves a keyword to what has come to its address since, and says so', async () => {
    const account = await newAccount()
    await account.client.edit([{ op: 'change', id: 'a', fields: { keyword: 'k' } }])
    const { saved } = await account.client.edit([
      { op: 'change', id: 'a', fields: { address: 'https://new.example/' } },
    ])
    await account.client.edit([{ op: 'add', id: 'n', address: 'https://new.example/', tags: ['t'] }])

    const { problems } = await account.client.undo(saved!)

    expect(problems.map(({ message }) => message)).toEqual([
      '"Title a" does not get its keyword "k" back, which another address has',
    ])
    const [a, n] = [await account.clear('a'), await account.clear('n')]
    expect([a!.bmkUri, a!.keyword, n!.keyword]).toEqual(['https://a.example/', undefined, 'k'])
  })

  it('works with new keys, and refuses what belongs to another account', async () => {
    const account = await newAccount()
    const before = await account.shape()
    const { saved } = await account.client.edit(edits)
    const records = (await account.records()).flatMap(({ clear }) => clear ?? [])
    await replaceKeys({ sandbox: bridge.sandbox, user: account.user })
    account.client.forgetKeys()
    // Firefox uploads everything again.
    const again = await Promise.all(
      records.map(async (clear) => ({
        id: clear.id,
        payload: await account.client.encrypt('bookmarks', clear),
      })),
    )
    bridge.sandbox.write(account.user, 'bookmarks', again)

    const copied: Saved = JSON.parse(JSON.stringify(saved))
    const { problems } = await account.client.undo(copied)
    const foreign = await client.undo(saved!).catch(({ message }: ClientError) => message)

    expect([problems, await account.shape()]).toEqual([[], before])
    expect(foreign).toBe('Cannot undo this: it was saved for another account, or before a password reset')
  })
})
