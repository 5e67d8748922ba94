import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { mergeChildren } from '../../../src/cli/data/restored-tree.ts'
import { contentOf, type Source, type Wanted } from '../../../src/cli/data/restore-plan.ts'
import { planCollection } from '../../../src/cli/data/restore.ts'
import { bookmarkTree } from '../../../src/client/bookmarks.ts'
import { complaints, draws, recordAt, type Draw } from '../../client/edit/trees.ts'
import {
  clearBookmark as bookmark,
  clearFolder as folder,
  clearTree,
  record,
  shape,
} from '../../client/records.ts'
import type { StoredRecord } from '../../../src/client/collection.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'

/**
 * A backup of a collection, changes since, and restores over them. Without a storage and encryption: what a plan writes is in `now`. After
 * each restore, the same one has nothing to do.
 */
function restoring(saved: readonly ClearRecord[], changes: readonly ClearRecord[], collection = 'bookmarks') {
  const stored = new Map<string, StoredRecord>()
  let version = 1000
  const write = (...records: readonly ClearRecord[]) => {
    for (const clear of records) stored.set(clear.id, recordAt(clear, (version += 10)).stored)
  }
  write(...saved)
  const source = sourceOf(collection, stored, new Map(stored))
  const preview = (wanted: Partial<Wanted> = {}) =>
    planCollection(source, { ids: null, deletedSince: null, overwrites: false, ...wanted })
  write(...changes)
  return {
    write,
    /** Removes records without a trace; default: all. */
    forget: (...ids: string[]) => {
      for (const id of ids.length > 0 ? ids : [...stored.keys()]) stored.delete(id)
    },
    preview,
    async restore(wanted: Partial<Wanted> = {}) {
      const plan = await preview(wanted)
      for (const each of plan.writes) write({ ...(await contentOf(source, each)).clear!, id: each.id })
      expect((await preview(wanted)).writes).toEqual([])
      return plan
    },
    now: () => Object.fromEntries([...stored.values()].map(({ id, payload }) => [id, JSON.parse(payload!)])),
  }
}

/** Records that every key opens, but for those of `foreign`. */
function sourceOf(
  collection: string,
  stored: Map<string, StoredRecord>,
  saved: Map<string, StoredRecord>,
): Source {
  const keys = {
    payload: 'keys',
    async openRecord(_: string, { payload }: StoredRecord) {
      const clear = JSON.parse(payload!)
      if (clear.isForeign) return { kind: 'unreadable', clear: null }
      return { kind: clear.deleted ? 'deleted' : 'living', clear }
    },
  }
  const file = {
    get ids() {
      return saved.keys()
    },
    read: async (id: string) => saved.get(id)!,
    has: (id: string) => saved.has(id),
  }
  const client = {
    collection: () => ({
      async *storedPages() {
        yield { records: [...stored.values()] }
      },
    }),
  }
  return { collection, client, file, savedKeys: keys, keys } as unknown as Source
}

const menu = (...children: string[]) => folder('menu', 'places', children)
const gone = (...ids: string[]) => ids.map((id) => ({ id, deleted: true }))
const foreign = (id: string) => ({ id, isForeign: true })
const overwriting = { overwrites: true }

