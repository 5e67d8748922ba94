import { createDecipheriv, createHmac, timingSafeEqual } from 'node:crypto'
import type { KeyBundle } from '../../src/sandbox/crypto.ts'

/** Opens a payload; throws when it was encrypted with other keys or changed since. */
export function decryptPayload({ encryptionKey, hmacKey }: KeyBundle, payload: string): unknown {
  const { ciphertext, IV, hmac } = JSON.parse(payload) as Record<'ciphertext' | 'IV' | 'hmac', string>
  const wanted = createHmac('sha256', hmacKey).update(ciphertext).digest()
  const given = Buffer.from(hmac, 'hex')
  if (wanted.length !== given.length || !timingSafeEqual(wanted, given)) {
    throw new Error('Cannot decrypt the payload: its HMAC is of another key')
  }
  const decipher = createDecipheriv('aes-256-cbc', encryptionKey, Buffer.from(IV, 'base64'))
  return JSON.parse(decipher.update(ciphertext, 'base64', 'utf8') + decipher.final('utf8'))
}
