import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { bookmarkTree, folderNamed, foldersNamed, walk } from '../../src/client/bookmarks.ts'
import { isReadable } from '../../src/client/collection.ts'
import { below, readTree } from '../../src/client/edit/tree.ts'
import { bookmark, folder, record, recordsOf, shape, titlesOf, unreadable } from './records.ts'

describe('bookmarkTree', () => {
  it('follows the children of folders, then the parent of bookmarks', () => {
    const tree = bookmarkTree(
      recordsOf('menu(second inner(?deep ?line) ?first)', { line: { type: 'separator' } }),
    )

    expect(shape(tree)).toBe('menu(second inner(deep line) first)')
    expect(tree.map(({ count }) => count)).toEqual([3])
    const places = walk(tree)
      .filter(({ kind }) => kind !== 'separator')
      .map(({ title, path, level, position, siblings }) => [title, path, level, position, siblings])
    expect(places).toEqual([
      ['Bookmarks Menu', '', 1, 1, 1],
      ['second', 'Bookmarks Menu', 2, 1, 3],
      ['inner', 'Bookmarks Menu', 2, 2, 3],
      ['deep', 'Bookmarks Menu / inner', 3, 1, 2],
      ['first', 'Bookmarks Menu', 2, 3, 3],
    ])
  })

  it('puts records without a folder into Other Bookmarks, and omits deleted and unreadable ones', () => {
    const tree = bookmarkTree([
      folder('toolbar', 'places', ['gone', 'foreign', 'absent']),
      bookmark('stray', 'nowhere'),
      ...[record({ id: 'gone', deleted: true }), unreadable].filter(isReadable),
    ])

    expect(shape(tree)).toBe('toolbar() unfiled(stray)')
  })

  it('ends with folders that contain each other, and with invalid children', () => {
    const tree = bookmarkTree([
      folder('one', 'two', ['two']),
      folder('two', 'one', ['one', 'menu']),
      folder('menu', 'places', 'not a list'),
      folder('unfiled', 'places', [null, 7, { id: 'x' }, 'unfiled', 'same', 'same']),
      bookmark('same', 'unfiled'),
    ])

    expect(shape(tree)).toBe('menu() unfiled(same one(two()))')
    expect(tree.map(({ count }) => count)).toEqual([0, 1])
  })

  it('shows what belongs to a cycle of folders, below one of them', () => {
    const tree = bookmarkTree([
      bookmark('leaf', 'tail'),
      folder('tail', 'one', []),
      folder('one', 'two', []),
      folder('two', 'one', []),
      folder('self', 'self', ['self']),
    ])

    expect(shape(tree)).toBe('unfiled(self() one(tail(leaf) two()))')
  })

  it('places everything as the tree of edits does, whatever the records say', () => {
    const ids = ['toolbar', 'menu', 'unfiled', 'mobile', 'places', 'a', 'b', 'c', 'd', 'e']
    const id = fc.constantFrom(...ids)
    const anyRecord = fc
      .record({
        id,
        type: fc.constantFrom('folder', 'folder', 'bookmark', 'separator'),
        parentid: id,
        children: fc.array(id, { maxLength: 5 }),
      })
      .map((clear) => record({ ...clear, title: clear.id }))

    fc.assert(
      fc.property(fc.array(anyRecord, { maxLength: 12 }), (records) => {
        const { items } = readTree(records)
        const inEdits = ['toolbar', 'menu', 'unfiled', 'mobile'].flatMap((root) =>
          below({ items }, root).map((item) => [item.id, item.parent, item.place]),
        )

        const shown = walk(bookmarkTree(records)).filter(({ parent }) => parent !== null)

        expect(
          shown.map(({ record: { stored }, parent, position }) => [
            stored.id,
            parent!.record.stored.id,
            position - 1,
          ]),
        ).toEqual(inEdits)
      }),
      { numRuns: 1000 },
    )
  })

  it('supports any depth', () => {
    const chain = Array.from({ length: 20_000 }, (_, index) =>
      folder(`${index}`, `${index - 1}`, [`${index + 1}`]),
    )

    const tree = bookmarkTree([...chain, bookmark('deepest', '19999')])

    expect(walk(tree).at(-1)).toMatchObject({ title: 'deepest', level: 20_002 })
    expect(tree).toMatchObject([{ count: 1 }])
  })

  it('shows a record with any id, and omits children that are not ids', () => {
    const odd = { toString: 1, valueOf: 1 }
    const nameless = (id: string) => record({ id, type: 'folder', parentid: 'menu', children: [odd] })

    const tree = bookmarkTree([folder('menu', 'places', []), nameless('constructor'), nameless('__proto__')])

    expect(shape(tree)).toBe('menu(constructor() __proto__())')
  })

  it("names the root folders, and adds the caller's fields", () => {
    const records = recordsOf('toolbar(a)')

    const plain = bookmarkTree(records)
    const decorated = bookmarkTree(records, ({ stored }, title) => ({
      mark: `${stored.id}: ${title}`,
      title: 'x',
    }))

    expect(titlesOf(plain)).toEqual(['Bookmarks Toolbar', 'a'])
    expect(walk(decorated).map(({ mark, title }) => [mark, title])).toEqual([
      ['toolbar: Bookmarks Toolbar', 'x'],
      ['a: a', 'x'],
    ])
  })
})

