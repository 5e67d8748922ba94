import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { createMemoryStore } from '../support/memory-store.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { closeStores, connectStore, patient } from './redis-stores.ts'

import type { CredentialStore } from '../../src/credentials/credentials.ts'

/** A store, and a way to age all its entries without waiting. */
interface Fixture extends AsyncDisposable {
  store: CredentialStore
  advance(milliseconds: number): Promise<void>
}

async function openRedis(unixSocket: boolean): Promise<Fixture> {
  const server = await startRedisServer({ unixSocket })
  const { store } = await connectStore(server.url, patient)
  return {
    store,
    /** Shortens the TTL of every key; the server deletes keys whose TTL is over. */
    async advance(milliseconds) {
      for (const key of (await server.command('KEYS', '*')) as string[]) {
        const leftMs = Number(await server.command('PTTL', key))
        await server.command('PEXPIRE', key, String(leftMs - milliseconds))
      }
    },
    async [Symbol.asyncDispose]() {
      await closeStores()
      await server.close()
    },
  }
}

/** A stand-in for the store in other tests. */
async function openMemory(): Promise<Fixture> {
  let nowMs = 0
  const store = createMemoryStore({ clock: () => nowMs })
  return { store, advance: async (ms) => void (nowMs += ms), [Symbol.asyncDispose]: () => store.close() }
}

describe.each([
  ['Redis over TCP', () => openRedis(false)],
  ['Redis over a unix socket', () => openRedis(true)],
  ['the store of the tests', openMemory],
])('%s as a credential store', (_, open) => {
  let fixture: Fixture
  let store: CredentialStore

  beforeAll(async () => {
    fixture = await open()
    store = fixture.store
  })

  afterEach(async () => {
    for (const key of ['a', 'A', 'b']) await store.delete(key)
  })

  afterAll(() => fixture[Symbol.asyncDispose]())

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

    await fixture.advance(20_000)
    expect([await store.get('a'), await store.get('b')]).toEqual(['value', 'new'])
    await fixture.advance(10_001)
    expect([await store.get('a'), await store.get('b')]).toEqual([null, 'new'])
  })
})
