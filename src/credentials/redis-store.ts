import { findMaster, RedisLoss, RedisRefusal } from './redis-client.ts'
import { RedisCluster } from './redis-cluster.ts'
import { RedisConnection } from './redis-connection.ts'
import { answerWithin, NoAnswer } from './within-time.ts'

import type * as redisPackage from 'redis'
import type { CredentialStore } from './shared-credentials.ts'
import type { RedisAddress, RedisEndpoint, RedisGreeting } from './redis-address.ts'
import type { AskOnce, RedisClient, RedisLink } from './redis-client.ts'
import type { RedisTrouble } from './redis-connection.ts'

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
  return new RedisStore(createLink(options.address, options), options.prefix)
}

/** An idle connection is asked for a sign of life so often, and given up after so long without any. */
const pingIntervalMs = 1000
const silenceTimeoutMs = 1500

class RedisStore implements CredentialStore {
  readonly #link: RedisLink
  readonly #prefix: string

  constructor(link: RedisLink, prefix: string) {
    this.#link = link
    this.#prefix = prefix
  }

  async get(key: string): Promise<string | null> {
    const reply = await this.#link.ask(['GET', this.#prefix + key])
    return typeof reply === 'string' ? reply : null
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const wholeMs = Math.max(1, Math.floor(ttlMs))
    await this.#link.ask(['SET', this.#prefix + key, value, 'PX', String(wholeMs)])
  }

  async delete(key: string): Promise<void> {
    await this.#link.ask(['DEL', this.#prefix + key])
  }

  async ping(): Promise<boolean> {
    try {
      await this.#link.ask(['PING'])
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    this.#link.close()
  }
}

function createLink(address: RedisAddress, options: RedisStoreOptions): RedisLink {
  const { commandTimeoutMs = 100, connectTimeoutMs = 500, random, onTrouble } = options
  const open = (endpoint: RedisEndpoint, signal: AbortSignal) =>
    openClient(endpoint, address, connectTimeoutMs, signal)
  const askOnce: AskOnce = async (endpoint, command, login) => {
    const { username, password, tls } = address
    const greeting = { ...(login && { username, password }), database: 0, tls }
    const client = await openClient(endpoint, greeting, connectTimeoutMs)
    return answerWithin(client.send(command), connectTimeoutMs).finally(() => client.destroy())
  }
  const common = { commandTimeoutMs, random, onTrouble }
  switch (address.kind) {
    case 'server':
      return new RedisConnection({ ...common, open: (signal) => open(address.endpoint, signal) })
    case 'sentinel':
      return new RedisConnection({
        ...common,
        open: async (signal) => open(await findMaster(address.sentinels, address.master, askOnce), signal),
      })
    case 'cluster':
      return new RedisCluster({
        ...common,
        seeds: address.seeds,
        askOnce,
        connect: (endpoint, onTrouble) =>
          new RedisConnection({ ...common, onTrouble, open: (signal) => open(endpoint, signal) }),
      })
    default:
      return address satisfies never
  }
}

async function openClient(
  endpoint: RedisEndpoint,
  greeting: RedisGreeting,
  connectTimeoutMs: number,
  signal?: AbortSignal,
): Promise<RedisClient> {
  // Loaded when it is first needed: a service with the memory store never pays for it, and no start waits for it.
  const redis = await import('redis')
  const { username, password, database, tls } = greeting
  const client = redis.createClient({
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    database,
    socket: {
      ...socketOptions(endpoint, tls),
      connectTimeout: connectTimeoutMs,
      // Also bounds the greeting: a hung server still accepts connections.
      socketTimeout: silenceTimeoutMs,
      reconnectStrategy: false,
    },
    pingInterval: pingIntervalMs,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    // The package's own timeout does not cover commands that have been sent; ours covers all.
    commandOptions: { timeout: 0 },
  })
  const explain = (error: unknown) => explainError(error, redis)
  const { promise: ended, resolve: end } = Promise.withResolvers<string | null>()
  client.on('error', (error: unknown) => end(explain(error).code))
  client.on('end', () => end(null))
  const destroy = () => {
    client.destroy()
    end(null)
  }
  signal?.addEventListener('abort', destroy, { once: true })
  void ended.then(() => {
    signal?.removeEventListener('abort', destroy)
    // The client keeps its timers until then.
    client.destroy()
  })
  try {
    await answerWithin(client.connect(), connectTimeoutMs + silenceTimeoutMs)
  } catch (error) {
    destroy()
    throw explain(error)
  }
  return {
    ended,
    destroy,
    send: (command) =>
      client.sendCommand(command).catch((error: unknown) => {
        throw explain(error)
      }),
  }
}

function socketOptions(endpoint: RedisEndpoint, tls: RedisGreeting['tls']) {
  if ('path' in endpoint) return { path: endpoint.path, tls: false } as const
  return tls ? { ...endpoint, ...tls, tls: true as const } : { ...endpoint, tls: false as const }
}

const refusalForm = /^([A-Z]{2,20})\b(?: \d+ (\S+))?/
const redirections = new Set(['MOVED', 'ASK'])

/** Without the original: replies quote what was sent, and addresses hold passwords. */
function explainError(error: unknown, redis: typeof redisPackage): RedisRefusal | RedisLoss {
  if (error instanceof redis.ErrorReply) {
    const [, code = 'ERR', target] = refusalForm.exec(error.message) ?? []
    return new RedisRefusal(code, redirections.has(code) ? (target ?? null) : null)
  }
  const isTimeout =
    error instanceof NoAnswer ||
    error instanceof redis.SocketTimeoutError ||
    error instanceof redis.ConnectionTimeoutError
  if (isTimeout) return new RedisLoss('ETIMEDOUT')
  const code = error instanceof Error && 'code' in error ? error.code : null
  return new RedisLoss(typeof code === 'string' ? code : null)
}
