import { describe, expect, it } from 'bun:test'
import { timestamp } from '../../src/domain/timestamp.ts'
import { readBso, readUploadResult, writeBsos } from '../../src/upstream/bso.ts'
import {
  chunkIds,
  lastModifiedOf,
  collectNotices,
  listQuery,
  nextOffsetOf,
  preconditionHeaders,
  readRetryAfter,
  recordCountOf,
  toUserAgent,
} from '../../src/upstream/wire.ts'
import type { Notices } from '../../src/domain/record-storage.ts'

describe('listQuery', () => {
  it('asks for whole records and always names the order', () => {
    expect(listQuery({ sort: 'index' })).toEqual([
      ['full', '1'],
      ['sort', 'index'],
    ])
  })

  it('writes moments as seconds with two decimals, rounded down', () => {
    const query = listQuery(
      {
        sort: 'newest',
        newer: timestamp(1_234_567_890_129),
        older: timestamp(1_234_567_891_000),
        ids: ['a', 'b'],
        limit: 5,
      },
      '12:3',
    )

    expect(query.slice(2)).toEqual([
      ['newer', '1234567890.12'],
      ['older', '1234567891.00'],
      ['ids', ['a', 'b']],
      ['limit', '5'],
      ['offset', '12:3'],
    ])
  })

  it('refuses an empty list of ids, which the storage would take for all', () => {
    expect(() => listQuery({ sort: 'newest', ids: [] })).toThrow(RangeError)
  })
})

describe('chunkIds', () => {
  it('makes portions of at most 100 ids, in order', () => {
    const ids = Array.from({ length: 250 }, (_, index) => `id${index}`)

    const chunks = chunkIds(ids)

    expect(chunks.map((chunk) => chunk.length)).toEqual([100, 100, 50])
    expect(chunks.flat()).toEqual(ids)
  })

  it('makes smaller ones of long ids, so that a request line stays below 4 KB', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `{${index}}`.padEnd(64, ' '))

    const chunks = chunkIds(ids)

    expect(chunks.flat()).toEqual(ids)
    expect(Math.max(...chunks.map((chunk) => encodeURIComponent(chunk.join('')).length))).toBeLessThan(3600)
  })

  it('makes none of none', () => {
    expect(chunkIds([])).toEqual([])
  })
})

describe('preconditionHeaders', () => {
  it.each([
    [{ kind: 'unmodified-since', timestamp: timestamp(20_029) }, { 'X-If-Unmodified-Since': '20.02' }],
    [{ kind: 'differs', timestamp: timestamp(20_000) }, { 'X-If-Modified-Since': '20.00' }],
    [{ kind: 'none' }, {}],
    [{ kind: 'exists' }, {}],
    [{ kind: 'absent' }, {}],
  ] as const)('%o', (precondition, headers) => {
    expect(preconditionHeaders(precondition)).toEqual(headers)
  })
})

describe('lastModifiedOf', () => {
  it('reads decimal seconds', () => {
    expect(lastModifiedOf(new Headers({ 'X-Last-Modified': '1234567890.12' }))).toBe(
      timestamp(1_234_567_890_120),
    )
    expect(lastModifiedOf(new Headers({ 'X-Last-Modified': '0' }))).toBe(timestamp(0))
  })

  it.each(['', '-1.00', '1e9', 'NaN', '1.234', '1,00', '1.00, 2.00', '0x10'])('refuses "%s"', (text) => {
    const headers = new Headers({ 'X-Last-Modified': text })

    expect(() => lastModifiedOf(headers)).toThrow('no readable X-Last-Modified')
  })
})

describe('recordCountOf and nextOffsetOf', () => {
  it('read what an answer tells of itself', () => {
    const headers = new Headers({ 'X-Weave-Records': '12', 'X-Weave-Next-Offset': 'a:1' })

    expect(recordCountOf(headers)).toBe(12)
    expect(nextOffsetOf(headers)).toBe('a:1')
    expect(recordCountOf(new Headers({ 'X-Weave-Records': '-12' }))).toBeNull()
    expect(recordCountOf(new Headers())).toBeNull()
    expect(nextOffsetOf(new Headers())).toBeNull()
    expect(() => nextOffsetOf(new Headers({ 'X-Weave-Next-Offset': 'x'.repeat(2000) }))).toThrow(
      'endless offset',
    )
  })
})