const trees = `
does not move back what was moved out of a folder before it was deleted
  saved  menu(box(moved lost)) toolbar()
  now    menu() toolbar(moved)
  then   toolbar(moved) menu(box(lost))

restores a folder without what remains deleted, which Firefox would report as missing
  saved  menu(box(first second))
  now    menu()
  with   --id box --id second
  then   menu(box(second))

puts what is restored later at its place
  saved  menu(box(first second))
  now    menu(box(second))
  then   menu(box(first second))

moves a bookmark back, in both folders
  saved  menu(a b) toolbar()
  now    menu(b added) toolbar(a)
  with   --overwrite --id a
  then   toolbar() menu(a b added)
  says   folder "Bookmarks Toolbar" → "Bookmarks Menu"

leaves a folder as it is whose former folder is in it now
  saved  menu(outer(inner(lost)))
  now    menu(inner(outer()))
  with   --overwrite --id inner --id lost
  then   menu(inner(lost outer()))
  says   inner is not restored, because its former folder is in it now: restore that, too, with --id outer

restores both together
  saved  menu(outer(inner(lost)))
  now    menu(inner(lost outer()))
  with   --overwrite --id inner --id outer
  then   menu(outer(inner(lost)))
  says   folder "inner" → "Bookmarks Menu"
  says   folder "Bookmarks Menu" → "outer"

moves a bookmark whose folder remains deleted to Other Bookmarks, and leaves one that is elsewhere now
  saved  menu(box(moved lost)) unfiled()
  now    menu(moved) unfiled()
  with   --overwrite --id moved --id lost
  then   menu(moved) unfiled(lost)
  says   1 of them will be in Other Bookmarks, because their folder was deleted: restore it, too, with --id box

gives both back to their folder with it
  saved  menu(box(moved lost)) unfiled()
  now    menu(moved) unfiled(lost)
  with   --overwrite
  then   menu(box(moved lost)) unfiled()
  says   folder "Bookmarks Menu" → "box"
  says   folder "Other Bookmarks" → "box"

leaves what is in Other Bookmarks there at its end, and restores the order of the rest
  saved  menu(box(lost)) unfiled(last)
  now    menu() unfiled(new last lost)
  with   --overwrite --id unfiled --id lost
  then   menu() unfiled(last new lost)

lists in their folder what an earlier restore has written without it
  saved  toolbar(a b)
  now    toolbar(a ?b)
  then   toolbar(a b)

lists a bookmark in its folder that no folder of the backup lists
  saved  menu(a box() ?b)
  now    toolbar()
  then   toolbar() menu(a box() b)
`
  .trim()
  .split('\n\n')
  .map((block) => {
    const [name = '', ...lines] = block.split('\n')
    const all = (key: string) =>
      lines.flatMap((line) => (line.startsWith(`  ${key} `) ? [line.slice(9)] : []))
    const one = (key: string) => all(key)[0] ?? ''
    const options = one('with')
    const ids = [...options.matchAll(/--id (\S+)/g)].map(([, id]) => id!)
    const wanted = { overwrites: options.includes('--overwrite'), ids: ids.length > 0 ? new Set(ids) : null }
    return { name, saved: one('saved'), now: one('now'), wanted, end: one('then'), says: all('says') }
  })

