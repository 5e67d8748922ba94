import { afterAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import { mergeChildren } from '../../../src/cli/data/restored-tree.ts'
import { encryptPayload, keysRecord, toKeyBundle } from '../../../src/sandbox/crypto.ts'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { clearBookmark as bookmark, clearFolder as folder } from '../../client/records.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { accountOf, encrypted, readableOf } from '../../support/records.ts'
import { endAll, makeFolder } from '../../support/executable.ts'
import { accountFile, runWith, valuesOf } from './world.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'

// One that runs, because a bridge for each command takes most of the time.
const bridge = await startTestBridge({
  writable: ['bookmarks', 'passwords', 'history', 'forms', 'extension-storage'],
})
const { sandbox } = bridge
afterAll(async () => {
  await bridge.stop()
  endAll()
})

/** A user whose storage has only keys, and a folder with a backup of these records. Commands may start a bridge of their own. */
async function someone(name: string, collection: string, before: ClearRecord[], startsBridge = false) {
  const user = sandbox.addUser(name)
  fillSampleData(sandbox, user, { isEmpty: true })
  const account = accountFile(
    startsBridge ? valuesOf(sandbox, user) : { ...accountOf(user), BRIDGE_URL: bridge.url },
  )
  const folder = join(makeFolder(), 'backups')
  const write = async (...records: ClearRecord[]) => {
    const sealed = records.map((record) => encrypted(sandbox, user, collection, record))
    sandbox.write(user, collection, await Promise.all(sealed))
  }
  const restore = (...options: string[]) =>
    runWith(account, ['restore', folder, collection, '--write', ...options])
  const preview = (...options: string[]) => runWith(account, ['restore', folder, collection, ...options])
  const now = async () => {
    const records = await readableOf(sandbox, user, collection)
    return Object.fromEntries(records.map((record) => [record.id, record]))
  }
  await write(...before)
  await runWith(account, ['backup', folder])
  return { user, write, restore, preview, now }
}

const gone = (id: string) => ({ id, deleted: true })

describe('restore', () => {
  it('gives a bookmark the tags and keyword that its address has now, as Firefox keeps them for the address', async () => {
    const address = { bmkUri: 'https://same.example/' }
    const { write, restore, now } = await someone('tagger', 'bookmarks', [
      folder('menu', 'places', ['old', 'other']),
      bookmark('old', 'menu', { ...address, tags: ['before'], keyword: 'k' }),
      bookmark('other', 'menu', { tags: ['own'] }),
    ])
    const made = bookmark('made', 'menu', { bmkUri: 'HTTPS://same.example', tags: ['now'] })
    await write(folder('menu', 'places', ['made']), gone('old'), gone('other'), made)

    const { code } = await restore()

    const { old, other } = await now()
    expect(code).toBe(0)
    expect([old, old!.keyword]).toMatchObject([{ ...address, tags: ['now'] }, undefined])
    expect(other).toMatchObject({ tags: ['own'] })
    expect(await now()).toMatchObject({ made })
  })

  it('restores a bookmark as it was if its address has the same tags and keyword', async () => {
    const address = { bmkUri: 'https://same.example/', tags: ['own'] }
    const { write, restore, now } = await someone('unchanged', 'bookmarks', [
      folder('menu', 'places', ['lost', 'other']),
      bookmark('lost', 'menu', address),
      bookmark('other', 'menu', address),
    ])
    const before = await now()
    await write(folder('menu', 'places', ['other']), gone('lost'))

    await restore()

    expect(await now()).toEqual(before)
  })

  it('has nothing to do right after the backup, whatever is stored, and restores it as it was saved', async () => {
    const odd = [
      bookmark('long', 'menu', { title: 't'.repeat(65_536) }),
      bookmark('tags', 'menu', { tags: [' One', 'one', 'g'.repeat(101)] }),
      bookmark('one', 'menu', { bmkUri: 'https://same.example', tags: ['one'], keyword: 'K ' }),
      bookmark('two', 'menu', { bmkUri: 'https://same.example/', tags: ['two'] }),
      bookmark('three', 'menu', { keyword: 'k' }),
      bookmark('place', 'menu', { bmkUri: 'place:sort=1' }),
      bookmark('bad', 'menu', { bmkUri: 'http://[bad' }),
      { ...bookmark('none', 'menu'), bmkUri: undefined },
      { ...folder('box', 'menu', []), title: 7 },
    ]
    const ids = odd.map(({ id }) => id)
    const { write, preview, restore, now } = await someone('odd', 'bookmarks', [
      folder('menu', 'places', ids),
      ...odd,
      folder('toolbar', 'places', []),
      bookmark('unlisted', 'toolbar'),
      { ...bookmark('faulty', 'toolbar'), bmkUri: undefined },
      bookmark('another', 'toolbar'),
    ])
    const before = await now()

    const first = await preview()
    const second = await restore('--overwrite')
    const still = await now()
    const restorable = ids.filter((id) => !['none', 'box', 'one', 'two'].includes(id))
    await write(folder('menu', 'places', ['one', 'two', 'none', 'box']), ...restorable.map(gone))
    const third = await restore()

    expect([first.code, second.code, third.code]).toEqual([0, 0, 0])
    for (const { errors } of [first, second])
      expect(errors).toMatch(/bookmarks: 0 to write(, 0 different in the storage)?\n/)
    expect(still).toEqual(before)
    expect(await now()).toEqual(before)
  })

  it('names a bookmark whose keyword another address has now', async () => {
    const { write, restore, now } = await someone('keyed', 'bookmarks', [
      folder('menu', 'places', ['lost', 'other']),
      bookmark('lost', 'menu', { keyword: 'k' }),
      bookmark('other', 'menu'),
    ])
    await write(
      folder('menu', 'places', ['other']),
      gone('lost'),
      bookmark('other', 'menu', { keyword: 'k' }),
    )

    const { code, errors } = await restore()

    const { lost, other } = await now()
    expect([code, lost!.keyword, other!.keyword]).toEqual([3, undefined, 'k'])
    expect(errors).toContain('restored without a keyword that another address has now: lost\n')
  })

  it('does not write a bookmark again that has the tags and keyword of its address in the form of Firefox', async () => {
    const plain = { bmkUri: 'https://same.example/', tags: undefined }
    const { write, restore } = await someone('twice', 'bookmarks', [
      folder('menu', 'places', ['a', 'b']),
      bookmark('a', 'menu', { ...plain, keyword: 'k' }),
      bookmark('b', 'menu', { ...plain, keyword: 'k' }),
    ])
    await write(folder('menu', 'places', ['a', 'b', 'new']), bookmark('a', 'menu', plain))
    await write(bookmark('b', 'menu', { ...plain, tags: [] }), bookmark('new', 'menu', plain))

    const { errors } = await restore('--overwrite')

    expect(errors).toContain('bookmarks: 0 to write')
  })

  it('does not move back what was moved out of a folder before it was deleted', async () => {
    const { write, restore, now } = await someone('mover', 'bookmarks', [
      folder('menu', 'places', ['box']),
      folder('toolbar', 'places', []),
      folder('box', 'menu', ['moved', 'lost']),
      bookmark('moved', 'box'),
      bookmark('lost', 'box'),
    ])
    await write(folder('menu', 'places', []), gone('box'), gone('lost'))
    await write(folder('toolbar', 'places', ['moved']), bookmark('moved', 'toolbar'))

    const { code } = await restore()

    const { menu, toolbar, box } = await now()
    expect(code).toBe(0)
    expect([menu, toolbar, box].map((each) => each!.children)).toEqual([['box'], ['moved'], ['lost']])
  })

  it('restores one folder, with its contents, and lists it in its place', async () => {
    const { write, preview, restore, now } = await someone('recipes', 'bookmarks', [
      folder('menu', 'places', ['box', 'kept']),
      folder('unfiled', 'places', ['other']),
      { ...folder('box', 'menu', ['first', 'second']), title: 'My recipes' },
      ...['first', 'second'].map((id) => bookmark(id, 'box')),
      bookmark('kept', 'menu'),
      bookmark('other', 'unfiled'),
    ])
    const before = await now()
    await write(folder('menu', 'places', ['kept']), folder('unfiled', 'places', []))
    await write(...['box', 'first', 'second', 'other'].map(gone))

    const dry = await preview('--folder', 'My recipes')
    const { errors, code } = await restore('--folder', 'My recipes')

    const { menu, box, first, second, other } = await now()
    expect(dry.output).toMatch(/^bookmarks {2}deleted +My recipes\/$/m)
    expect(dry.output).toMatch(/^bookmarks {2}repaired +menu\/ +contents$/m)
    expect(errors).toContain('bookmarks: 4 to write')
    expect(errors).toContain('  4 written')
    expect([code, menu, other]).toEqual([0, before.menu!, gone('other')])
    expect([box, first, second]).toMatchObject([before.box!, before.first!, before.second!])
  })

  it('restores a folder without what remains deleted, which Firefox would report as missing', async () => {
    const { write, restore, now } = await someone('picker', 'bookmarks', [
      folder('menu', 'places', ['box']),
      folder('box', 'menu', ['first', 'second']),
      bookmark('first', 'box'),
      bookmark('second', 'box'),
    ])
    await write(folder('menu', 'places', []), gone('box'), gone('first'), gone('second'))

    await restore('--id', 'box', '--id', 'second')
    const part = await now()
    await restore()

    expect(part).toMatchObject({ box: { children: ['second'] }, first: gone('first') })
    expect(await now()).toMatchObject({ box: { children: ['first', 'second'] } })
  })

  it('takes tags and keyword from no other bookmark', async () => {
    const tagged = { tags: ['blue'], keyword: 'B' }
    const { write, restore, now } = await someone('taker', 'bookmarks', [
      folder('menu', 'places', ['first', 'second', 'third']),
      bookmark('first', 'menu'),
      bookmark('second', 'menu', tagged),
      bookmark('third', 'menu', { keyword: 'new' }),
    ])
    const moved = bookmark('first', 'menu', { ...tagged, bmkUri: 'https://second.example/' })
    const newer = bookmark('newer', 'menu', { keyword: 'New' })
    const added = bookmark('added', 'menu', { bmkUri: moved.bmkUri, ...tagged })
    await write(
      folder('menu', 'places', ['first', 'second', 'newer', 'added']),
      moved,
      gone('third'),
      newer,
      added,
    )
    const before = (await now()).second

    await restore('--overwrite')

    // Firefox clears what it has for an address when a bookmark leaves it, so the others are written again.
    const { menu, first, second, third } = await now()
    expect(menu!.children).toEqual(['first', 'second', 'third', 'newer', 'added'])
    expect([first, third]).toMatchObject([{ bmkUri: 'https://first.example/', tags: [] }, { id: 'third' }])
    expect([second, third!.keyword]).toEqual([before, undefined])
    expect((await restore('--overwrite')).errors).toContain('bookmarks: 0 to write')
  })

  it('moves a bookmark back with --overwrite, in both folders', async () => {
    const { write, restore, preview, now } = await someone('backmover', 'bookmarks', [
      folder('menu', 'places', ['a', 'b']),
      folder('toolbar', 'places', []),
      bookmark('a', 'menu'),
      bookmark('b', 'menu'),
    ])
    const added = bookmark('added', 'menu')
    await write(folder('menu', 'places', ['b', 'added']), added, bookmark('a', 'toolbar'))
    await write(folder('toolbar', 'places', ['a']))

    const shown = await preview('--overwrite', '--id', 'a')
    const one = await restore('--overwrite', '--id', 'a')
    const { menu, toolbar } = await now()
    const all = await restore('--overwrite')

    expect(shown.output).toContain(
      'bookmarks  differs   a <https://a.example/>  folder "Bookmarks Toolbar" → "Bookmarks Menu"\n',
    )
    expect([one.code, all.errors]).toEqual([0, expect.stringContaining('bookmarks: 0 to write')])
    expect([menu!.children, toolbar!.children]).toEqual([['a', 'b', 'added'], []])
    expect((await now()).menu!.children).toEqual(['a', 'b', 'added'])
  })

  it('leaves a folder as it is whose former folder is in it now, and restores both together', async () => {
    const { write, restore, now } = await someone('turner', 'bookmarks', [
      folder('menu', 'places', ['outer']),
      folder('outer', 'menu', ['inner']),
      folder('inner', 'outer', ['lost']),
      bookmark('lost', 'inner'),
    ])
    const turned = [folder('menu', 'places', ['inner']), folder('inner', 'menu', ['outer'])]
    await write(...turned, folder('outer', 'inner', []), gone('lost'))

    const one = await restore('--overwrite', '--folder', 'inner')
    const { menu, inner, outer } = await now()
    const both = await restore('--overwrite', '--folder', 'inner', '--id', 'outer')
    const after = await now()

    expect(one.errors).toContain(
      'inner is not restored, because its former folder is in it now: restore that',
    )
    expect(one.code).toBe(3)
    expect([menu, inner, outer].map((each) => each!.children)).toEqual([['inner'], ['lost', 'outer'], []])
    expect(both.code).toBe(0)
    expect([after.menu, after.outer, after.inner].map((each) => each!.children)).toEqual([
      ['outer'],
      ['inner'],
      ['lost'],
    ])
  })

  it('moves a query whose folder remains deleted to Other Bookmarks, because Firefox deletes it otherwise', async () => {
    const { write, restore, now } = await someone('searcher', 'bookmarks', [
      folder('menu', 'places', ['box']),
      folder('unfiled', 'places', ['last']),
      folder('box', 'menu', ['query']),
      { ...bookmark('query', 'box', { bmkUri: 'place:sort=8' }), type: 'query' },
      bookmark('last', 'unfiled'),
    ])
    await write(folder('menu', 'places', []), gone('box'), gone('query'))

    const { errors } = await restore('--id', 'query')

    const { query, unfiled } = await now()
    expect(errors).toContain('1 of them will be in Other Bookmarks, because their folder was deleted')
    expect(query).toMatchObject({ bmkUri: 'place:sort=8', parentid: 'unfiled' })
    expect(unfiled!.children).toEqual(['last', 'query'])
    await write(folder('unfiled', 'places', ['new', 'last', 'query']), bookmark('new', 'unfiled'))
    const part = ['--overwrite', '--id', 'unfiled', '--id', 'query']
    await restore(...part)
    expect((await restore(...part)).errors).toContain('bookmarks: 0 to write')
    expect((await now()).unfiled!.children).toEqual(['last', 'new', 'query'])
  })

  it('moves a bookmark whose folder remains deleted to Other Bookmarks, and leaves one that is elsewhere now', async () => {
    const { write, restore, now } = await someone('homeless', 'bookmarks', [
      folder('menu', 'places', ['box']),
      folder('unfiled', 'places', []),
      folder('box', 'menu', ['moved', 'lost']),
      bookmark('moved', 'box', { parentName: 'box' }),
      bookmark('lost', 'box', { parentName: 'box' }),
    ])
    await write(folder('menu', 'places', ['moved']), gone('box'), gone('lost'), bookmark('moved', 'menu'))
    const part = ['--overwrite', '--id', 'moved', '--id', 'lost']

    const { errors } = await restore(...part)

    const { lost, menu, unfiled } = await now()
    expect(errors).toContain(
      '  1 of them will be in Other Bookmarks, because their folder was deleted: restore it, too, with --id box\n',
    )
    expect([lost!.parentid, menu!.children, unfiled!.children]).toEqual(['unfiled', ['moved'], ['lost']])
    const again = (await restore(...part)).errors
    expect(again).toContain('bookmarks: 0 to write')
    const both = await restore('--overwrite')
    expect(both.errors).not.toContain('Other Bookmarks')
    expect((await now()).box!.children).toEqual(['moved', 'lost'])
  })

  it('leaves what has another type now, with which Firefox syncs no bookmarks', async () => {
    const { write, restore, now } = await someone('retyper', 'bookmarks', [
      folder('menu', 'places', ['box', 'line']),
      folder('box', 'menu', []),
      { id: 'line', type: 'separator', parentid: 'menu' },
    ])
    const newer = [bookmark('box', 'menu'), bookmark('line', 'menu')]
    await write(...newer)

    const { errors, code } = await restore('--overwrite')

    expect(errors).toMatch(
      / not restored, because something of another type has the id now: (box line|line box)/,
    )
    expect([code, await now()]).toMatchObject([3, Object.fromEntries(newer.map((each) => [each.id, each]))])
  })

  it('moves a folder to Other Bookmarks that the backup has inside itself, with which Firefox syncs no bookmarks', async () => {
    const roots = [folder('menu', 'places', []), folder('unfiled', 'places', [])]
    const ill = [folder('a', 'a', ['b', 'lost', 'a']), folder('b', 'a', []), folder('c', 'menu', ['d'])]
    const listed = folder('d', 'c', ['c'])
    const { user, write, restore, now } = await someone('circular', 'bookmarks', [
      ...roots,
      ...ill,
      listed,
      bookmark('lost', 'a'),
    ])
    sandbox.remove(user, 'bookmarks')
    await write(...roots)

    await restore()

    expect(await now()).toMatchObject({
      unfiled: { children: ['a', 'd'] },
      a: { parentid: 'unfiled', children: ['b', 'lost'] },
      b: { parentid: 'a', children: [] },
      c: { parentid: 'd', children: [] },
      d: { parentid: 'unfiled', children: ['c'] },
    })
  })

  it('lists in their folder what an earlier restore has written without it', async () => {
    const all = ['a', 'b']
    const { write, restore, preview, now } = await someone('stopped', 'bookmarks', [
      folder('toolbar', 'places', all),
      ...all.map((id) => bookmark(id, 'toolbar')),
    ])
    // The other one is read behind it, so only its own list differs.
    await write(folder('toolbar', 'places', ['a']))

    const { errors, code } = await restore()

    expect([errors, code]).toEqual([expect.stringContaining('1 written'), 0])
    expect((await now()).toolbar!.children).toEqual(all)
    expect((await preview()).errors).toContain('bookmarks: 0 to write, 0 different')
  })

  it('gives a bookmark back to its folder once that is restored, and not before', async () => {
    const { write, restore, now } = await someone('stray', 'bookmarks', [
      folder('menu', 'places', ['box', 'lost']),
      folder('box', 'menu', ['stray']),
      bookmark('stray', 'box'),
      bookmark('lost', 'menu'),
    ])
    const { stray } = await now()
    await write(folder('menu', 'places', []), gone('box'), gone('lost'))

    const other = await restore('--id', 'lost')
    const between = await now()
    const { code } = await restore('--id', 'box')

    expect([other.code, between.stray, between.menu!.children]).toEqual([0, stray!, ['lost']])
    expect([code, await now()]).toMatchObject([0, { stray, box: { children: ['stray'] } }])
  })

  it('lists a bookmark in its folder that no folder of the backup lists', async () => {
    const { user, write, restore, preview, now } = await someone('unlisted', 'bookmarks', [
      folder('menu', 'places', ['a', 'box']),
      ...['a', 'b', 'c'].map((id) => bookmark(id, 'menu')),
      folder('box', 'menu', ['c']),
    ])
    sandbox.remove(user, 'bookmarks')
    await write(folder('toolbar', 'places', []))

    await restore()

    expect(await now()).toMatchObject({ menu: { children: ['a', 'box', 'b'] }, box: { children: ['c'] } })
    expect((await preview()).errors).toContain('bookmarks: 0 to write')
  })

  it('keeps the title of a page that was visited again under another id', async () => {
    const page = { histUri: 'https://a.example/', title: 'before', visits: [{ date: 1, type: 1 }] }
    const { write, restore, now } = await someone('visitor', 'history', [{ id: 'old', ...page }])
    await write(gone('old'), { id: 'new', ...page, title: 'now', visits: [] })

    await restore()

    expect(await now()).toMatchObject({ old: { ...page, title: 'now' }, new: { title: 'now', visits: [] } })
    expect((await restore('--overwrite')).errors).toContain('history: 0 to write')
  })

  const login = { hostname: 'https://a.example', formSubmitURL: '', httpRealm: null, username: 'me' }
  it.each<[string, object, object, object, object]>([
    // Firefox takes an empty form address, as imports have it, for any.
    [
      'passwords',
      login,
      { username: 'you' },
      { formSubmitURL: 'https://a.example', password: 'now' },
      { password: 'before' },
    ],
    ['extension-storage', { extId: 'one' }, { extId: 'other' }, { data: 'now' }, { data: 'before' }],
  ])(
    'overwrites what was stored again only with --overwrite, and under its new id: %s',
    async (collection, same, different, newer, older) => {
      const [old, other] = [
        { id: 'old', ...same, ...older },
        { id: 'other', ...same, ...older, ...different },
      ]
      const { write, restore, now } = await someone(`returner to ${collection}`, collection, [old, other])
      await write(gone('old'), gone('other'), { id: 'new', ...same, ...newer })

      const { errors } = await restore()
      const kept = await now()
      await restore('--overwrite')

      expect(errors).toContain(`${collection}: 1 to write, 1 different in the storage`)
      // An empty account is one for practice.
      expect(errors).not.toContain('does not sync')
      expect(kept).toMatchObject({ old: gone('old'), new: newer, other: older })
      expect(await now()).toMatchObject({ old: gone('old'), new: older })
    },
  )

  it('overwrites a login for any form with one of two, and restores the other', async () => {
    const login = { hostname: 'https://a.example', httpRealm: null, username: 'me', password: 'before' }
    const logins = ['https://a.example', 'https://b.example'].map((formSubmitURL, index) => {
      return { id: `{${index}}`, ...login, formSubmitURL }
    })
    const { write, restore, now } = await someone('two forms', 'passwords', logins)
    await write(gone('{0}'), gone('{1}'), { id: '{new}', ...login, formSubmitURL: '', password: 'now' })

    const { code } = await restore('--overwrite')

    const there = Object.values(await now()).filter(({ deleted }) => !deleted)
    expect(code).toBe(0)
    expect(there.map(({ formSubmitURL }) => formSubmitURL).toSorted()).toEqual(
      logins.map((each) => each.formSubmitURL),
    )
    expect((await restore('--overwrite')).errors).toContain('passwords: 0 to write')
  })

  it('restores two logins of which one was deleted and the other got its user name, under ids that Firefox takes', async () => {
    const login = { hostname: 'https://a.example', formSubmitURL: '', httpRealm: null }
    const renamed = { id: '{renamed}', ...login, username: 'old', password: 'b' }
    const { write, restore, now } = await someone('renamer', 'passwords', [
      { id: '{deleted}', ...login, username: 'me', password: 'a' },
      renamed,
    ])
    await write(gone('{deleted}'), { ...renamed, username: 'me' })

    const { code } = await restore('--overwrite')

    expect([code, await now()]).toMatchObject([
      0,
      {
        '{deleted}': { ...login, username: 'old', password: 'b' },
        '{renamed}': { ...login, username: 'me', password: 'a' },
      },
    ])
    expect((await restore('--overwrite')).errors).toContain('passwords: 0 to write')
  })

  it('restores a collection that Firefox does not have', async () => {
    const notes = [{ id: 'note', text: 'kept' }]
    const { user, restore, now } = await someone('extended', 'notes', notes, true)
    sandbox.remove(user, 'notes')

    const { errors, code } = await restore()

    expect(errors).toContain('notes: 1 to write, 0 different in the storage\n  1 written')
    expect([code, await now()]).toEqual([0, { note: { id: 'note', text: 'kept' } }])
  })

  it('encrypts again what the account can no longer decrypt', async () => {
    const { user, restore } = await someone('rekeyed', 'forms', [{ id: 'a', name: 'n', value: 'v' }])
    const newKeys = keysRecord(toKeyBundle(Buffer.alloc(64, 7)))
    const payload = encryptPayload(toKeyBundle(user.syncKey), newKeys, Buffer.alloc(16))
    sandbox.write(user, 'crypto', [{ id: 'keys', payload }])

    const { errors } = await restore('--overwrite')

    expect(errors).toContain('forms: 1 to write')
    expect(await readableOf(sandbox, user, 'forms')).toMatchObject([{ id: 'a', value: 'v' }])
  })

  it('writes in smaller parts where the storage accepts fewer records at once', async () => {
    const all = Array.from({ length: 250 }, (_, index) => ({ id: `form${index}`, name: 'n', value: 'v' }))
    const { user, restore } = await someone('small', 'forms', all)
    sandbox.remove(user, 'forms')
    sandbox.switches.batching = false

    const { errors, code } = await restore()

    sandbox.switches.batching = true
    expect([errors, code]).toEqual([expect.stringContaining('250 written'), 0])
    expect(sandbox.records(user, 'forms')).toHaveLength(250)
  })
})

describe('mergeChildren', () => {
  it('puts each child after its former predecessor, at the front, or last if its position is unknown', () => {
    const back = new Set(['a', 'c', 'e', 'new'])

    expect(mergeChildren(['d', 'b', 'x'], ['a', 'b', 'c', 'd', 'e'], back)).toEqual(
      'a d e b c x new'.split(' '),
    )
  })

  it('lists each child once, even if other programs have listed it twice', () => {
    expect(mergeChildren(['a', 'a'], ['a', 'b', 'b', 'a'], new Set(['b']))).toEqual(['a', 'b'])
  })
})
