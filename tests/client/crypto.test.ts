import { describe, expect, it } from 'bun:test'
import {
  collectionKeys,
  decryptRecord,
  decryptRecords,
  encryptRecord,
  keyPairFromHex,
} from '../../src/client/crypto.ts'
import { authentication, clear, damaged, encryption, key, sealed } from './damaged.ts'

describe('decryptRecord and collectionKeys', () => {
  it.each(Object.entries({ ...damaged, whole: sealed(clear) }))(
    'returns the same for %s in a browser, which only has WebCrypto',
    async (_, payload) => {
      const pair = await keyPairFromHex(key)
      const records = [{ id: 'right', payload }]

      const inBrowser = await decryptRecords({ ...pair, openNow: undefined }, records)

      expect(pair.openNow).toBeFunction()
      expect(inBrowser).toEqual(await decryptRecords(pair, records))
    },
  )

  it.each(Object.entries(damaged))('does not decrypt %s', async (_, payload) => {
    await expect(decryptRecord(keyPairFromHex(key), { id: 'right', payload })).rejects.toThrow()
  })

  it('accepts keys without any of single collections, and reports missing keys', async () => {
    const pair = [encryption!, authentication!].map((half) => half.toString('base64'))
    const open = (content: object) =>
      collectionKeys(keyPairFromHex(key), { id: 'keys', payload: sealed(JSON.stringify(content)) })
    const keysOf = await open({ id: 'keys', default: pair })
    const payload = await encryptRecord(keysOf('tabs'), { id: 'a' })

    expect(await decryptRecord(keysOf('bookmarks'), { id: 'a', payload })).toEqual({ id: 'a' })
    for (const unusable of [undefined, [1, 2], ['!', '?'], ['AAAA', 'AAAA'], ['', '']])
      await expect(open({ id: 'keys', default: unusable })).rejects.toThrow('it contains no keys')
  })

  it.each(['constructor', '__proto__'])(
    'returns the common keys for a collection called %s',
    async (name) => {
      const pair = [encryption!, authentication!].map((half) => half.toString('base64'))
      const keys = JSON.stringify({ id: 'keys', default: pair, collections: {} })
      const keysOf = await collectionKeys(keyPairFromHex(key), { id: 'keys', payload: sealed(keys) })

      const payload = await encryptRecord(keysOf(name), { id: 'a' })

      expect(await decryptRecord(keyPairFromHex(key), { id: 'a', payload })).toEqual({ id: 'a' })
    },
  )
})

describe('encryptRecord', () => {
  it('creates payloads that decryptRecord decrypts, each different', async () => {
    const record = { id: 'a', title: '«é» \ud83d', children: ['b'], deleted: false }

    const payloads = [
      await encryptRecord(keyPairFromHex(key), record),
      await encryptRecord(keyPairFromHex(key), record),
    ]

    expect(new Set(payloads).size).toBe(2)
    for (const payload of payloads)
      expect(await decryptRecord(keyPairFromHex(key), { id: 'a', payload })).toEqual(record)
  })
})

describe('a tombstone of Firefox for phones', () => {
  it('has no id of its own', async () => {
    const payload = sealed('{"deleted":true}')

    expect(await decryptRecord(keyPairFromHex(key), { id: 'gone', payload })).toEqual({
      id: 'gone',
      deleted: true,
    })
  })
})

describe('keyPairFromHex', () => {
  it('accepts only 128 hexadecimal digits', () => {
    for (const text of ['', key.slice(1), `${key}0`, key.replace('0', 'g')])
      expect(() => keyPairFromHex(text)).toThrow('128 hexadecimal digits')
  })
})
