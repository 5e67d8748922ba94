import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { toExposedJson } from '../../src/domain/record.ts'
import { readBso, toExposedText } from '../../src/upstream/bso.ts'

const expose = (text: string) => toExposedText(text, JSON.parse(text))

describe('toExposedText', () => {
  it('changes the timestamp, and leaves all other text alone', () => {
    expect(expose('{"id":"a","modified":1234567890.12,"payload":"{\\"x\\":1}","sortindex":-5}')).toBe(
      '{"id":"a","last_modified":1234567890120,"payload":"{\\"x\\":1}","sortindex":-5}',
    )
    expect(expose('{"payload":"x","id":"a","modified":1.00}')).toBe(
      '{"payload":"x","id":"a","last_modified":1000}',
    )
  })

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
  ])('leaves %s to be printed anew', (text) => {
    expect(expose(text)).toBeNull()
  })

  it('agrees with parse and print on any record', () => {
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
