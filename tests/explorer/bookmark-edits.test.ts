import { describe, expect, it } from 'bun:test'
import { bookmarkTree, walk } from '../../src/client/bookmarks.ts'
import type { ReadableRecord } from '../../src/client/collection.ts'
import type { Edit } from '../../src/client/edit/edit.ts'
import { applyEdits } from '../../src/client/edit/apply-edits.ts'
import { below, readTree } from '../../src/client/edit/tree.ts'
import {
  idOf,
  isTarget,
  movesTo,
  named,
  outermost,
  placeFor,
  removals,
} from '../../src/explorer/bookmark-edits.ts'
import { bookmarkItem } from '../../src/explorer/record-items.ts'
import type { BookmarkItem, Target } from '../../src/explorer/items.ts'

const folders: Record<string, string[]> = {
  toolbar: ['a', 'box', 'b', 'line', 'c'],
  box: ['inner', 'd'],
  inner: ['e'],
  unfiled: [],
}
const parentOf = (id: string) => Object.keys(folders).find((folder) => folders[folder]!.includes(id))
const records: ReadableRecord[] = [
  ...new Set([...Object.keys(folders), ...Object.values(folders).flat()]),
].map((id) => {
  const children = folders[id]
  const type = children ? 'folder' : id === 'line' ? 'separator' : 'bookmark'
  const link = type === 'bookmark' && { bmkUri: `https://${id}.example/` }
  const clear = { id, type, title: id, parentid: parentOf(id) ?? 'places', ...link, children }
  return { collection: 'bookmarks', stored: { id, last_modified: 10 }, clear, problem: null }
})
const nodes: BookmarkItem[] = walk(bookmarkTree(records, bookmarkItem))
const node = (id: string) => nodes.find((each) => idOf(each) === id)!
const some = (...ids: string[]) => nodes.filter((each) => ids.includes(idOf(each)))

/** The ids below the toolbar after edits, and the problems. */
function applied(edits: Edit[]): [string[], string[]] {
  const { tree, problems } = applyEdits(readTree(records), edits)
  return [below(tree, 'toolbar').map(({ id }) => id), problems.map(({ message }) => message)]
}

describe('outermost', () => {
  it('leaves out roots, and what is inside of a selected folder', () => {
    const chosen = outermost(nodes, new Set(['e', 'box', 'c', 'toolbar-missing', 'd', 'unfiled']))

    expect(chosen.map(idOf)).toEqual(['box', 'c'])
  })
})

describe('isTarget', () => {
  it.each<[string[], string, Target['where'], boolean]>([
    [['a'], 'box', 'into', true],
    [['a'], 'b', 'into', false],
    [['a'], 'b', 'after', true],
    [['a'], 'toolbar', 'after', false],
    [['a'], 'toolbar', 'into', true],
    [['box'], 'box', 'into', false],
    [['box'], 'inner', 'into', false],
    [['box'], 'e', 'before', false],
    [['box'], 'box', 'after', true],
  ])('of %p: %s, %s: %p', (moved, id, where, expected) => {
    expect(isTarget(some(...moved), { node: node(id), where })).toBe(expected)
  })
})

describe('movesTo', () => {
  it.each<[string[], string, Target['where'], string]>([
    [['c'], 'a', 'before', 'c a box inner e d b line'],
    [['c'], 'a', 'after', 'a c box inner e d b line'],
    [['a', 'c'], 'b', 'after', 'box inner e d b a c line'],
    [['a', 'b', 'c'], 'b', 'before', 'box inner e d a b c line'],
    [['a', 'b', 'c'], 'b', 'after', 'box inner e d a b c line'],
    [['a', 'b'], 'a', 'before', 'a b box inner e d line c'],
    [['a', 'line'], 'box', 'into', 'box inner e d a line b c'],
    [['e', 'b'], 'd', 'before', 'a box inner e b d line c'],
  ])('moves %p to %s, %s', (moved, id, where, expected) => {
    const [order, problems] = applied(movesTo(some(...moved), { node: node(id), where }))

    expect(problems).toEqual([])
    expect(order.join(' ')).toBe(expected)
  })
})

describe('removals', () => {
  it('name everything that is shown in a folder', () => {
    const edits = removals(some('box', 'c'))

    expect(edits.map((edit) => edit.op === 'remove' && [edit.id, edit.shown!.toSorted()])).toEqual([
      ['box', ['box', 'd', 'e', 'inner']],
      ['c', ['c']],
    ])
    expect(applied(edits)).toEqual([['a', 'b', 'line'], []])
  })
})

describe('placeFor', () => {
  it.each([
    ['toolbar', false, { folder: 'toolbar' }],
    ['box', true, { folder: 'box' }],
    ['box', false, { folder: 'toolbar', after: 'box' }],
    ['e', false, { folder: 'inner', after: 'e' }],
  ])('behind %p, open: %p', (id, isOpen, expected) => {
    expect(placeFor(node(id), isOpen)).toEqual(expected)
  })
})

describe('named', () => {
  it.each([
    [['a'], '“a”'],
    [['line'], 'a separator'],
    [['a', 'b'], '2 bookmarks'],
    [['a', 'box'], '2 bookmarks and folders'],
  ])('%p: %s', (ids, expected) => expect(named(some(...ids))).toBe(expected))
})
