import { describe, expect, it } from 'bun:test'
import type { SyncRecord } from '../../../src/client/collection.ts'
import { applyEdits } from '../../../src/client/edit/apply-edits.ts'
import { invalidity, type Edit } from '../../../src/client/edit/edit.ts'
import { requestsOf } from '../../../src/client/edit/edit-requests.ts'
import { readTree, type Tree } from '../../../src/client/edit/tree.ts'
import { recordAt } from './trees.ts'
import { clearBookmark, clearFolder } from '../records.ts'

const folder = (id: string, parentid: string, ...children: unknown[]) =>
  recordAt(clearFolder(id, parentid, children))
const link = (id: string, parentid: string, more: object = {}) => recordAt(clearBookmark(id, parentid, more))
const unreadable = (id: string): SyncRecord => ({ ...recordAt({ id }), clear: null, problem: 'Foreign' })

/** The contents of a root as text: folders with what is in them in brackets. */
function shape(tree: Tree, id = 'menu'): string {
  const children = tree.items.get(id)!.children.map((child) => {
    const item = tree.items.get(child)
    return item?.kind === 'folder' ? `${child}(${shape(tree, child)})` : child
  })
  return children.join(' ')
}

describe('readTree', () => {
  it.each([
    [
      'a child that two folders list is where it says',
      'f() g(a)',
      [
        folder('menu', 'places', 'f', 'g'),
        folder('f', 'menu', 'a'),
        folder('g', 'menu', 'a'),
        link('a', 'g'),
      ],
    ],
    [
      'a child that is listed twice is there once',
      'a b',
      [folder('menu', 'places', 'a', 'b', 'a'), link('a', 'menu'), link('b', 'menu')],
    ],
    [
      'the folder that lists a child decides',
      'f(a)',
      [folder('menu', 'places', 'f'), folder('f', 'menu', 'a'), link('a', 'menu')],
    ],
    [
      'what no folder lists is at the end of its own',
      'b a',
      [folder('menu', 'places', 'b'), link('a', 'menu'), link('b', 'menu')],
    ],
    [
      'a folder does not contain itself, or a root',
      'f()',
      [folder('menu', 'places', 'f'), folder('f', 'menu', 'f', 'menu', 'toolbar')],
    ],
    [
      'ids that are none are left out',
      'a',
      [folder('menu', 'places', 7, null, { x: 1 }, 'a'), link('a', 'menu')],
    ],
    [
      'an unreadable record keeps its place',
      'a x b',
      [folder('menu', 'places', 'a', 'x', 'b'), link('a', 'menu'), link('b', 'menu'), unreadable('x')],
    ],
  ])('%s', (_, expected, records) => {
    expect(shape(readTree(records))).toBe(expected)
  })

  it('puts what has no folder, and one of two folders in each other, into Other Bookmarks', () => {
    const tree = readTree([
      link('stray', 'nowhere'),
      folder('one', 'two', 'two'),
      folder('two', 'one', 'one'),
    ])

    expect(shape(tree, 'unfiled')).toBe('stray one(two())')
  })
})

