import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { planUnique } from '../../../src/cli/data/restore-unique.ts'
import { draws, recordAt, type Draw } from '../../client/edit/trees.ts'
import type { Source, Wanted } from '../../../src/cli/data/restore-plan.ts'
import type { StoredRecord } from '../../../src/client/collection.ts'

const pick = <Item>(draw: Draw, list: readonly Item[]) => list[draw(list.length)]!

/** Logins of one site, of which Firefox takes some for the same. */
function anyLogins(draw: Draw): StoredRecord[] {
  return ['1', '2', '3', '4', '5', '6']
    .filter(() => draw(4) > 0)
    .map((id) => {
      if (draw(5) === 0) return recordAt({ id, deleted: true }).stored
      const form = pick(draw, ['', 'https://a.example', 'https://b.example'])
      const login = { hostname: 'https://a.example', httpRealm: null, formSubmitURL: form }
      return recordAt({ id, ...login, username: pick(draw, ['me', 'you']), password: pick(draw, ['p', 'q']) })
        .stored
    })
}

/** A source whose records are not encrypted. */
function sourceOf(current: Map<string, StoredRecord>, saved: Map<string, StoredRecord>): Source {
  const keys = {
    payload: 'keys',
    async openRecord(_: string, { payload }: StoredRecord) {
      const clear = JSON.parse(payload!)
      return { kind: clear.deleted ? 'deleted' : 'living', clear }
    },
  }
  const file = {
    ids: saved.keys(),
    read: async (id: string) => saved.get(id)!,
    has: (id: string) => saved.has(id),
  }
  const client = {
    collection: () => ({
      async *storedPages() {
        yield { records: [...current.values()] }
      },
    }),
  }
  return { collection: 'passwords', client, file, savedKeys: keys, keys } as unknown as Source
}

const byId = (records: StoredRecord[]) => new Map(records.map((record) => [record.id, record]))

describe('a restore of any logins over any others', () => {
  it.each([true, false])('has nothing to do the second time; overwriting: %p', async (overwrites) => {
    const wanted: Wanted = { ids: null, deletedSince: null, overwrites }
    await fc.assert(
      fc.asyncProperty(draws, async (draw) => {
        const current = byId(anyLogins(draw))
        const saved = byId(anyLogins(draw))
        const first = await planUnique(sourceOf(current, saved), wanted)
        for (const { id, savedId, clear } of first.writes)
          current.set(id, recordAt(clear ?? JSON.parse(saved.get(savedId)!.payload!), 2000).stored)

        const second = await planUnique(sourceOf(current, saved), wanted)

        expect(second.writes).toEqual([])
      }),
      { numRuns: 1000, endOnFailure: true },
    )
  })
})
