import { readRedisAddress } from '../../src/credentials/redis-address.ts'
import { RedisStore, type RedisStoreOptions } from '../../src/credentials/redis-store.ts'
import { eventually } from '../support/eventually.ts'
import { someIdentity } from './identities.ts'
import { startCredentials } from './world.ts'

import type { CredentialStore } from '../../src/credentials/credentials.ts'

/** For tests that don't measure time: waits for a Redis that responds, however busy the machine is. */
export const patient = { commandTimeoutMs: 10_000, connectTimeoutMs: 10_000 }

const open: CredentialStore[] = []

/** Call it after each test that opens stores. */
export async function closeStores(): Promise<void> {
  for (const store of open.splice(0)) await store.close()
}

/** `seen` has the reported failures, each as `<failure> <code>`. */
export function createStore(url: string, changes: Partial<RedisStoreOptions> = {}) {
  const seen: string[] = []
  const store = new RedisStore({
    address: readRedisAddress(url)!,
    prefix: 'test:',
    onTrouble: (trouble, code) => seen.push(`${trouble} ${code}`),
    ...changes,
  })
  open.push(store)
  return { store, seen }
}

export async function connectStore(url: string, changes: Partial<RedisStoreOptions> = {}) {
  const created = createStore(url, changes)
  await eventually('the store is connected', () => created.store.ping())
  return created
}

/** Whether all of some keys, in slots of every part of a cluster, can be written and read. */
export async function isInUse(store: CredentialStore): Promise<boolean> {
  const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const key of keys) await store.set(key, `value of ${key}`, 60_000)
  const values = await Promise.all(keys.map((key) => store.get(key)))
  return values.every((value, index) => value === `value of ${keys[index]}`)
}

/** Continuously obtains credentials for new identities. */
export function keepObtaining(store: CredentialStore) {
  const { credentials } = startCredentials({ store })
  let obtained = 0
  const stopping = new AbortController()
  const done = (async () => {
    for (; !stopping.signal.aborted; obtained++) {
      await credentials.obtain(someIdentity({ assertion: crypto.randomUUID() }))
      await Bun.sleep(5)
    }
  })()
  return {
    /** The number obtained. */
    obtained: () => obtained,
    /** Rejects if any was not obtained. */
    async stop() {
      stopping.abort()
      await done
    },
  }
}

/** A relay in front of a server. */
export function startRelay(url: string) {
  const relay = {
    /** The target port of new connections. */
    port: Number(new URL(url).port),
    url: '',
    [Symbol.dispose]: () => listener.stop(true),
  }
  const listener = Bun.listen<{ target: Promise<Bun.Socket> }>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        const target = Bun.connect({
          hostname: '127.0.0.1',
          port: relay.port,
          socket: {
            data: (_, bytes) => void socket.write(Buffer.from(bytes)),
            close: () => void socket.end(),
          },
        })
        socket.data = { target }
      },
      data: async ({ data }, bytes) => {
        const copy = Buffer.from(bytes)
        ;(await data.target).write(copy)
      },
      close: async ({ data }) => void (await data.target).end(),
    },
  })
  relay.url = `redis://127.0.0.1:${listener.port}`
  return relay
}
