import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { closeStores, connectStore, patient } from './redis-stores.ts'

import type { CredentialStore } from '../../src/credentials/credentials.ts'

describe.each([
  ['TCP', false],
  ['a unix socket', true],
])('Redis over %s as a credential store', (_, unixSocket) => {
  let server: RedisServer
  let store: CredentialStore

  beforeAll(async () => {
    server = await startRedisServer({ unixSocket })
    store = (await connectStore(server.url, patient)).store
  })

  afterEach(async () => {
    for (const key of ['a', 'A', 'b']) await store.delete(key)
  })

  afterAll(async () => {
    await closeStores()
    await server.close()
  })

  /** Shortens the TTL of every key; the server deletes keys whose TTL is over. */
  async function advance(milliseconds: number): Promise<void> {
    for (const key of (await server.command('KEYS', '*')) as string[]) {
      const leftMs = Number(await server.command('PTTL', key))
      await server.command('PEXPIRE', key, String(leftMs - milliseconds))
    }
  }

  it('returns what was set, distinguishes keys, including their case, and forgets what was deleted', async () => {
    expect(await store.get('a')).toBeNull()
    await store.set('a', 'value of a', 60_000)
    await store.set('A', 'value of A', 60_000)
    await store.delete('A')
    await store.delete('never-set')

    expect(await store.get('a')).toBe('value of a')
    expect(await store.get('A')).toBeNull()
    expect(await store.ping()).toBe(true)
  })

  it('returns values byte for byte, including empty and long ones', async () => {
    for (const value of ['', ' \r\n\0', 'añ€𝄞', 'x'.repeat(8192)]) {
      await store.set('a', value, 60_000)
      expect(await store.get('a')).toBe(value)
    }
  })

  it('forgets a value when its TTL has passed, and not before; a new value has a new TTL', async () => {
    await store.set('a', 'value', 30_000.75)
    await store.set('b', 'old', 1000)
    await store.set('b', 'new', 60_000)

    await advance(20_000)
    expect([await store.get('a'), await store.get('b')]).toEqual(['value', 'new'])
    await advance(10_001)
    expect([await store.get('a'), await store.get('b')]).toEqual([null, 'new'])
  })
})