describe('a restore of bookmarks', () => {
  it.each(trees)('$name', async ({ saved, now: present, wanted, end, says }) => {
    const [before, after] = [clearTree(saved), clearTree(present)]
    const left = new Set(after.map(({ id }) => id))
    const deleted = gone(...before.map(({ id }) => id).filter((id) => !left.has(id)))
    const { restore, now } = restoring(before, [...deleted, ...after])

    const { writes, notes, problems } = await restore(wanted)

    const records = Object.values(now()).map((clear) => record(clear))
    const moves = writes.flatMap(({ differences = '' }) => (differences.includes('→') ? [differences] : []))
    expect(shape(bookmarkTree(records.filter(({ clear }) => !clear.deleted)))).toBe(end)
    expect(complaints(records)).toEqual([])
    expect([...notes, ...problems, ...moves]).toEqual(says)
  })

  const address = { bmkUri: 'https://same.example/' }

  it('gives a bookmark the tags and keyword that its address has now, as Firefox keeps them for the address', async () => {
    const before = { old: { ...address, tags: ['before'], keyword: 'k' }, other: { tags: ['own'] } }
    const made = { bmkUri: 'HTTPS://same.example', tags: ['now'] }
    const { restore, now } = restoring(clearTree('menu(old other)', before), [
      ...clearTree('menu(made)', { made }),
      ...gone('old', 'other'),
    ])

    await restore()

    expect(now()).toMatchObject({ old: { ...address, tags: ['now'] }, other: { tags: ['own'] }, made })
    expect(now().old.keyword).toBeUndefined()
  })

  it('restores a bookmark as it was if its address has the same tags and keyword', async () => {
    const same = { ...address, tags: ['own'] }
    const saved = clearTree('menu(lost other)', { lost: same, other: same })
    const { restore, now } = restoring(saved, [menu('other'), ...gone('lost')])

    await restore()

    expect(Object.values(now())).toEqual(saved)
  })

  it('has nothing to do right after the backup, whatever is stored, and restores it as it was saved', async () => {
    const odd: Record<string, object> = {
      long: { title: 't'.repeat(65_536) },
      tags: { tags: [' One', 'one', 'g'.repeat(101)] },
      one: { bmkUri: 'https://same.example', tags: ['one'], keyword: 'K ' },
      two: { ...address, tags: ['two'] },
      three: { keyword: 'k' },
      place: { bmkUri: 'place:sort=1' },
      bad: { bmkUri: 'http://[bad' },
      none: { bmkUri: undefined },
      faulty: { bmkUri: undefined },
      box: { title: 7 },
    }
    const restorable = ['long', 'tags', 'three', 'place', 'bad']
    const { write, preview, restore, now } = restoring(
      clearTree(`menu(one two none box() ${restorable.join(' ')}) toolbar(?unlisted ?faulty ?another)`, odd),
      [],
    )
    const before = now()

    const plans = [await preview(), await preview(overwriting)]
    write(menu('one', 'two', 'none', 'box'), ...gone(...restorable))
    await restore()

    for (const { writes, different, faulty, problems } of plans)
      expect([writes, different, faulty, problems]).toEqual([[], [], [], []])
    expect(now()).toEqual(before)
  })

  it('names a bookmark whose keyword another address has now', async () => {
    const { restore, now } = restoring(clearTree('menu(lost other)', { lost: { keyword: 'k' } }), [
      ...clearTree('menu(other)', { other: { keyword: 'k' } }),
      ...gone('lost'),
    ])

    const { problems } = await restore()

    expect(problems).toEqual(['restored without a keyword that another address has now: lost'])
    expect([now().lost.keyword, now().other.keyword]).toEqual([undefined, 'k'])
  })

  it('does not write a bookmark again that has the tags and keyword of its address in the form of Firefox', async () => {
    const plain = { ...address, tags: undefined }
    const saved = { ...plain, keyword: 'k' }
    const { preview } = restoring(
      clearTree('menu(a b)', { a: saved, b: saved }),
      clearTree('menu(a b new)', { a: plain, b: { ...plain, tags: [] }, new: plain }),
    )

    expect((await preview(overwriting)).writes).toEqual([])
  })

  it('takes tags and keyword from no other bookmark', async () => {
    const tagged = { ...address, tags: ['blue'], keyword: 'B' }
    const { restore, now } = restoring(
      clearTree('menu(first second third)', { second: tagged, third: { keyword: 'new' } }),
      [
        ...clearTree('menu(first second newer added)', {
          first: tagged,
          second: tagged,
          newer: { keyword: 'New' },
          added: tagged,
        }),
        ...gone('third'),
      ],
    )
    const { second } = now()

    await restore(overwriting)

    // Firefox clears what it has for an address when a bookmark leaves it, so the others are written again.
    expect(now()).toMatchObject({
      menu: menu('first', 'second', 'third', 'newer', 'added'),
      first: { bmkUri: 'https://first.example/', tags: [] },
      second,
      third: { id: 'third' },
    })
    expect(now().third.keyword).toBeUndefined()
  })

  it('leaves what has another type now, with which Firefox syncs no bookmarks', async () => {
    const newer = clearTree('menu(box line)')
    const { restore, now } = restoring(clearTree('menu(box() line)', { line: { type: 'separator' } }), newer)

    const { problems } = await restore(overwriting)

    expect(problems).toEqual(['not restored, because something of another type has the id now: box line'])
    expect(Object.values(now())).toEqual(newer)
  })

  it('moves a folder to Other Bookmarks that the backup has inside itself, with which Firefox syncs no bookmarks', async () => {
    const roots = clearTree('menu() unfiled()')
    const { forget, write, restore, now } = restoring(
      [
        ...roots,
        folder('a', 'a', ['b', 'lost', 'a']),
        folder('b', 'a', []),
        folder('d', 'c', ['c']),
        folder('c', 'menu', ['d']),
        bookmark('lost', 'a'),
      ],
      [],
    )
    forget()
    write(...roots)

    await restore()

    expect(now()).toMatchObject({
      unfiled: { children: ['a', 'd'] },
      a: folder('a', 'unfiled', ['b', 'lost']),
      b: folder('b', 'a', []),
      c: folder('c', 'd', []),
      d: folder('d', 'unfiled', ['c']),
    })
  })

  it('writes at once what is elsewhere after it, among folders that list each other and have other types now', async () => {
    const listing = (id: string, ...children: string[]) => ({ id, type: 'folder', title: id, children })
    const { forget, write, restore, now } = restoring([listing('a', 'f'), listing('d'), listing('f')], [])
    forget()
    write({ id: 'a', type: 'bookmark' }, listing('b', 'f'), listing('d'), {
      ...listing('f', 'b'),
      title: 'new',
    })

    await restore(overwriting)

    expect(now()).toMatchObject({ f: { title: 'f' }, b: { title: 'b' } })
  })

  it('gives a bookmark back to its folder once that is restored, and not before', async () => {
    const { restore, now } = restoring(clearTree('menu(box(stray) lost)'), [menu(), ...gone('box', 'lost')])
    const { stray } = now()

    await restore({ ids: new Set(['lost']) })
    const between = now()
    await restore({ ids: new Set(['box']) })

    expect(between).toMatchObject({ stray, menu: menu('lost') })
    expect(now()).toMatchObject({ stray, box: { children: ['stray'] } })
  })
})

