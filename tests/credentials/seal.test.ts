import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { createDecipheriv, createHash, createHmac, hkdfSync, randomBytes } from 'node:crypto'

import { Seal, maxSealedLength } from '../../src/credentials/seal.ts'
import {
  identities,
  isSameIdentity,
  nowMs,
  secret,
  someCredentials,
  someIdentity,
  tokenServerUrl,
} from './identities.ts'

const seal = new Seal({ secret, tokenServerUrl, randomBytes })
const contents = { credentials: someCredentials(), expiresAtMs: nowMs + 300_000 }

describe('Seal', () => {
  it('gives different identities different indexes and never opens across, for 2000 pairs', () => {
    let different = 0
    fc.assert(
      fc.property(identities, identities, (one, other) => {
        const isSame = isSameIdentity(one, other)
        if (!isSame) different += 1
        expect(seal.index(one) === seal.index(other)).toBe(isSame)
        expect(seal.open(other, seal.seal(one, contents)) !== null).toBe(isSame)
      }),
      { numRuns: 2000 },
    )
    expect(different).toBeGreaterThan(1800)
  })

  it("can't be opened once any character is changed, removed or repeated", () => {
    const text = seal.seal(someIdentity(), contents)
    const mutations: string[] = []
    for (let at = 0; at < text.length; at++) {
      const [before, after] = [text.slice(0, at), text.slice(at + 1)]
      for (const character of ['A', '_', '=', '+', '.', ' ', '\n', '\u0000', 'é', '2']) {
        if (character !== text[at]) mutations.push(before + character + after)
      }
      mutations.push(before + after, before + text[at] + text[at] + after, before)
    }

    const opened = mutations.filter((mutation) => seal.open(someIdentity(), mutation) !== null)

    expect(opened).toEqual([])
  })

  it('opens nothing foreign, and never throws', () => {
    const foreign = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.json(),
      fc.uint8Array({ maxLength: 200 }).map((bytes) => `v3.${Buffer.from(bytes).toString('base64url')}`),
    )

    fc.assert(
      fc.property(foreign, (text) => seal.open(someIdentity(), text) === null),
      { numRuns: 500 },
    )
  })

  it('rejects a value over 8 KiB, even if it sealed it itself', () => {
    const long = { ...contents, credentials: someCredentials({ hawkId: 'x'.repeat(6100) }) }
    const longest = { ...contents, credentials: someCredentials({ hawkId: 'x'.repeat(5800) }) }
    const [tooLong, notTooLong] = [seal.seal(someIdentity(), long), seal.seal(someIdentity(), longest)]

    expect(tooLong.length).toBeGreaterThan(maxSealedLength)
    expect(seal.open(someIdentity(), tooLong)).toBeNull()
    expect(notTooLong.length).toBeLessThan(maxSealedLength)
    expect(seal.open(someIdentity(), notTooLong)).toEqual(longest)
  })

  it('encrypts with a key derived from the secret, the assertion and the identity, for that index and version only', () => {
    const { assertion, clientState } = someIdentity()
    const text = seal.seal(someIdentity(), contents)
    const parts = [secret, Buffer.from(`9:BrowserID${assertion.length}:${assertion}`)]
    const whose = `32:${clientState}-${tokenServerUrl.length}:${tokenServerUrl}`
    const purpose = `sync-bridge credentials: encryption ${createHash('sha256').update(whose).digest('base64url')}`

    const key = hkdfSync('sha256', Buffer.concat(parts), '', purpose, 32)

    expect(decrypt(text, key, `v3.${seal.index(someIdentity())}`)).toEqual(contents)
    expect(decrypt(text, key, seal.index(someIdentity()))).toBeNull()
    expect(
      decrypt(text, hkdfSync('sha256', parts[0]!, '', purpose, 32), `v3.${seal.index(someIdentity())}`),
    ).toBeNull()
  })

  it('finds credentials under a key of the whole identity, the token server and the secret', () => {
    const { assertion, clientState } = someIdentity()
    const key = hkdfSync('sha256', secret, '', 'sync-bridge credentials: index', 32)
    const whole = `9:BrowserID${assertion.length}:${assertion}32:${clientState}3:1-a${tokenServerUrl.length}:${tokenServerUrl}`

    expect(seal.index(someIdentity({ keyId: '1-a' }))).toBe(
      createHmac('sha256', Buffer.from(key)).update(whole).digest('base64url'),
    )
  })

  it('takes every nonce from the given random source, 12 bytes each', () => {
    const asked: number[] = []
    const counting = new Seal({
      secret,
      tokenServerUrl,
      randomBytes(count) {
        asked.push(count)
        return new Uint8Array(count).fill(asked.length)
      },
    })

    const texts = [counting.seal(someIdentity(), contents), counting.seal(someIdentity(), contents)]

    expect(asked).toEqual([12, 12])
    expect(
      texts.map((text) => Buffer.from(text.slice(3), 'base64url').subarray(0, 12).toString('hex')),
    ).toEqual(['01'.repeat(12), '02'.repeat(12)])
  })

  it('accepts key ids of any length', () => {
    const identity = someIdentity({ keyId: 'k'.repeat(8000) })

    expect(seal.open(identity, seal.seal(identity, contents))).toEqual(contents)
  })
})

/** What is needed besides the key to read a sealed text without the code under test. */
function decrypt(text: string, key: ArrayBuffer, associated: string): unknown {
  const bytes = Buffer.from(text.slice(3), 'base64url')
  const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key), bytes.subarray(0, 12))
  decipher.setAAD(Buffer.from(associated))
  decipher.setAuthTag(bytes.subarray(-16))
  try {
    return JSON.parse(Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString())
  } catch {
    return null
  }
}
