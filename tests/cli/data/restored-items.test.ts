import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { restoreItems } from '../../../src/cli/data/restored-items.ts'
import type { Selection } from '../../../src/cli/data/restored-tree.ts'
import { readTree } from '../../../src/client/edit/tree.ts'
import {
  changed,
  complaints,
  draws,
  nodesOf,
  randomForest,
  recordAt,
  recordsOf,
  shapeOf,
  type Draw,
} from '../../client/edit/trees.ts'
import type { SyncRecord } from '../../../src/client/collection.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'

const numRuns = Number(process.env.RESTORE_RUNS ?? 700)
const check = (property: (draw: Draw) => void) =>
  fc.assert(
    fc.property(draws, (draw) => property(draw)),
    { numRuns, includeErrorInReport: true, endOnFailure: true },
  )

const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
const roots = ['menu', 'toolbar', 'unfiled']
const kinds = ['folder', 'folder', 'folder', 'bookmark', 'bookmark', 'bookmark', 'query', 'separator']

/**
 * Records as a broken program might leave them: any parent, also none, themselves or an unknown one; children that are listed twice, elsewhere,
 * or do not exist; several tags and keywords for one address; roots that are missing, or in a folder.
 */
function anyRecords(draw: Draw): SyncRecord[] {
  const pick = <Item>(list: readonly Item[]) => list[draw(list.length)]!
  const anyId = () => pick([...ids, ...roots, 'unknown', 'places'])
  const records: SyncRecord[] = []
  for (const id of [...ids, ...roots]) {
    const isRoot = roots.includes(id)
    if (draw(5) === 0) continue
    if (!isRoot && draw(6) === 0) {
      records.push(recordAt({ id, deleted: true }, 1000 + draw(3) * 10))
      continue
    }
    const type = isRoot ? 'folder' : pick(kinds)
    const clear: ClearRecord = { id, type, title: `title ${draw(3)}`, dateAdded: 1_600_000_000_000 }
    if (draw(8) > 0) clear.parentid = isRoot && draw(4) > 0 ? 'places' : anyId()
    if (type === 'folder') clear.children = Array.from({ length: draw(6) }, anyId)
    if (type === 'bookmark' || type === 'query') {
      clear.bmkUri = type === 'query' ? `place:sort=${draw(2)}` : `https://${pick(['x', 'y'])}.example/`
      clear.tags = ['one', 'Two', 'three'].filter(() => draw(3) === 0)
      if (draw(3) === 0) clear.keyword = pick(['k', 'K', 'other'])
    }
    records.push(recordAt(clear, 1000 + draw(3) * 10))
  }
  return records
}

/** What a restore writes, and the records afterwards. */
function restored(records: SyncRecord[], saved: SyncRecord[], selection: Selection) {
  const current = readTree(records)
  const { writes, problems } = restoreItems(current, readTree(saved), selection)
  const after = new Map(records.map((record) => [record.stored.id, record]))
  for (const { id, record } of writes) after.set(id, recordAt(record, 2000))
  return { writes, problems, after: [...after.values()] }
}

const everything: Selection = { isWanted: () => true, deletedSince: null, overwrites: true }

describe('a restore of any bookmarks over any others', () => {
  it('has nothing to do the second time', () => {
    check((draw) => {
      const [records, saved] = [anyRecords(draw), anyRecords(draw)]
      const some = new Set(ids.filter(() => draw(2) === 0))
      const isWanted = draw(2) === 0 ? () => true : (id: string) => some.has(id)
      const selection = { ...everything, isWanted, overwrites: draw(2) === 0 }

      const first = restored(records, saved, selection)
      const second = restored(first.after, saved, selection)

      expect(second.writes).toEqual([])
    })
  })

  it('brings back every item, and loses none', () => {
    check((draw) => {
      const [records, saved] = [anyRecords(draw), anyRecords(draw)]

      const { after, problems } = restored(records, saved, everything)

      const present = readTree(after).items
      const named = new Set(problems.map(({ id }) => id))
      for (const id of [...readTree(records).items.keys(), ...readTree(saved).items.keys()])
        if (!named.has(id)) expect(present.has(id)).toBe(true)
    })
  })
})

describe('a restore of bookmarks that Firefox has changed since', () => {
  it('has a title and a tag as they were saved, even if they are too long for Firefox', () => {
    const menu = { id: 'menu', type: 'folder', parentid: 'places', children: ['a'] }
    const [title, tag] = ['t'.repeat(4097), 'g'.repeat(101)]
    const lost = { id: 'a', type: 'bookmark', parentid: 'menu', bmkUri: 'https://a.example/' }
    const saved = [menu, { ...lost, title, tags: [tag] }].map((each) => recordAt(each))

    const { after } = restored([recordAt({ ...menu, children: [] })], saved, everything)

    expect(readTree(after).items.get('a')).toMatchObject({ title, tags: [tag] })
  })

  it('brings back what was deleted, and leaves the rest where it is', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const records = recordsOf(changed(forest, draw, 'n', 20))
      const before = readTree(records).items

      const { after } = restored(records, recordsOf(forest), { ...everything, overwrites: false })

      const now = readTree(after).items
      for (const { id, title, address, parent } of before.values())
        expect(now.get(id)).toMatchObject({ title, address, parent })
      for (const { id } of nodesOf(forest)) expect(now.has(id)).toBe(true)
      expect(complaints(after)).toEqual([])
    })
  })

  it('leaves what has lost its folder as it is: it is in that again', () => {
    check((draw) => {
      const records = recordsOf(randomForest(draw))
      const left = records.filter(() => draw(3) > 0)

      const { after } = restored(left, records, { ...everything, overwrites: false })

      const clear = new Map(after.map((record) => [record.stored.id, record.clear]))
      for (const record of left)
        if (record.clear?.type !== 'folder') expect(clear.get(record.stored.id)).toEqual(record.clear)
      expect(shapeOf(readTree(after))).toBe(shapeOf(readTree(records)))
    })
  })

  it('brings back the tree of that time with --overwrite, if nothing is new', () => {
    check((draw) => {
      const forest = randomForest(draw)
      const records = recordsOf(changed(forest, draw, 'n', 20))
      const before = readTree(records).items
      const saved = recordsOf(forest)

      const { after } = restored(records, saved, everything)

      const known = new Set(nodesOf(forest).map(({ id }) => id))
      const isNew = [...before.keys()].some((id) => !known.has(id))
      if (!isNew) expect(shapeOf(readTree(after))).toBe(shapeOf(readTree(saved)))
      expect(complaints(after)).toEqual([])
    })
  })
})
