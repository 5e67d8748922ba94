import { describe, expect, it } from 'bun:test'
import { timestamp } from '../../src/domain/record.ts'
import {
  collectNotices,
  lastModifiedOf,
  nextOffsetOf,
  parseJson,
  readRetryAfter,
  recordCountOf,
} from '../../src/upstream/answer.ts'
import type { Notices } from '../../src/domain/record-storage.ts'

describe('parseJson', () => {
  it('leaves alone what is long and so deep that its value would take many times its memory', () => {
    const deep = (depth: number) =>
      `{"a":"${'x'.repeat(65_536)}","b":${'['.repeat(depth)}${']'.repeat(depth)}}`

    expect(parseJson(deep(31))).toMatchObject({ b: expect.any(Array) })
    expect(parseJson(deep(32))).toBeUndefined()
  })
})

describe('lastModifiedOf', () => {
  it('reads decimal seconds', () => {
    expect(lastModifiedOf(new Headers({ 'X-Last-Modified': '1234567890.12' }))).toBe(
      timestamp(1_234_567_890_120),
    )
    expect(lastModifiedOf(new Headers({ 'X-Last-Modified': '0' }))).toBe(timestamp(0))
  })

  it.each(['', '-1.00', '1e9', 'NaN', '1.234', '1,00', '1.00, 2.00', '0x10'])('rejects "%s"', (text) => {
    const headers = new Headers({ 'X-Last-Modified': text })

    expect(() => lastModifiedOf(headers)).toThrow('X-Last-Modified is missing or invalid')
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
    expect(() => nextOffsetOf(new Headers({ 'X-Weave-Next-Offset': 'x'.repeat(2000) }))).toThrow(
      'the offset of the next page is too long',
    )
  })
})

describe('collectNotices', () => {
  const nothing = (): Notices => ({ backoffSeconds: null, alert: null, quotaRemaining: null })

  it('keeps the longest pause, the last alert and the last quota', () => {
    const notices = nothing()

    collectNotices(
      notices,
      new Headers({ 'X-Weave-Backoff': '30', 'X-Backoff': '12', 'X-Weave-Alert': 'soon' }),
    )
    collectNotices(notices, new Headers({ 'X-Backoff': '10.2', 'X-Weave-Quota-Remaining': '123.90' }))

    expect(notices).toEqual({ backoffSeconds: 30, alert: 'soon', quotaRemaining: '123.90' })
  })

  it('caps a pause at a day and rounds it up', () => {
    const notices = nothing()

    collectNotices(notices, new Headers({ 'X-Weave-Backoff': '1.2' }))
    expect(notices.backoffSeconds).toBe(2)

    collectNotices(notices, new Headers({ 'X-Weave-Backoff': '1000000000' }))
    expect(notices.backoffSeconds).toBe(86_400)
  })

  it.each(['soon', '-1', 'NaN', 'Infinity', '1e3', '', '1, 2'])(
    'drops "%s", and an endless alert',
    (junk) => {
      const notices = nothing()

      const endless = 'x'.repeat(100_000)
      const headers = { 'X-Weave-Backoff': junk, 'X-Weave-Quota-Remaining': junk, 'X-Weave-Alert': endless }
      collectNotices(notices, new Headers(headers))

      expect(notices).toEqual(nothing())
    },
  )
})

describe('readRetryAfter', () => {
  const nowMs = Date.parse('2026-01-01T00:00:00Z')

  it.each([
    ['120', 120],
    ['0', 0],
    ['1.2', 2],
    ['999999999', 86_400],
    ['Thu, 01 Jan 2026 00:01:30 GMT', 90],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['-5', null],
    ['soon', null],
    ['Monday morning, early', null],
    ['NaN', null],
    ['1e3', null],
  ])('"%s" is %o', (text, seconds) => {
    expect(readRetryAfter(new Headers({ 'Retry-After': text }), nowMs)).toBe(seconds)
  })

  it('is null when absent', () => {
    expect(readRetryAfter(new Headers(), nowMs)).toBeNull()
  })
})
