import { within } from '../domain/bounded.ts'
import type { RedisAddress } from './redis-address.ts'
import type * as redisClient from './redis-client.ts'
import type { RedisClient } from './redis-client.ts'
import type { CredentialStore } from './credentials.ts'

/** The kinds of Redis failure. */
export const redisTroubles = [
  'unreachable', // The connection or the login failed, or the connection broke.
  'timeout', // A command timed out.
  'refused', // Redis replied to a command with an error.
] as const
export type RedisTrouble = (typeof redisTroubles)[number]

export interface RedisStoreOptions {
  address: RedisAddress
  /** Prefix of every key, so that several services can share a Redis. */
  prefix: string
  /** Timeout of a command; default: 100. */
  commandTimeoutMs?: number
  /** Timeout of a connection attempt; default: 500. */
  connectTimeoutMs?: number
  /** Called for every failure. `code` names it (`ECONNREFUSED`, `WRONGPASS`, `OOM`), if known. */
  onTrouble(trouble: RedisTrouble, code: string | null): void
}

/** Pause after a connection attempt. */
const attemptIntervalMs = 1000
/** Timeout of an attempt, which may try several sentinels or members. */
const attemptTimeoutMs = 10_000

/**
 * The store that several processes share. Needs Redis 6 or later, and only GET, SET, DEL and PING; also SELECT for a database other than 0,
 * and CLUSTER SLOTS and ASKING in a cluster.
 *
 * Connects in the background and never gives up. If Redis is down, hung, full or read-only, commands reject: at once without a connection,
 * else within `commandTimeoutMs`. Commands before the end of the first connection attempt wait for it, as long as for a reply.
 */
export class RedisStore implements CredentialStore {
  readonly #options: Required<RedisStoreOptions>
  /** Loaded on demand, so that the memory backend does not pay for the library. */
  #library: typeof redisClient | null = null
  /** The client in use; null without a connection. */
  #client: RedisClient | null = null
  #isConnecting = false
  #isClosed = false
  readonly #firstAttempt = Promise.withResolvers<void>()

  constructor(options: RedisStoreOptions) {
    this.#options = { commandTimeoutMs: 100, connectTimeoutMs: 500, ...options }
    void this.#connect()
  }

  get(key: string): Promise<string | null> {
    return this.#ask(async (client) => {
      const reply: unknown = await client.get(this.#options.prefix + key)
      if (reply === null || typeof reply === 'string') return reply
      // The replies no longer match the commands. A new connection is needed, and the library does not check this.
      throw new Error('not a text')
    })
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const expiration = { type: 'PX', value: Math.max(1, Math.floor(ttlMs)) } as const
    await this.#ask((client) => client.set(this.#options.prefix + key, value, { expiration }))
  }

  async delete(key: string): Promise<void> {
    await this.#ask((client) => client.del(this.#options.prefix + key))
  }

  ping(): Promise<boolean> {
    return this.#ask((client) => client.ping()).then(
      () => true,
      () => false,
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#firstAttempt.resolve()
    this.#replace(null)
  }

  #replace(client: RedisClient | null): void {
    this.#client?.destroy()
    this.#client = client
  }

  async #ask<Answer>(command: (client: RedisClient) => Promise<Answer>): Promise<Answer> {
    const { address, commandTimeoutMs, onTrouble } = this.#options
    if (!this.#client) {
      await within(commandTimeoutMs, this.#firstAttempt.promise, late).catch(() =>
        this.#firstAttempt.resolve(),
      )
    }
    const client = this.#client
    // The loss or the failed command before has begun to connect.
    if (!client?.isReady) throw unavailable('not connected')
    try {
      return await within(commandTimeoutMs, command(client), late)
    } catch (error) {
      const { redisCodeOf, isErrorReply } = this.#library!
      const code = redisCodeOf(error)
      if (isErrorReply(error)) onTrouble('refused', code)
      if (error === timedOut) {
        onTrouble('timeout', null)
        // Drops a hung server, so that other commands fail at once. A cluster is kept until there is a new client, because its other
        // members work.
        if (address.kind !== 'cluster' && this.#client === client) this.#replace(null)
      }
      // After a failover, the name may lead to another server, while this one stays as a replica.
      if (!isErrorReply(error) || code === 'READONLY') void this.#connect()
      throw unavailable(error === timedOut ? timedOut.message : (code ?? 'connection lost'))
    }
  }

  /** Replaces the client by a connected one, in as many attempts as needed. */
  async #connect(): Promise<void> {
    if (this.#isConnecting) return
    this.#isConnecting = true
    this.#library ??= await import('./redis-client.ts')
    const { redisCodeOf, createRedisClient, isErrorReply } = this.#library
    const { address, connectTimeoutMs, onTrouble } = this.#options
    while (!this.#isClosed) {
      let cause: unknown
      let isLost = false
      const next = createRedisClient(address, connectTimeoutMs, (error) => {
        // An error reply is more specific than a connection error of another member.
        if (!isErrorReply(cause)) cause = error
        if (next !== this.#client || isLost) return
        isLost = true
        onTrouble('unreachable', redisCodeOf(error))
        void this.#connect()
      })
      const isConnected = await within<unknown>(attemptTimeoutMs, next.connect(), late).then(
        () => !this.#isClosed,
        (error) => void (cause ??= error),
      )
      if (isConnected) this.#replace(next)
      else {
        next.destroy()
        if (!this.#isClosed) onTrouble('unreachable', redisCodeOf(cause))
      }
      this.#firstAttempt.resolve()
      await new Promise((resolve) => setTimeout(resolve, attemptIntervalMs).unref())
      if (this.#client === next && !isLost) break
    }
    this.#isConnecting = false
  }
}

const timedOut = new Error('timed out')
const late = () => timedOut

/** Omits the original text, because replies quote commands and addresses contain passwords. */
function unavailable(state: string): Error {
  return new Error(`Cannot use Redis: ${state}`)
}
