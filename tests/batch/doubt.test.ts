import { describe, expect, it } from 'bun:test'
import { evaluateProbe } from '../../src/batch/doubt.ts'
import type { RecordWrite } from '../../src/domain/record-storage.ts'
import type { SyncRecord } from '../../src/domain/record.ts'
import { timestamp } from '../../src/domain/timestamp.ts'

describe('evaluateProbe', () => {
  const a = { id: 'a', payload: 'old', sortindex: 1 }
  const b = { ...a, id: 'b' }
  const [newA, newB] = [a, b].map((record) => ({ ...record, payload: 'new' }))
  const [movedA, newC] = [
    { ...a, sortindex: 2 },
    { ...newA!, id: 'c' },
  ]
  const plainC = { id: 'c', payload: 'new' }
  const at = (atMs: number, ...records: Omit<SyncRecord, 'lastModified'>[]) =>
    records.map((record) => [record.id, { ...record, lastModified: timestamp(atMs) }] as const)

  it.each<[string, RecordWrite[], ReturnType<typeof at>, string]>([
    ['what is as before was rejected', [newA!, b], at(1010, newA!), 'applied 1010 b'],
    ['the first time counts', [newA!, newB!], [...at(1020, newA!), ...at(1010, newB!)], 'applied 1010'],
    ['other fields changed', [movedA], at(1010, movedA), 'applied 1010'],
    ['an expired row had a sortindex', [plainC], at(1010, newC), 'applied 1010'],
    ['another client was first', [newA!, b], at(1010, { ...a, payload: 'theirs' }), 'moved'],
    ['the record was overwritten', [newA!], at(1010, { ...newA!, sortindex: 2 }), 'unclear'],
    ['a sortindex was added', [{ id: 'a', payload: 'new' }], at(1010, newA!), 'unclear'],
    ['nothing is left of a record', [{ ...plainC, ttlSeconds: 0 }], [], 'unclear'],
  ])('sees that %s', (_, writes, found, verdict) => {
    const before = new Map(at(500, a, b))
    const records = new Map([...before, ...found])
    const snapshot = { timestamp: timestamp(1020), records }

    const probed = evaluateProbe(writes, before, timestamp(1000), snapshot)

    expect(Object.values(probed).flat().join(' ')).toBe(verdict)
  })
})
