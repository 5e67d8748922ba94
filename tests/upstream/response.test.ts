import { describe, expect, it } from 'bun:test'
import { nextOffsetOf, parseJson } from '../../src/upstream/response.ts'

describe('parseJson', () => {
  it('does not parse long texts so deep that their value would take many times their memory', () => {
    const deep = (depth: number) =>
      `{"a":"${'x'.repeat(65_536)}","b":${'['.repeat(depth)}${']'.repeat(depth)}}`

    expect(parseJson(deep(31))).toMatchObject({ b: expect.any(Array) })
    expect(parseJson(deep(32))).toBeUndefined()
  })
})

describe('nextOffsetOf', () => {
  it('rejects an offset that a page token cannot have', () => {
    for (const offset of ['x'.repeat(1025), '5 6', '\u00e9'])
      expect(() => nextOffsetOf(new Headers({ 'X-Weave-Next-Offset': offset }))).toThrow(
        'the offset of the next page is invalid',
      )
  })
})