describe('a restore of any records', () => {
  const entry = (value: string) => ({ id: 'a', name: 'n', value })
  const login = { id: '{a}', hostname: 'https://a.example', formSubmitURL: '', httpRealm: null }

  it.each<[string, ClearRecord, differences: string[], left: string[]]>([
    ['a deletion', gone('a')[0]!, [], []],
    ['what the key does not decrypt', foreign('a'), [], ['a']],
    ['another version', entry('before'), ['value'], []],
  ])('over a record, from a backup with %s', async (_, saved, differences, left) => {
    const { preview, restore } = restoring([saved], [entry('now')], 'forms')

    const plan = await preview()
    const { writes, unreadable } = await restore(overwriting)

    expect([plan.writes, plan.different.length]).toEqual([[], differences.length])
    expect([writes.map((each) => each.differences), unreadable]).toEqual([differences, left])
  })

  it('brings back what was deleted, and leaves what the key does not decrypt now', async () => {
    const logins = ['{a}', '{b}'].map((id) => ({ ...login, id, username: id, password: 'p' }))
    const { restore } = restoring(logins, [...gone('{a}'), foreign('{b}')], 'passwords')

    const { writes, different } = await restore()

    expect(writes).toMatchObject([{ id: '{a}', kind: 'deleted' }])
    expect(different).toMatchObject([{ differences: 'cannot be decrypted in the storage' }])
  })

  it('shows which fields differ, and no password', async () => {
    const before = { ...login, username: 'old', password: 'secret before' }
    const now = { ...login, username: 'new', password: 'secret now' }
    const { restore } = restoring([before], [now], 'passwords')

    const { writes } = await restore(overwriting)

    expect(writes).toMatchObject([{ differences: 'user name "new" → "old", password' }])
  })

  it.each<[string, object]>([
    ['forms', { name: 5 }],
    ['history', { histUri: ['a'], visits: {} }],
    ['passwords', { hostname: 'https://a.example', password: null }],
    ['addresses', { entry: 'text' }],
    ['bookmarks', { type: 'folder', title: 'odd', parentid: 'menu', children: [1, null, {}] }],
  ])('skips and names a record of %s that is not what its engine defines', async (collection, fields) => {
    const { preview, forget, restore, now } = restoring([{ id: 'odd', ...fields }], [], collection)

    const same = await preview(overwriting)
    forget()
    const { faulty, problems } = await restore()

    expect([same.faulty, same.problems]).toEqual([[], []])
    if (collection !== 'bookmarks') return expect([faulty, now()]).toEqual([['odd'], {}])
    // What is in a folder should not suffer from it.
    expect(problems).toEqual(['restored without fields that are not what Firefox writes: odd'])
    expect(now().odd).toMatchObject({ title: 'odd', children: [] })
  })
})

