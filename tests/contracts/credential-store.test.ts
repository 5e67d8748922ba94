import { createMemoryStore } from '../support/memory-store.ts'
import { readRedisAddress } from '../../src/credentials/redis-address.ts'
import { createRedisStore } from '../../src/credentials/redis-store.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { describeCredentialStore } from './credential-store.ts'

import type { RedisServer } from '../support/redis-server.ts'
import type { StoreFixture } from './credential-store.ts'

describeCredentialStore('the in-process store', async () => {
  let nowMs = 0
  const store = createMemoryStore({ clock: () => nowMs })
  return {
    store,
    advance: async (milliseconds) => void (nowMs += milliseconds),
    close: () => store.close(),
  }
})

describeCredentialStore('Redis over TCP', () => openRedis(false))

describeCredentialStore('Redis over a unix socket', () => openRedis(true))

async function openRedis(unixSocket: boolean): Promise<StoreFixture> {
  const server = await startRedisServer({ unixSocket })
  const store = createRedisStore({
    address: readRedisAddress(server.url)!,
    prefix: 'test:',
    // Of a busy machine nothing is learnt here.
    commandTimeoutMs: 10_000,
    onTrouble: () => {},
  })
  await eventually('the store is connected', () => store.ping())
  return {
    store,
    advance: (milliseconds) => age(server, milliseconds),
    close: async () => {
      await store.close()
      await server.close()
    },
  }
}

/** Shortens what is left to every key; a key with nothing left is deleted by the server. */
async function age(server: RedisServer, milliseconds: number): Promise<void> {
  const keys = (await server.command('KEYS', '*')) as string[]
  for (const key of keys) {
    const leftMs = Number(await server.command('PTTL', key))
    await server.command('PEXPIRE', key, String(leftMs - milliseconds))
  }
}
