import { createDecipheriv, createHash, createHmac, webcrypto } from 'node:crypto'
import { describe, expect, it } from 'bun:test'
import { clientStateOf, encryptPayload, syncKeyOf, toKeyBundle } from '../../src/sandbox/crypto.ts'

const masterKey = Buffer.alloc(32, 7)

describe('syncKeyOf', () => {
  it('is HKDF-SHA256 of the master key', async () => {
    const imported = await webcrypto.subtle.importKey('raw', masterKey, 'HKDF', false, ['deriveBits'])
    const info = Buffer.from('identity.mozilla.com/picl/v1/oldsync')
    const parameters = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(32), info }

    const wanted = await webcrypto.subtle.deriveBits(parameters, imported, 512)

    expect(syncKeyOf(masterKey)).toEqual(Buffer.from(wanted))
  })
})

describe('clientStateOf', () => {
  it('is the first half of the SHA-256 in hex', () => {
    expect(clientStateOf(masterKey)).toBe(createHash('sha256').update(masterKey).digest('hex').slice(0, 32))
  })
})

describe('encryptPayload', () => {
  it('authenticates the base64 text and encrypts with the first half of the key', () => {
    const syncKey = syncKeyOf(masterKey)
    const iv = Buffer.alloc(16, 3)

    const payload = encryptPayload(toKeyBundle(syncKey), { id: 'a', title: 'Ä' }, iv)

    const { ciphertext, IV, hmac } = JSON.parse(payload) as Record<string, string>
    const decipher = createDecipheriv('aes-256-cbc', syncKey.subarray(0, 32), iv)
    const clear = decipher.update(ciphertext ?? '', 'base64', 'utf8') + decipher.final('utf8')
    expect(IV).toBe(iv.toString('base64'))
    expect(hmac).toBe(
      createHmac('sha256', syncKey.subarray(32))
        .update(ciphertext ?? '')
        .digest('hex'),
    )
    expect(JSON.parse(clear)).toEqual({ id: 'a', title: 'Ä' })
  })
})
