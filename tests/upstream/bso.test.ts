import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { toExposedJson } from '../../src/domain/record.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import { readBso, readUploadResult, toExposedText, writeBsos } from '../../src/upstream/bso.ts'

const expose = (text: string) => toExposedText(text, JSON.parse(text))

describe('toExposedText', () => {
  it.each([
    '{"id":"a","modified":0.01,"payload":""}',
    '{"id":"a","modified":12,"payload":""}',
    '{"id":"a","modified":1.5,"payload":""}',
    '{"id":"a","modified":1.2e3,"payload":""}',
    '{"id":"a","modified": 1.25,"payload":""}',
    '{"id":"a","modified":1.25,"payload":"","modified":2.25}',
    '{"id":"a","modified":1.25,"payload":null}',
    '{"id":"a","modified":1.25}',
    '{"id":"a","modified":1.25,"payload":"","sortindex":null}',
    '{"id":"a","modified":1.25,"payload":"","ttl":60}',
    '{"id":"a","payload":"","x":{"modified":1.25},"modifi\\u0065d":2.25}',
  ])('leaves %s to be serialized again', (text) => {
    expect(expose(text)).toBeNull()
  })

  it('agrees with parsing and serializing on any record', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }).map((it) => it.toWellFormed()),
      fc.constantFrom('"modified":1.00', '\\', '"', '{}', ','),
    )
    const record = fc.record({
      id: text.filter((id) => id !== ''),
      hundredths: fc.integer({ min: 100, max: 400_000_000_000 }),
      payload: text,
      sortindex: fc.option(fc.integer({ min: -999_999_999, max: 999_999_999 })),
      order: fc.shuffledSubarray(['id', 'modified', 'payload', 'sortindex'] as const, { minLength: 4 }),
    })

    fc.assert(
      fc.property(record, ({ hundredths, order, ...fields }) => {
        const printed = order
          .filter((name) => name !== 'sortindex' || fields.sortindex !== null)
          .map((name) =>
            name === 'modified'
              ? `"modified":${(hundredths / 100).toFixed(2)}`
              : `"${name}":${JSON.stringify(fields[name])}`,
          )
        const bso = `{${printed.join(',')}}`

        expect(JSON.parse(expose(bso)!)).toEqual(JSON.parse(toExposedJson(readBso(JSON.parse(bso))!)))
      }),
      { numRuns: 500 },
    )
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
  ])('rejects %j', (value) => {
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
  it('omits the fields that keep their stored value', () => {
    const text = writeBsos([
      { id: 'a', payload: 'x', sortindex: 0, ttlSeconds: 60 },
      { id: 'b', sortindex: 3 },
      { id: 'c' },
    ])

    expect(text).toBe('[{"id":"a","payload":"x","sortindex":0,"ttl":60},{"id":"b","sortindex":3},{"id":"c"}]')
  })
})

const records = (...ids: string[]) => ids.map((id) => ({ id }))

describe('readUploadResult', () => {
  it('reports which records were rejected, and why', () => {
    const failed = { b: 'invalid bso', c: ['retry bytes'] }

    const result = readUploadResult({ modified: 12.34, success: ['a'], failed }, records('a', 'b', 'c', 'd'))

    expect(result).toMatchObject({ timestamp: timestamp(12_340), batch: null, hasDatabaseFailed: false })
    expect(Array.from(result.rejected, ([id, { status }]) => [id, status])).toEqual([
      ['b', 400],
      ['c', 413],
      ['d', 400],
    ])
  })

  it('reports a database failure', () => {
    const failed = { a: 'db error', b: 'db error' }

    expect(readUploadResult({ success: [], failed }, records('a', 'b')).hasDatabaseFailed).toBe(true)
  })

  it('reads a batch id that is a string or a number', () => {
    expect(readUploadResult({ batch: 'MTI=', success: [], failed: {} }, []).batch).toBe('MTI=')
    expect(readUploadResult({ batch: 12, success: [], failed: {} }, []).batch).toBe('12')
  })

  it.each([undefined, null, 0, [[]], {}, { success: 'a' }, { success: [], failed: 'x' }])(
    'rejects %j',
    (value) => {
      expect(() => readUploadResult(value, records('a'))).toThrow('the result of the upload')
    },
  )
})
