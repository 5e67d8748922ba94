import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { applyEdits } from '../../../src/client/edit/apply-edits.ts'
import { editsBetween } from '../../../src/client/edit/edits-between.ts'
import { readTree, sameTags, type Tree } from '../../../src/client/edit/tree.ts'
import type { SyncRecord } from '../../../src/client/collection.ts'
import type { Edit } from '../../../src/client/edit/edit.ts'
import { modelOf } from '../../../src/client/edit/models.ts'
import { withoutLater } from '../../../src/client/edit/saved.ts'
import {
  changed,
  complaints,
  draws,
  randomForest,
  recordsOf,
  shapeOf,
  treeOf,
  written,
  type Draw,
  type Forest,
} from './trees.ts'

/** `EDIT_RUNS=10000` for more. */
const numRuns = Number(process.env.EDIT_RUNS ?? 700)
const check = (property: (draw: Draw) => void) =>
  fc.assert(
    fc.property(draws, (draw) => property(draw)),
    { numRuns, includeErrorInReport: true, endOnFailure: true },
  )

describe('edits between two random trees', () => {
  it('result in the wanted one, with valid records', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const records = recordsOf(forest)
      const [shown, wanted] = [readTree(records), treeOf(changed(forest, draw, 'n'))]

      const { tree, problems } = applyEdits(shown, editsBetween(shown, wanted))
      const after = written(records, shown, tree)

      expect(problems).toEqual([])
      expect(shapeOf(tree)).toBe(shapeOf(wanted))
      expect(shapeOf(readTree(after))).toBe(shapeOf(wanted))
      expect(complaints(after)).toEqual([])
    })
  })

  it('have no further effect when they are applied again', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const shown = treeOf(forest)
      const edits = editsBetween(shown, treeOf(changed(forest, draw, 'n')))

      const once = applyEdits(shown, edits, shown).tree
      const twice = applyEdits(once, edits, shown)

      expect(twice.problems).toEqual([])
      expect(shapeOf(twice.tree)).toBe(shapeOf(once))
    })
  })

  it('are taken back by the edits in the other direction', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const records = recordsOf(forest)
      const [before, wanted] = [readTree(records), treeOf(changed(forest, draw, 'n'))]
      const { tree } = applyEdits(before, editsBetween(before, wanted))
      const changedRecords = written(records, before, tree)
      const now = readTree(changedRecords)

      const back = applyEdits(now, editsBetween(now, before))

      expect(back.problems).toEqual([])
      expect(shapeOf(back.tree)).toBe(shapeOf(before))
      expect(complaints(written(changedRecords, now, back.tree, 3000))).toEqual([])
    })
  })

  it('are taken back beside later ones, which keep what they have changed, with one keyword and one set of tags for an address', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const next = changed(forest, draw, 'n')
      const write = (records: SyncRecord[], wanted: Forest, version: number) => {
        const tree = readTree(records)
        const { tree: result } = applyEdits(tree, editsBetween(tree, treeOf(wanted)))
        return written(records, tree, result, version)
      }
      const records = recordsOf(forest)
      const after = write(records, next, 2000)
      const later = write(after, changed(next, draw, 'o'), 3000)
      const isTouched = new Set(
        after.filter((record) => !records.includes(record)).map(({ stored }) => stored.id),
      )
      const touched = (some: SyncRecord[]) => some.filter(({ stored }) => isTouched.has(stored.id))
      const undo = (present: SyncRecord[]) => {
        const untouched = present.filter(({ stored }) => !isTouched.has(stored.id))
        const others = untouched.map((record) => withoutLater(record, 1000))
        const shown = readTree([...others, ...touched(after)])
        const edits = modelOf('bookmarks').back(shown, readTree([...others, ...touched(records)])) as Edit[]
        return applyEdits(readTree(present), edits, shown, true)
      }

      const alone = undo(after)
      const { tree, problems } = undo(later)

      const [before, now] = [readTree(after), readTree(later)]
      expect([alone.problems, shapeOf(alone.tree)]).toEqual([[], shapeOf(readTree(records))])
      expect(complaints(written(later, now, tree, 4000))).toEqual([])
      expect(losses(before, now, tree, new Set(problems.map(({ id }) => id)))).toEqual([])
      expect(contradictions(tree)).toEqual([])
    })
  })

  it('lose nothing that somebody else changes at the same time, unless they name it', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const shown = treeOf(forest)
      const wanted = treeOf(changed(forest, draw, 'n'))
      const records = recordsOf(changed(forest, draw, 'o'))
      const others = readTree(records)

      const edits = editsBetween(shown, wanted)
      const { tree, problems } = applyEdits(others, edits, shown)

      const named = new Set(problems.map(({ id }) => id))
      expect(losses(shown, others, tree, new Set())).toEqual([])
      expect(losses(shown, wanted, tree, named)).toEqual([])
      expect(lostTags(shown, others, tree, edits)).toEqual([])
      expect(complaints(written(records, others, tree))).toEqual([])
    })
  })
})

