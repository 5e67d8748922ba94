import { describe, expect, it } from 'bun:test'
import { allowsDelete, allowsPut, judgeCollection, judgeGet } from '../../src/domain/precondition.ts'
import type { GetOutcome, Precondition } from '../../src/domain/precondition.ts'
import { timestamp } from '../../src/domain/timestamp.ts'

const current = timestamp(2000)
const conditions: Record<string, Precondition> = {
  none: { kind: 'none' },
  exists: { kind: 'exists' },
  absent: { kind: 'absent' },
  'unmodified since before it': { kind: 'unmodified-since', timestamp: timestamp(1990) },
  'unmodified since it': { kind: 'unmodified-since', timestamp: current },
  'modified since before it': { kind: 'differs', timestamp: timestamp(1990) },
  'modified since it': { kind: 'differs', timestamp: current },
}

type Verdicts = [get: GetOutcome['outcome'], put: boolean, remove: boolean]

// What is judged of a version that exists, and of none, by reading and putting; and of one that exists by deleting.
const verdicts: [name: string, existing: Verdicts, missing: boolean][] = [
  ['none', ['found', true, true], true],
  ['exists', ['found', true, true], false],
  ['absent', ['not-modified', false, true], true],
  ['unmodified since before it', ['precondition-failed', false, false], false],
  ['unmodified since it', ['found', true, true], false],
  ['modified since before it', ['found', true, true], true],
  ['modified since it', ['not-modified', true, true], true],
]

describe('judgeGet, allowsPut, allowsDelete', () => {
  it.each(verdicts)('judge "%s"', (name, existing, isCreated) => {
    const condition = conditions[name]!
    const record = { id: 'a', lastModified: current, payload: '' }

    const verdict: Verdicts = [
      judgeGet(condition, record).outcome,
      allowsPut(condition, current),
      allowsDelete(condition, current),
    ]

    expect(verdict).toEqual(existing)
    expect(judgeGet(condition, null)).toEqual({ outcome: 'missing' })
    expect(allowsPut(condition, null)).toBe(isCreated)
  })
})

describe('judgeCollection', () => {
  it.each(verdicts)(
    'judges "%s" like a read of a record, but no collection is ever absent',
    (name, [get]) => {
      const verdict = judgeCollection(conditions[name]!, current)

      expect(verdict?.outcome ?? 'found').toBe(name === 'absent' ? 'found' : get)
    },
  )
})
