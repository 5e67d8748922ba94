import { describe, expect, it } from 'bun:test'
import { judgeDelete, judgePut, judgeRead } from '../../src/domain/precondition.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
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

// What is judged of a version that exists, and of none, by reading, putting and deleting.
const verdicts: [name: string, existing: [string, string, string], missing: [string, string, string]][] = [
  ['none', ['proceed', 'proceed', 'proceed'], ['missing', 'proceed', 'missing']],
  ['exists', ['proceed', 'proceed', 'proceed'], ['missing', 'failed', 'missing']],
  ['absent', ['not-modified', 'failed', 'proceed'], ['missing', 'proceed', 'missing']],
  ['unmodified since before it', ['failed', 'failed', 'failed'], ['missing', 'failed', 'missing']],
  ['unmodified since it', ['proceed', 'proceed', 'proceed'], ['missing', 'failed', 'missing']],
  ['modified since before it', ['proceed', 'proceed', 'proceed'], ['missing', 'proceed', 'missing']],
  ['modified since it', ['not-modified', 'proceed', 'proceed'], ['missing', 'proceed', 'missing']],
]

describe('judgeRead, judgePut, judgeDelete', () => {
  it.each(verdicts)('judge "%s"', (name, existing, missing) => {
    const condition = conditions[name]!

    const judge = (version: typeof current | null): string[] => [
      judgeRead(condition, version),
      judgePut(condition, version),
      judgeDelete(condition, version),
    ]

    expect(judge(current)).toEqual(existing)
    expect(judge(null)).toEqual(missing)
  })
})