/** The keywords of several addresses, and the addresses whose bookmarks disagree about tags or keyword. */
function contradictions({ items }: Tree): string[] {
  const addressOfKeyword = new Map<string, string>()
  const sharedBy = new Map<string, string>()
  const found: string[] = []
  for (const { address, tags, keyword } of items.values()) {
    if (address === '') continue
    const shared = `${tags.toSorted().join()} ${keyword}`
    if ((sharedBy.get(address) ?? shared) !== shared) found.push(address)
    sharedBy.set(address, shared)
    if (keyword === '') continue
    if ((addressOfKeyword.get(keyword) ?? address) !== address) found.push(keyword)
    addressOfKeyword.set(keyword, address)
  }
  return found
}

/** The changes from one tree to another that a third one does not have, except for items that were named. */
function losses(from: Tree, to: Tree, result: Tree, named: ReadonlySet<string>): string[] {
  const lost: string[] = []
  for (const id of new Set([...from.items.keys(), ...to.items.keys()])) {
    if (named.has(id)) continue
    const [was, wanted, is] = [from, to, result].map(({ items }) => items.get(id))
    if (wanted && !was && !is) lost.push(`${id} was not added`)
    const isNear = (other: string) => isIn(result, other, id) || isIn(result, id, other)
    if (was && !wanted && is && ![...named].some(isNear)) lost.push(`${id} was not removed`)
    if (!was || !wanted || !is) continue
    for (const field of ['parent', 'title', 'address'] as const)
      if (was[field] !== wanted[field] && is[field] !== wanted[field]) lost.push(`${field} of ${id}`)
  }
  return lost
}

/** The bookmarks without the tags that they have in `to`, of addresses that the edits don't change. */
function lostTags(from: Tree, to: Tree, result: Tree, edits: Edit[]): string[] {
  const touched = new Set<string | undefined>()
  for (const edit of edits) {
    if (edit.op === 'add') touched.add(edit.address)
    if (edit.op !== 'change') continue
    touched.add(edit.fields.address)
    for (const { items } of [from, to]) touched.add(items.get(edit.id)?.address)
  }
  const lost: string[] = []
  for (const [id, { address, tags, keyword }] of to.items) {
    const is = result.items.get(id)
    if (!is || touched.has(address)) continue
    if (!sameTags(is.tags, tags)) lost.push(`tags of ${id}`)
    // A keyword belongs to one address, which an edit may give it to.
    if (is.keyword !== keyword && !edits.some((edit) => edit.op !== 'remove' && edit.op !== 'move'))
      lost.push(`keyword of ${id}`)
  }
  return lost
}

function isIn({ items }: Tree, id: string, folder: string): boolean {
  let above = items.get(id)
  while (above && above.id !== folder) above = items.get(above.parent)
  return above !== undefined
}

describe('a tree of strangers', () => {
  const id = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'menu', 'toolbar', 'unfiled', 'places', 'x')
  const anything = fc.oneof(id, fc.anything())
  const record = fc.record(
    {
      id,
      type: fc.oneof(fc.constantFrom('folder', 'folder', 'bookmark', 'separator', 'query'), fc.anything()),
      parentid: anything,
      title: anything,
      bmkUri: anything,
      tags: fc.oneof(fc.array(anything), fc.anything()),
      keyword: anything,
      children: fc.oneof(fc.array(anything), fc.anything()),
      dateAdded: fc.anything(),
      deleted: fc.boolean(),
    },
    { requiredKeys: ['id'] },
  )
  const stored = fc.record({ clear: fc.option(record, { freq: 8 }), id, version: fc.nat() })

  it('is read without an error, and each item is in one place', () => {
    fc.assert(
      fc.property(fc.array(stored, { maxLength: 12 }), (given) => {
        const tree = readTree(
          given.map(({ clear, id, version }) => ({
            collection: 'bookmarks',
            stored: { id: clear?.id ?? id, last_modified: version },
            clear,
            problem: null,
          })),
        )

        const places = [...tree.items.values()].flatMap(({ children }) => children)
        const items = places.filter((child) => tree.items.has(child))
        expect(new Set(items).size).toBe(items.length)
        for (const item of tree.items.values()) {
          const folder = tree.items.get(item.parent)
          const isKnown = item.parent === 'places' || tree.unreadable.has(item.parent)
          expect(isKnown || tree.unreadable.has('unfiled') || folder?.children.includes(item.id)).toBe(true)
        }
      }),
      { numRuns },
    )
  })

  it('takes linear time, at any depth and width', () => {
    const depth = 4000
    const deep = Array.from({ length: depth }, (_, index) => ({
      id: `${index}`,
      type: 'folder',
      parentid: index === 0 ? 'menu' : `${index - 1}`,
      children: [`${index + 1}`, ...Array.from({ length: 20 }, () => `${index + 1}`)],
    }))
    const circle = { ...deep.at(-1)!, children: ['0', '4000'] }
    const records = [...deep.slice(0, -1), circle].map((clear) => ({
      collection: 'bookmarks',
      stored: { id: clear.id, last_modified: 1 },
      clear,
      problem: null,
    }))

    const tree = readTree(records)
    const { tree: without } = applyEdits(tree, [{ op: 'remove', id: '0' }])

    expect([tree.items.size, without.items.size]).toEqual([depth + 4, 4])
  })
})
