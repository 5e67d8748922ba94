import { describe, expect, it } from 'bun:test'
import { collectNotices, nextOffsetOf, parseJson, recordCountOf } from '../../src/upstream/response.ts'
import type { Notices } from '../../src/domain/record-storage.ts'

describe('parseJson', () => {
  it('does not parse long texts so deep that their value would take many times their memory', () => {
    const deep = (depth: number) =>
      `{"a":"${'x'.repeat(65_536)}","b":${'['.repeat(depth)}${']'.repeat(depth)}}`

    expect(parseJson(deep(31))).toMatchObject({ b: expect.any(Array) })
    expect(parseJson(deep(32))).toBeUndefined()
  })
})

describe('recordCountOf and nextOffsetOf', () => {
  it('read the headers of a response', () => {
    const headers = new Headers({ 'X-Weave-Records': '12', 'X-Weave-Next-Offset': 'a:1' })

    expect(recordCountOf(headers)).toBe(12)
    expect(nextOffsetOf(headers)).toBe('a:1')
    expect(recordCountOf(new Headers({ 'X-Weave-Records': '-12' }))).toBeNull()
    expect(recordCountOf(new Headers())).toBeNull()
    expect(nextOffsetOf(new Headers())).toBeNull()
  })

  it('reject an offset that a page token cannot have', () => {
    for (const offset of ['x'.repeat(1025), '5 6', '\u00e9'])
      expect(() => nextOffsetOf(new Headers({ 'X-Weave-Next-Offset': offset }))).toThrow(
        'the offset of the next page is invalid',
      )
  })
})

describe('collectNotices', () => {
  const nothing = (): Notices => ({
    backoffSeconds: null,
    alert: null,
    isShutDown: false,
    quotaRemaining: null,
  })

  it('drops a Backoff below zero', () => {
    const notices = nothing()

    collectNotices(notices, new Headers({ 'X-Weave-Backoff': '-1' }))

    expect(notices).toEqual(nothing())
  })

  it.each(['soon', 'NaN', 'Infinity', '1e3', '', '1, 2'])('drops "%s", and an endless alert', (junk) => {
    const notices = nothing()

    const endless = 'x'.repeat(100_000)
    const headers = { 'X-Weave-Backoff': junk, 'X-Weave-Quota-Remaining': junk, 'X-Weave-Alert': endless }
    collectNotices(notices, new Headers(headers))

    expect(notices).toEqual(nothing())
  })
})
