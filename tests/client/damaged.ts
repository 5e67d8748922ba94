import { createCipheriv, createHmac } from 'node:crypto'

/** A sync key, as 128 hexadecimal digits. */
export const key = '0123456789abcdef'.repeat(8)
/** Its two halves. */
export const [encryption, authentication] = [key.slice(0, 64), key.slice(64)].map((half) =>
  Buffer.from(half, 'hex'),
)

/** A payload whose HMAC is valid, whatever its ciphertext is. */
function vouched(bytes: Buffer, more = {}): string {
  const ciphertext = bytes.toString('base64')
  const hmac = createHmac('sha256', authentication!).update(ciphertext).digest('hex')
  return JSON.stringify({ ciphertext, IV: Buffer.alloc(16).toString('base64'), hmac, ...more })
}

function encrypted(text: string, pads = true): Buffer {
  const cipher = createCipheriv('aes-256-cbc', encryption!, Buffer.alloc(16)).setAutoPadding(pads)
  return Buffer.concat([cipher.update(text), cipher.final()])
}

/** The payload of a record with that content. */
export const sealed = (text: string, more = {}) => vouched(encrypted(text), more)

/** The content of a valid record. */
export const clear = JSON.stringify({ id: 'right', title: '«é»' })
/** Payloads that the key can't decrypt, or whose content is not that of the record `right`. */
export const damaged = {
  'invalid JSON': 'plain',
  'endlessly nested JSON': '['.repeat(100_000),
  'a list': '[]',
  'an IV that is too short': sealed(clear, { IV: 'AAAA' }),
  'an IV that is not text': sealed(clear, { IV: 1 }),
  'another IV': sealed(clear, { IV: '/////////////////////w==' }),
  'an hmac that is not ASCII': sealed(clear, { hmac: '«»' }),
  'an hmac that is not text': sealed(clear, { hmac: null }),
  'an hmac with half a byte': sealed(clear, { hmac: '\ud800' }),
  'a ciphertext with a partial block': vouched(Buffer.alloc(8)),
  'no padding': vouched(encrypted('~'.repeat(48), false)),
  'content that is not JSON': sealed('plain'),
  'endlessly nested content': sealed('['.repeat(100_000)),
  'content nested 101 levels deep': sealed(`{"id":"right","a":${'['.repeat(100)}${']'.repeat(100)}}`),
  'content that is a list': sealed('["right"]'),
  'content of another id': sealed('{"id":"wrong"}'),
}