describe('toUserAgent', () => {
  it('keeps printable ASCII, at most 256 characters', () => {
    expect(toUserAgent('Firefox/1.0\r\nX: y\u00e9\x7f')).toBe('Firefox/1.0??X: y??')
    expect(toUserAgent('x'.repeat(300))).toHaveLength(256)
    expect(toUserAgent('')).toBe('?')
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

  it.each(['soon', '-1', 'NaN', 'Infinity', '1e3', '', '1, 2'])('drops "%s"', (junk) => {
    const notices = nothing()

    collectNotices(notices, new Headers({ 'X-Weave-Backoff': junk, 'X-Weave-Quota-Remaining': junk }))

    expect(notices).toEqual(nothing())
  })

  it('drops an endless alert', () => {
    const notices = nothing()

    collectNotices(notices, new Headers({ 'X-Weave-Alert': 'x'.repeat(100_000) }))

    expect(notices.alert).toBeNull()
  })
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

describe('readBso', () => {
  it('reads a record', () => {
    expect(readBso({ id: 'a', modified: 1_444_385_059.19, payload: 'x', sortindex: -3 })).toEqual({
      id: 'a',
      lastModified: timestamp(1_444_385_059_190),
      payload: 'x',
      sortindex: -3,
    })
    expect(readBso({ id: 'a', modified: 1, payload: 'x', sortindex: null, ttl: null })).toEqual({
      id: 'a',
      lastModified: timestamp(1000),
      payload: 'x',
    })
  })

  it.each([
    null,
    [[]],
    'a',
    {},
    { id: 'a', payload: '' },
    { id: '', modified: 1, payload: '' },
    { id: 7, modified: 1, payload: '' },
    { id: 'a', modified: '1', payload: '' },
    { id: 'a', modified: -1, payload: '' },
    { id: 'a', modified: 1e99, payload: '' },
    { id: 'a', modified: Number.NaN, payload: '' },
    { id: 'a', modified: 1, payload: {} },
    { id: 'a', modified: 1, payload: '', sortindex: 1.5 },
    { id: 'a', modified: 1, payload: '', sortindex: '1' },
  ])('finds no record in %j', (value) => {
    expect(readBso(value)).toBeNull()
  })

  it('is exact for two-decimal seconds', () => {
    for (let hundredths = 120_000_000_000; hundredths < 120_000_100_000; hundredths += 1) {
      const seconds = JSON.parse(
        `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, '0')}`,
      )

      if (readBso({ id: 'a', modified: seconds })?.lastModified !== hundredths * 10) {
        expect().fail(`${seconds} is not exact`)
      }
    }
  })
})

describe('writeBsos', () => {
  it('leaves out the fields that keep what is stored', () => {
    const text = writeBsos([
      { id: 'a', payload: 'x', sortindex: 0, ttlSeconds: 60 },
      { id: 'b', sortindex: 3 },
      { id: 'c' },
    ])

    expect(text).toBe('[{"id":"a","payload":"x","sortindex":0,"ttl":60},{"id":"b","sortindex":3},{"id":"c"}]')
  })
})

describe('readUploadResult', () => {
  it('tells what was refused, and why', () => {
    const failed = { b: 'invalid bso', c: ['retry bytes'] }

    const result = readUploadResult({ modified: 12.34, success: ['a'], failed }, ['a', 'b', 'c', 'd'])

    expect(result).toEqual({
      timestamp: timestamp(12_340),
      batch: null,
      rejected: new Map([
        ['b', 'invalid'],
        ['c', 'too-large'],
        ['d', 'invalid'],
      ]),
    })
  })

  it('tells the name of a batch, whether it is text or a number', () => {
    expect(readUploadResult({ batch: 'MTI=', success: [], failed: {} }, [])?.batch).toBe('MTI=')
    expect(readUploadResult({ batch: 12, success: [], failed: {} }, [])?.batch).toBe('12')
  })

  it.each([undefined, null, 0, [[]], {}, { success: 'a' }, { success: [], failed: 'x' }])(
    'finds none in %j',
    (value) => {
      expect(readUploadResult(value, ['a'])).toBeNull()
    },
  )
})