describe('foldersNamed', () => {
  it('finds the roots by the titles that Firefox shows, not by those that it writes', () => {
    const named = (id: string, title: string) => record({ id, type: 'folder', title, parentid: 'places' })
    const tree = bookmarkTree([
      named('toolbar', 'toolbar'),
      named('menu', 'Lesezeichen'),
      folder('unfiled', '', []),
    ])

    const found = ['Bookmarks Toolbar', 'Lesezeichen', 'Other Bookmarks'].map((title) =>
      foldersNamed(tree, title),
    )

    expect(found.map(([top]) => top?.record.stored.id)).toEqual(['toolbar', 'menu', 'unfiled'])
  })

  it('finds folders by id before titles, and all with the same title', () => {
    const titles = { one: { title: 'Recipes' }, two: { title: 'Recipes' }, three: { title: 'one' } }
    const tree = bookmarkTree(recordsOf('menu(one() two() three() Recipes)', titles))
    const idsOf = (wanted: string) => foldersNamed(tree, wanted).map(({ record: { stored } }) => stored.id)

    expect([idsOf('Recipes'), idsOf('one'), idsOf('absent')]).toEqual([['one', 'two'], ['one'], []])
  })
})

describe('folderNamed', () => {
  const titles = {
    cafe: { title: 'Cafe\u0301' },
    space: { title: 'New\u00a0 York ' },
    one: { title: 'Twin' },
    two: { title: 'Twin' },
  }
  const tree = bookmarkTree(recordsOf('menu(cafe() space() one() two())', titles))

  it.each(['Caf\u00e9', 'Cafe\u0301', ' Caf\u00e9 '])('finds "Café" however it is composed: %j', (wanted) => {
    expect(folderNamed(tree, wanted).record.stored.id).toBe('cafe')
  })

  it('finds a folder with any kind of space', () => {
    expect(folderNamed(tree, 'New York').record.stored.id).toBe('space')
  })

  it.each([
    ['café', 'There is no folder "café": did you mean "Cafe\u0301"?'],
    ['CAFE', 'There is no folder "CAFE": did you mean "Cafe\u0301"?'],
    ['Tea', 'There is no folder "Tea"'],
    [
      'Twin',
      'There are 2 folders "Twin": use one of these ids: one (in Bookmarks Menu), two (in Bookmarks Menu)',
    ],
  ])('says what to write instead of %j', (wanted, message) => {
    expect(() => folderNamed(tree, wanted)).toThrow(message)
  })
})
