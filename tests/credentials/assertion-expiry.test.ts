import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'

import { assertionExpiry } from '../../src/credentials/credentials.ts'
import { nowMs, signedPart, toBase64Url } from './identities.ts'

function expiryOf(assertion: string): number {
  return assertionExpiry({ assertion })
}

describe('assertionExpiry', () => {
  const part = (exp: number) => signedPart({ exp })

  const chain = (...ends: number[]) => ends.map((end) => part(nowMs + end)).join('~')

  it.each([
    ['an assertion that ends before its certificate', chain(9000, 5000), nowMs + 5000],
    ['a certificate that ends before its assertion', chain(2000, 5000), nowMs + 2000],
    ['the earliest of a longer chain', chain(4, 1, 3), nowMs + 1],
    ['an access token, in seconds', signedPart({ sub: 'user', exp: nowMs / 1000 }), nowMs],
    ['an access token, in fractions of a second', part(1_714_564_800.5), 1_714_564_800_500],
    ['one that has always been over', part(0), 0],
    ['one that was over before 1970', part(-1.7e308), 0],
    ['the parts that can be read', `nonsense~${part(nowMs)}~a.b.c`, nowMs],
  ])('is that of %s', (_, assertion, expiry) => {
    expect(expiryOf(assertion)).toBe(expiry)
  })

  it('is infinite for opaque tokens and for parts without an expiry', () => {
    const claims = [{}, null, [], 'exp', 1, { exp: null }, { exp: '1714564800' }, { exp: [1_714_564_800] }]
    const texts = ['{"exp":1e999}', '{"exp":NaN}', '{"exp":1']
    const whole = toBase64Url(JSON.stringify({ exp: nowMs }))
    const opaque = [
      whole,
      `x.${whole}`,
      '3a1f9c'.repeat(10),
      ...' ~ ~~~ .. a.b.c'.split(' '),
      ...[...claims, { payload: { exp: nowMs } }].map(signedPart),
      ...texts.map((text) => `x.${toBase64Url(text)}.y`),
    ]

    expect(opaque.map(expiryOf)).toEqual(opaque.map(() => Infinity))
  })

  it('never throws and only returns a time or infinity, for any text', () => {
    const json = fc.oneof(
      fc.json(),
      fc.double().map((exp) => `{"exp":${exp}}`),
      fc.string({ unit: 'binary' }),
    )
    const part = fc.oneof(
      fc.string({ unit: 'binary' }),
      json.map((text) => `h.${toBase64Url(text)}.s`),
      fc.array(fc.base64String(), { maxLength: 5 }).map((segments) => segments.join('.')),
    )
    const assertions = fc.array(part, { maxLength: 4 }).map((parts) => parts.join('~'))

    fc.assert(
      fc.property(assertions, (assertion) => {
        const expiry = expiryOf(assertion)
        expect(expiry > -Infinity).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  it('survives deeply nested JSON', () => {
    expect(expiryOf(`h.${toBase64Url('['.repeat(100_000))}.s`)).toBe(Infinity)
    expect(expiryOf(`h.${toBase64Url('['.repeat(5000) + ']'.repeat(5000))}.s`)).toBe(Infinity)
  })
})
