import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { applyEdits } from '../../../src/client/edit/apply-edits.ts'
import {
  duplicateBookmarks,
  duplicateLogins,
  keepBookmark,
  keepLogin,
} from '../../../src/client/edit/duplicates.ts'
import { readTree } from '../../../src/client/edit/tree.ts'
import { isReadable } from '../../../src/client/collection.ts'
import { draws, randomForest, recordAt, treeOf } from './trees.ts'

const bookmarkAt = (id: string, bmkUri: string, more: object = {}) =>
  recordAt({ id, type: 'bookmark', parentid: 'menu', title: id, bmkUri, ...more })

const loginAt = (id: string, username: string, timeLastUsed: number) =>
  recordAt({ id, hostname: 'https://a.example', formSubmitURL: id, username, timeLastUsed })

describe('duplicate bookmarks', () => {
  it('are those of one address, in whatever form it is stored', () => {
    const tree = readTree([
      recordAt({ id: 'menu', type: 'folder', parentid: 'places', children: ['a', 'b', 'c', 'd'] }),
      bookmarkAt('a', 'https://a.example'),
      bookmarkAt('b', 'https://b.example/'),
      bookmarkAt('c', 'https://A.example/'),
      recordAt({ id: 'd', type: 'folder', parentid: 'menu', title: 'd', children: [] }),
    ])

    expect(duplicateBookmarks(tree).map((same) => same.map(({ id }) => id))).toEqual([['a', 'c']])
  })

  it('leave one bookmark of each address, with the tags of all, and everything else as it was', () => {
    fc.assert(
      fc.property(draws, (draw) => {
        const tree = treeOf(randomForest(draw))
        const groups = duplicateBookmarks(tree)
        const edits = groups.flatMap((same) => keepBookmark(same[draw(same.length)]!, same))

        const after = applyEdits(tree, edits)

        const removed = groups.reduce((sum, same) => sum + same.length - 1, 0)
        expect(after.problems).toEqual([])
        expect(duplicateBookmarks(after.tree)).toEqual([])
        expect(after.tree.items.size).toBe(tree.items.size - removed)
        for (const same of groups) {
          const left = same.map(({ id }) => after.tree.items.get(id)).find(Boolean)!
          const tags = same.flatMap((item) => item.tags).map((tag) => tag.toLowerCase())
          expect(new Set(left.tags.map((tag) => tag.toLowerCase()))).toEqual(new Set(tags))
        }
      }),
    )
  })
})

describe('duplicate logins', () => {
  it('are those of one user at one site, the one used last first, and keeping one removes the others', () => {
    const records = [loginAt('a', 'eve', 1), loginAt('b', 'eve', 3), loginAt('c', 'bob', 9)].filter(
      isReadable,
    )
    const [same, ...more] = duplicateLogins(records)

    expect(same!.map(({ stored }) => stored.id)).toEqual(['b', 'a'])
    expect(more).toEqual([])
    expect(keepLogin(same![0]!, same!)).toEqual([{ op: 'remove', id: 'a' }])
  })
})
