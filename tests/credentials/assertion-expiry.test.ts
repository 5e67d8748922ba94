import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'

import { assertionExpiry } from '../../src/credentials/assertion-expiry.ts'
import { nowMs, signedPart, toBase64Url } from './identities.ts'

function expiryOf(assertion: string): number {
  return assertionExpiry({ assertion })
}

describe('assertionExpiry', () => {
  it('is the expiry of an assertion that ends before its certificate', () => {
    const assertion = `${signedPart({ iss: 'x', exp: nowMs + 9000 })}~${signedPart({ aud: 'y', exp: nowMs + 5000 })}`

    expect(expiryOf(assertion)).toBe(nowMs + 5000)
  })

  it('is the expiry of a certificate that ends before its assertion', () => {
    const assertion = `${signedPart({ exp: nowMs + 2000 })}~${signedPart({ exp: nowMs + 5000 })}`

    expect(expiryOf(assertion)).toBe(nowMs + 2000)
  })

  it('is the earliest of a longer chain', () => {
    const ends = [nowMs + 4000, nowMs + 1000, nowMs + 3000]

    expect(expiryOf(ends.map((exp) => signedPart({ exp })).join('~'))).toBe(nowMs + 1000)
  })

  it('reads the seconds of an access token', () => {
    expect(expiryOf(signedPart({ sub: 'user', exp: nowMs / 1000 }))).toBe(nowMs)
  })

  it('reads fractions of a second', () => {
    expect(expiryOf(signedPart({ exp: 1_714_564_800.5 }))).toBe(1_714_564_800_500)
  })

  it('takes an expiry of zero at its word, and one before 1970 for as much', () => {
    expect(expiryOf(signedPart({ exp: 0 }))).toBe(0)
    expect(expiryOf(signedPart({ exp: -1.7e308 }))).toBe(0)
  })

  it('keeps to the parts that it can read', () => {
    expect(expiryOf(`nonsense~${signedPart({ exp: nowMs })}~a.b.c`)).toBe(nowMs)
  })

  it('is infinite for opaque tokens and for parts without an expiry', () => {
    const opaque = [
      '',
      '~',
      '~~~',
      '..',
      'a.b.c',
      '3a1f9c'.repeat(10),
      signedPart({}),
      signedPart(null),
      signedPart([]),
      signedPart('exp'),
      signedPart(1),
      signedPart({ exp: null }),
      signedPart({ exp: '1714564800' }),
      signedPart({ exp: [1_714_564_800] }),
      signedPart({ payload: { exp: nowMs } }),
      `x.${toBase64Url('{"exp":1e999}')}.y`,
      `x.${toBase64Url('{"exp":NaN}')}.y`,
      `x.${toBase64Url('{"exp":1')}.y`,
      `x.${toBase64Url(JSON.stringify({ exp: nowMs }))}`,
      toBase64Url(JSON.stringify({ exp: nowMs })),
    ]

    expect(opaque.map(expiryOf)).toEqual(opaque.map(() => Infinity))
  })

  it('never throws and never returns anything but a time or infinity, whatever the text', () => {
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
      { numRuns: 3000 },
    )
  })

  it('survives JSON that nests deeply', () => {
    expect(expiryOf(`h.${toBase64Url('['.repeat(100_000))}.s`)).toBe(Infinity)
    expect(expiryOf(`h.${toBase64Url('['.repeat(5000) + ']'.repeat(5000))}.s`)).toBe(Infinity)
  })
})