describe('a restore of history', () => {
  it('keeps the title of a page that was visited again under another id', async () => {
    const page = { histUri: 'https://a.example/', title: 'before', visits: [{ date: 1, type: 1 }] }
    const visited = { id: 'new', ...page, title: 'now', visits: [] }
    const { preview, restore, now } = restoring(
      [{ id: 'old', ...page }],
      [...gone('old'), visited],
      'history',
    )

    await restore()

    expect(now()).toEqual({ old: { id: 'old', ...page, title: 'now' }, new: visited })
    expect((await preview(overwriting)).writes).toEqual([])
  })
})

describe('a restore of what Firefox has at most one record for', () => {
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
      const { restore, now } = restoring(
        [
          { id: 'old', ...same, ...older },
          { id: 'other', ...same, ...older, ...different },
        ],
        [...gone('old', 'other'), { id: 'new', ...same, ...newer }],
        collection,
      )

      const { writes, different: left } = await restore()
      const kept = now()
      await restore(overwriting)

      expect([writes.length, left.length]).toEqual([1, 1])
      expect(kept).toMatchObject({ old: { deleted: true }, new: newer, other: older })
      expect(now()).toMatchObject({ old: { deleted: true }, new: older })
    },
  )

  it('overwrites a login for any form with one of two, and restores the other', async () => {
    const forms = ['https://a.example', 'https://b.example']
    const logins = forms.map((formSubmitURL, index) => {
      return { id: `{${index}}`, ...login, password: 'before', formSubmitURL }
    })
    const { restore, now } = restoring(
      logins,
      [...gone('{0}', '{1}'), { id: '{new}', ...login, password: 'now' }],
      'passwords',
    )

    await restore(overwriting)

    const there = Object.values(now()).filter(({ deleted }) => !deleted)
    expect(there.map(({ formSubmitURL }) => formSubmitURL).toSorted()).toEqual(forms)
  })

  it('restores two logins of which one was deleted and the other got its user name, under ids that Firefox takes', async () => {
    const renamed = { id: '{renamed}', ...login, username: 'old', password: 'b' }
    const { restore, now } = restoring(
      [{ id: '{deleted}', ...login, password: 'a' }, renamed],
      [...gone('{deleted}'), { ...renamed, username: 'me' }],
      'passwords',
    )

    await restore(overwriting)

    expect(now()).toEqual({
      '{deleted}': { id: '{deleted}', ...login, username: 'old', password: 'b' },
      '{renamed}': { id: '{renamed}', ...login, password: 'a' },
    })
  })

  /** Logins of one site, of which Firefox takes some for the same. */
  function anyLogins(draw: Draw): ClearRecord[] {
    const pick = <Item>(list: readonly Item[]) => list[draw(list.length)]!
    return ['1', '2', '3', '4', '5', '6']
      .filter(() => draw(4) > 0)
      .map((id) => {
        if (draw(5) === 0) return { id, deleted: true }
        const formSubmitURL = pick(['', 'https://a.example', 'https://b.example'])
        return { ...login, id, formSubmitURL, username: pick(['me', 'you']), password: pick(['p', 'q']) }
      })
  }

  it.each([true, false])(
    'has nothing to do the second time, for any logins; overwriting: %p',
    async (overwrites) => {
      await fc.assert(
        fc.asyncProperty(draws, async (draw) => {
          const { forget, write, restore } = restoring(anyLogins(draw), [], 'passwords')
          forget()
          write(...anyLogins(draw))

          await restore({ overwrites })
        }),
        { numRuns: 1000, endOnFailure: true },
      )
    },
  )
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