describe('applyEdits', () => {
  const records = [
    folder('menu', 'places', 'a', 'f', 'b'),
    folder('f', 'menu', 'g', 'c'),
    folder('g', 'f', 'd', 'x'),
    link('a', 'menu', { tags: ['one'], keyword: 'k' }),
    link('b', 'menu', { bmkUri: 'https://a.example', tags: ['one'], keyword: 'k' }),
    link('c', 'f'),
    link('d', 'g'),
  ]
  const tree = readTree(records)
  const apply = (...edits: Edit[]) => applyEdits(tree, edits)
  const item = (edited: Tree, id: string) => {
    const { title, address, tags, keyword } = edited.items.get(id)!
    return [title, address, tags.join(), keyword]
  }

  it.each<[string, Edit, string]>([
    ['to the end', { op: 'move', id: 'a', folder: 'menu' }, 'f(g(d x) c) b a'],
    ['to the beginning', { op: 'move', id: 'b', folder: 'menu', after: null }, 'b a f(g(d x) c)'],
    ['after another item', { op: 'move', id: 'a', folder: 'f', after: 'g' }, 'f(g(d x) a c) b'],
    [
      'before an item, if the one before it is gone',
      { op: 'move', id: 'a', folder: 'f', after: 'gone', before: 'c' },
      'f(g(d x) a c) b',
    ],
    [
      'to the end, if both are gone',
      { op: 'move', id: 'a', folder: 'f', after: 'gone', before: 'gone' },
      'f(g(d x) c a) b',
    ],
    ['to where it is', { op: 'move', id: 'f', folder: 'menu', after: 'a' }, 'a f(g(d x) c) b'],
  ])('moves %s', (_, edit, expected) => {
    expect(shape(apply(edit).tree)).toBe(expected)
  })

  it('gives tags and a keyword to all bookmarks of the address, and takes the keyword from others', () => {
    const { tree: edited } = apply(
      { op: 'change', id: 'c', fields: { keyword: ' K ' } },
      { op: 'change', id: 'b', fields: { tags: [' two ', 'Two', 'three'] } },
    )

    expect(item(edited, 'a')).toEqual(['a', 'https://a.example/', 'two,three', ''])
    expect(item(edited, 'b')).toEqual(['b', 'https://a.example', 'two,three', ''])
    expect(item(edited, 'c')).toEqual(['c', 'https://c.example/', '', 'k'])
  })

  it('takes the tags along to another address, and the keyword with the last bookmark', () => {
    const first = apply({ op: 'change', id: 'b', fields: { address: 'HTTPS://D.example' } }).tree
    const last = applyEdits(first, [
      { op: 'change', id: 'a', fields: { address: 'https://d.example/' } },
    ]).tree

    expect(item(first, 'b')).toEqual(['b', 'https://d.example/', 'one', ''])
    expect(item(first, 'd')).toEqual(['d', 'https://d.example/', 'one', ''])
    expect(item(last, 'b')).toEqual(['b', 'https://d.example/', 'one', 'k'])
    // Firefox clears the tags of an address that a bookmark leaves, so the others are written again.
    expect(requestsOf(tree, first).map(({ id }) => id)).toEqual(['b', 'd', 'a'])
  })

  it.each<[string, Edit, string]>([
    [
      'an item that is gone',
      { op: 'change', id: 'gone', fields: { title: 'x' } },
      'gone: "gone" does not exist any more',
    ],
    [
      'a folder that is gone',
      { op: 'move', id: 'a', folder: 'gone' },
      'folder-gone: Cannot put "a" into "gone": the folder does not exist',
    ],
    [
      'a folder in itself',
      { op: 'move', id: 'f', folder: 'g' },
      'invalid: Cannot move "f" into "g", which is in it',
    ],
    [
      'a root',
      { op: 'move', id: 'menu', folder: 'toolbar' },
      'invalid: Cannot move "Bookmarks Menu": it is a root folder',
    ],
    [
      'an unreadable record',
      { op: 'add', id: 'x', address: 'https://x.example' },
      'invalid: Cannot add "https://x.example": a record that cannot be decrypted has its id',
    ],
    [
      'a folder with an unreadable record',
      { op: 'remove', id: 'f' },
      'kept: "g" contains a record that cannot be decrypted: it stays',
    ],
    [
      'a keyword of another address',
      { op: 'add', id: 'n', address: 'https://n.example', keyword: 'K' },
      'changed: Added without its keyword "k", which another address has',
    ],
    [
      'an address that Firefox removes',
      { op: 'add', id: 'n', address: `https://x.example/${'ä'.repeat(10_950)}` },
      'invalid: Cannot add "https://x.example/',
    ],
  ])('names %s', (_, edit, expected) => {
    const strange = readTree([...records, unreadable('x')])

    const { problems } = applyEdits(strange, [edit])

    expect(problems.map(({ code, message }) => `${code}: ${message}`)).toEqual([
      expect.stringContaining(expected),
    ])
  })

  it.each([
    ['that another device has moved within the folder stays there, and is named', 'd', 'b', 'd a b c', 'd'],
    ['is moved beside others that another device has moved', 'a', 'c', 'd b c a', null],
    ['is moved to the place where it is already', 'd', null, 'd a b c', null],
  ])('an item %s', (_, id, after, expected, named) => {
    const order = (...ids: string[]) =>
      readTree([folder('menu', 'places', ...ids), ...ids.map((each) => link(each, 'menu'))])
    const edits: Edit[] = [{ op: 'move', id, folder: 'menu', after }]

    const { tree, problems } = applyEdits(order('d', 'a', 'b', 'c'), edits, order('a', 'b', 'c', 'd'))

    expect(shape(tree)).toBe(expected)
    expect(problems.map(({ message }) => message)).toEqual(
      named === null
        ? []
        : ['"d" was moved within "Bookmarks Menu" by another device meanwhile: it stays there'],
    )
  })

  it('removes what was shown in a folder, and tombstones all of it', () => {
    const { tree: edited, problems } = apply({ op: 'remove', id: 'f', shown: ['g', 'c', 'd'] })

    expect([shape(edited), problems]).toEqual(['a b', []])
    expect(requestsOf(tree, edited).map(({ id, record }) => [id, record.deleted === true])).toEqual([
      ['menu', false],
      ['f', true],
      ['g', true],
      ['c', true],
      ['d', true],
    ])
  })
})

describe('the fields of a bookmark', () => {
  const address = (length: number) => 'https://a.example/'.padEnd(length, 'x')

  it.each([
    ['a title', { title: 'x'.repeat(4096) }, { title: 'x'.repeat(4097) }],
    ['an address', { address: address(65_536) }, { address: address(65_537) }],
    ['a tag', { tags: ['x'.repeat(100)] }, { tags: ['x'.repeat(101)] }],
  ])('may have %s as long as Firefox keeps, and no longer', (_, longest, longer) => {
    expect(invalidity('bookmark', longest)).toBeNull()
    expect(invalidity('bookmark', longer)).toBeString()
  })
})
