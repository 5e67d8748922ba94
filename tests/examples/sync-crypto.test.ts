import { afterAll, describe, expect, it } from 'bun:test'
import { createCipheriv, createHmac } from 'node:crypto'
import { join } from 'node:path'
import { collectionKeys, decryptRecord, encryptRecord, keyPairFromHex } from '../../src/client/crypto.ts'
import { findPython } from '../clients/python.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { runProgram } from '../support/processes.ts'

const python = await findPython('cryptography==48.0.0')
const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
const key = '0123456789abcdef'.repeat(8)
const [encryption, authentication] = [key.slice(0, 64), key.slice(64)].map((half) => Buffer.from(half, 'hex'))
afterAll(endAll)

/** A payload that the key vouches for, whatever its ciphertext is. */
function vouched(bytes: Buffer, more = {}): string {
  const ciphertext = bytes.toString('base64')
  const hmac = createHmac('sha256', authentication!).update(ciphertext).digest('hex')
  return JSON.stringify({ ciphertext, IV: Buffer.alloc(16).toString('base64'), hmac, ...more })
}

function encrypted(text: string, pads = true): Buffer {
  const cipher = createCipheriv('aes-256-cbc', encryption!, Buffer.alloc(16)).setAutoPadding(pads)
  return Buffer.concat([cipher.update(text), cipher.final()])
}

const sealed = (text: string, more = {}) => vouched(encrypted(text), more)

const clear = JSON.stringify({ id: 'right', title: '«é»' })
const damaged = {
  'no JSON': 'plain',
  'JSON without an end to its depth': '['.repeat(100_000),
  'a list': '[]',
  'an IV that is too short': sealed(clear, { IV: 'AAAA' }),
  'an IV that is no text': sealed(clear, { IV: 1 }),
  'another IV': sealed(clear, { IV: '/////////////////////w==' }),
  'an hmac that is not ASCII': sealed(clear, { hmac: '«»' }),
  'an hmac that is no text': sealed(clear, { hmac: null }),
  'an hmac with half a character': sealed(clear, { hmac: '\ud800' }),
  'a ciphertext with half a block': vouched(Buffer.alloc(8)),
  'no padding': vouched(encrypted('~'.repeat(48), false)),
  'content that is no JSON': sealed('plain'),
  'content without an end to its depth': sealed('['.repeat(100_000)),
  'content that is a list': sealed('["right"]'),
  'content of another id': sealed('{"id":"wrong"}'),
}

describe('sync_crypto.py', () => {
  it.skipIf('reason' in python)(`skips every record that is damaged, and names it${why}`, async () => {
    const program = `
import json, sys
sys.path.insert(0, ${JSON.stringify(join(import.meta.dir, '../../docs/examples/python'))})
sys.dont_write_bytecode = True
from sync_crypto import decrypt_records, key_pair_from_hex
keys = key_pair_from_hex("${key}")
payloads = json.load(open("payloads.json"))
found = {}
for name, payload in payloads.items():
    readable, unreadable = decrypt_records(keys, [{"id": "right", "payload": payload}])
    found[name] = readable or unreadable
print(json.dumps(found))
`
    const payloads = JSON.stringify({ ...damaged, whole: sealed(clear) })
    const cwd = makeFolder({ 'payloads.json': payloads, 'program.py': program })

    const path = 'path' in python ? python.path : ''
    const found = JSON.parse(await runProgram([path, 'program.py'], { cwd }))

    const skipped = Object.fromEntries(Object.keys(damaged).map((name) => [name, ['right']]))
    expect(found).toEqual({ ...skipped, whole: [JSON.parse(clear)] })
  })
})

describe('sync_crypto.py', () => {
  it.skipIf('reason' in python)(
    `encrypts half a surrogate pair, as titles have it that were cut${why}`,
    async () => {
      const program = `
import sys
sys.path.insert(0, ${JSON.stringify(join(import.meta.dir, '../../docs/examples/python'))})
sys.dont_write_bytecode = True
from sync_crypto import encrypt_record, key_pair_from_hex
print(encrypt_record(key_pair_from_hex("${key}"), {"id": "a", "title": "é \\ud83d"}))
`
      const payload = await runProgram(['path' in python ? python.path : '', '-c', program])

      const clear = await decryptRecord(keyPairFromHex(key), { id: 'a', payload })
      expect(clear).toEqual({ id: 'a', title: 'é \ud83d' })
    },
  )
})

describe('sync-crypto.js', () => {
  it.each(Object.entries(damaged))('does not decrypt %s', async (_, payload) => {
    await expect(decryptRecord(keyPairFromHex(key), { id: 'right', payload })).rejects.toThrow()
  })

  it('takes keys without any of single collections, and says when there are none', async () => {
    const pair = [encryption!, authentication!].map((half) => half.toString('base64'))
    const open = (content: object) =>
      collectionKeys(keyPairFromHex(key), { id: 'keys', payload: sealed(JSON.stringify(content)) })
    const keysOf = await open({ id: 'keys', default: pair })
    const payload = await encryptRecord(keysOf('tabs'), { id: 'a' })

    expect(await decryptRecord(keysOf('bookmarks'), { id: 'a', payload })).toEqual({ id: 'a' })
    await expect(open({ id: 'keys' })).rejects.toThrow('it holds no keys')
  })

  it.each(['constructor', '__proto__'])('has the common keys for a collection called %s', async (name) => {
    const pair = [encryption!, authentication!].map((half) => half.toString('base64'))
    const keys = JSON.stringify({ id: 'keys', default: pair, collections: {} })
    const keysOf = await collectionKeys(keyPairFromHex(key), { id: 'keys', payload: sealed(keys) })

    const payload = await encryptRecord(keysOf(name), { id: 'a' })

    expect(await decryptRecord(keyPairFromHex(key), { id: 'a', payload })).toEqual({ id: 'a' })
  })
})
