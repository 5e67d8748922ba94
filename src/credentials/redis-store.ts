import { askOnce, openClient, RedisRefusal } from './redis-client.ts'
import { RedisCluster } from './redis-cluster.ts'
import { RedisConnection } from './redis-connection.ts'

import type { RedisAddress, RedisEndpoint } from './redis-address.ts'
import type { RedisLink, RedisTrouble } from './redis-connection.ts'
import type { CredentialStore } from './shared-credentials.ts'

export type { RedisTrouble } from './redis-connection.ts'

export interface RedisStoreOptions {
  address: RedisAddress
  /** Put before every key, so that several services can share a Redis. */
  prefix: string
  /** How long a command may take; 100 when left out. */
  commandTimeoutMs?: number
  /** How long a connection may take to be made; 500 when left out. */
  connectTimeoutMs?: number
  /** From 0 up to but not including 1; spreads the reconnects of many processes. */
  random(): number
  /** Called at every trouble. `code` names it (`ECONNREFUSED`, `WRONGPASS`, `OOM`) where something did. */
  onTrouble(trouble: RedisTrouble, code: string | null): void
}

/**
 * The store that several processes share. Needs Redis 6 or later and nothing but GET, SET, DEL and PING of it; SELECT for
 * a database other than 0, and CLUSTER SLOTS and ASKING of the members of a cluster.
 *
 * Connects in the background and for ever: a Redis that is absent, hung, full or read-only makes commands reject,
 * within `commandTimeoutMs` at worst and at once while it is known to be away; only what is asked before the first
 * attempt to connect has ended waits for that, up to 500 ms.
 */
export function createRedisStore(options: RedisStoreOptions): CredentialStore {
  const { prefix } = options
  const link = createLink({ commandTimeoutMs: 100, connectTimeoutMs: 500, ...options })
  return {
    async get(key) {
      const reply = await link.ask(['GET', prefix + key])
      return typeof reply === 'string' ? reply : null
    },
    async set(key, value, ttlMs) {
      await link.ask(['SET', prefix + key, value, 'PX', String(Math.max(1, Math.floor(ttlMs)))])
    },
    async delete(key) {
      await link.ask(['DEL', prefix + key])
    },
    ping: () =>
      link.ask(['PING']).then(
        () => true,
        () => false,
      ),
    close: async () => link.close(),
  }
}

function createLink(options: Required<RedisStoreOptions>): RedisLink {
  const { address, connectTimeoutMs } = options
  switch (address.kind) {
    case 'server':
      return new RedisConnection({
        ...options,
        open: (signal) => openClient(address.endpoints[0]!, address, connectTimeoutMs, signal),
      })
    case 'sentinel':
      return new RedisConnection({
        ...options,
        open: async (signal) =>
          openClient(await findMaster(address, connectTimeoutMs), address, connectTimeoutMs, signal),
      })
    case 'cluster':
      return new RedisCluster({ ...options, address })
    default:
      return address satisfies never
  }
}

/**
 * The server that is the master of that name now, as the first sentinel says that knows it. All are asked at once, so
 * that one that hangs costs nothing. A sentinel that is behind names a server that is gone or has become a replica: that
 * shows when it is used, and then they are asked again.
 */
function findMaster(
  { endpoints, master, ...greeting }: Extract<RedisAddress, { kind: 'sentinel' }>,
  timeoutMs: number,
): Promise<RedisEndpoint> {
  const { username: _, password: __, ...withoutLogin } = greeting
  const command = ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', master]
  return Promise.any(
    endpoints.map(async (sentinel) => {
      // Sentinels have users and passwords of their own, mostly none; the login of the address is for the servers.
      const reply = await askOnce(sentinel, withoutLogin, timeoutMs, command).catch((error: unknown) => {
        if (error instanceof RedisRefusal && error.code === 'NOAUTH')
          return askOnce(sentinel, greeting, timeoutMs, command)
        throw error
      })
      if (!Array.isArray(reply)) throw new RedisRefusal('NOMASTER')
      const [host, port] = reply.map(String)
      return { host: host!, port: Number(port) }
    }),
  )
}
