import { describe, expect, it } from 'bun:test'
import { mergeChildren } from '../../src/cli/data/restore-plan.ts'

describe('mergeChildren', () => {
  it('puts each child after its former predecessor, at the front, or last if its position is unknown', () => {
    const back = new Set(['a', 'c', 'e', 'new'])

    expect(mergeChildren(['d', 'b', 'x'], ['a', 'b', 'c', 'd', 'e'], back)).toEqual(
      'a d e b c x new'.split(' '),
    )
  })

  it('adds a child once to a folder that lists others twice', () => {
    expect(mergeChildren(['a', 'a'], ['a', 'b', 'b', 'a'], new Set(['b']))).toEqual(['a', 'b', 'a'])
  })
})
