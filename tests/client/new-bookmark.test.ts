import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { bookmarkTree, foldersNamed, walk } from '../../src/client/bookmarks.ts'
import { isReadable } from '../../src/client/collection.ts'
import type { ClientError } from '../../src/client/errors.ts'
import { addBookmark, checkUrl, type NewBookmark } from '../../src/client/new-bookmark.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { accountAt, all, upload } from './world.ts'

const url = 'https://added.example/'
let bridge: TestBridge
let client: SyncClient
beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['bookmarks'] })
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 20, history: 1 })
  client = new SyncClient(accountAt(bridge))
})
afterAll(() => bridge.stop())

const tree = async () =>
  bookmarkTree((await all(client.collection('bookmarks').records())).filter(isReadable))
const error = (bookmark: NewBookmark) =>
  addBookmark(client, bookmark).catch(({ message }: ClientError) => message)

describe('addBookmark', () => {
  it('adds it to the end of its folder, with the fields that Firefox writes', async () => {
    const before = Date.now()

    const added = await addBookmark(client, { url, title: 'Added', folder: 'toolbar', tags: ['a', 'b'] })

    const [toolbar] = foldersNamed(await tree(), 'toolbar')
    const child = toolbar!.children.at(-1)!.record.clear
    expect(added).toEqual({ id: expect.stringMatching(/^[\w-]{12}$/), folder: 'toolbar', isUnlisted: false })
    expect(child).toEqual({
      id: added.id,
      type: 'bookmark',
      title: 'Added',
      bmkUri: url,
      parentid: 'toolbar',
      parentName: String(toolbar!.record.clear.title),
      dateAdded: expect.any(Number),
      tags: ['a', 'b'],
    })
    expect(Number(child.dateAdded)).toBeWithin(before - 2000, Date.now())
    expect((toolbar!.record.clear.children as string[]).at(-1)).toBe(added.id)
  })

  it('uses Other Bookmarks, and the URL as the title, by default', async () => {
    const { id, folder } = await addBookmark(client, { url: ` ${url}\n` })

    const node = walk(await tree()).find(({ record }) => record.stored.id === id)!
    expect([folder, node.title, node.parent!.record.stored.id]).toEqual(['unfiled', url, 'unfiled'])
    expect(node.record.clear.bmkUri).toBe(url)
  })

  it('keeps the tags and the keyword of the address, and gives new tags to its other bookmarks', async () => {
    const [one, two] = [
      { id: 'same00000001', type: 'bookmark', title: 'One', bmkUri: 'https://same.example/', tags: ['kept'] },
      { id: 'same00000002', type: 'bookmark', title: 'Two', bmkUri: 'https://same.example/', keyword: 'k' },
    ]
    const other = { id: 'same00000003', type: 'bookmark', bmkUri: 'https://same.example/other', tags: [] }
    await upload(bridge, 'bookmarks', one, two, other)

    const { id } = await addBookmark(client, { url: 'HTTPS://Same.example', tags: ['new', 'kept'] })
    const again = await addBookmark(client, { url: 'https://same.example/' })

    const records = await all(client.collection('bookmarks').records())
    const clear = new Map(records.map((record) => [record.stored.id, record.clear]))
    const shared = { tags: ['kept', 'new'], keyword: 'k' }
    expect(clear.get(id)).toMatchObject({ bmkUri: 'https://same.example/', ...shared })
    expect(clear.get(again.id)).toMatchObject(shared)
    expect(clear.get(one.id)).toEqual({ ...one, ...shared })
    expect(clear.get(two.id)).toEqual({ ...two, ...shared })
    expect(clear.get(other.id)).toEqual(other)
  })

  it('gives a new tag to more bookmarks than the bridge takes at once', async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `many${String(index).padStart(8, '0')}`)
    const many = ids.map((id) => ({ id, type: 'bookmark', bmkUri: 'https://many.example/', tags: [] }))
    await upload(bridge, 'bookmarks', ...many)

    const { id } = await addBookmark(client, { url: 'https://many.example/', tags: ['new'] })

    const records = await all(client.collection('bookmarks').records())
    const tagged = records.filter(({ clear }) => clear!.bmkUri === many[0]!.bmkUri)
    expect(tagged.map(({ clear }) => clear!.tags)).toEqual(Array.from({ length: 61 }, () => ['new']))
    expect(tagged.map(({ stored }) => stored.id)).toContain(id)
  })

  it('trims tags, and keeps the spelling of those that the address has', async () => {
    const old = { id: 'case00000001', type: 'bookmark', bmkUri: 'https://case.example/', tags: ['Äpfel'] }
    await upload(bridge, 'bookmarks', old)

    const tags = ['äPFEL', ' New\t', 'new']
    const { id } = await addBookmark(client, { url: 'https://case.example/', tags })

    const records = await all(client.collection('bookmarks').records())
    const found = records.filter(({ stored }) => [old.id, id].includes(stored.id))
    expect(found.map(({ clear }) => clear!.tags)).toEqual([
      ['Äpfel', 'New'],
      ['Äpfel', 'New'],
    ])
  })

  it('rejects tags and addresses that Firefox would ignore, and writes nothing', async () => {
    const before = bridge.sandbox.records(bridge.user, 'bookmarks')

    const blank = await error({ url, tags: ['a', ' \n'] })
    const long = await error({ url, tags: ['x'.repeat(101)] })
    const encoded = await error({ url: `https://x.example/${'ä'.repeat(10_950)}` })

    const reason = 'Firefox ignores blank tags, and those of more than 100 characters'
    expect(blank).toBe(`Cannot add the tag "": ${reason}`)
    expect(long).toBe(`Cannot add the tag "${'x'.repeat(101)}": ${reason}`)
    expect(encoded).toBe('Cannot add an address of 65718 characters: Firefox keeps 65536')
    expect(bridge.sandbox.records(bridge.user, 'bookmarks')).toEqual(before)
    checkUrl(`https://x.example/${'ä'.repeat(10_900)}`)
    await addBookmark(client, { url, tags: [`${'x'.repeat(100)} `] })
  })

  it('reports that a folder has changed meanwhile, and that writes are not enabled', async () => {
    let isFirst = true
    const racing = new SyncClient(accountAt(bridge), {
      async fetch(address, init) {
        if (address.endsWith('/batch') && isFirst) {
          isFirst = false
          const [menu] = foldersNamed(await tree(), 'menu')
          await upload(bridge, 'bookmarks', menu!.record.clear)
        }
        return fetch(address, init)
      },
    })
    await using readonly = await startTestBridge()
    fillSampleData(readonly.sandbox, readonly.user, { bookmarks: 20, history: 1 })

    const { isUnlisted } = await addBookmark(racing, { url, folder: 'menu' })
    const refused = addBookmark(new SyncClient(accountAt(readonly)), { url })

    expect(isUnlisted).toBe(true)
    await expect(refused).rejects.toThrow('405')
  })

  it('recognizes that the same request was applied before it was repeated', async () => {
    let count = 0
    const busy = new SyncClient(accountAt(bridge), {
      async fetch(address, init) {
        const answer = await fetch(address, init)
        if (!address.endsWith('/batch') || count++ > 0) return answer
        await answer.body?.cancel()
        return new Response(null, { status: 503, headers: { 'Retry-After': '0' } })
      },
    })

    const added = await addBookmark(busy, { url: 'https://again.example/', folder: 'toolbar' })

    const found = walk(await tree()).filter(({ record }) => record.clear.bmkUri === 'https://again.example/')
    expect(count).toBe(2)
    expect(found.map(({ record }) => record.stored.id)).toEqual([added.id])
    expect(added.isUnlisted).toBe(false)
  })
})
