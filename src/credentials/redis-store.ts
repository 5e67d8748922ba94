import { within } from '../domain/bounded.ts'
import type { RedisAddress } from './redis-address.ts'
import type * as redisClient from './redis-client.ts'
import type { RedisClient } from './redis-client.ts'
import type { CredentialStore } from './credentials.ts'

/** What can be wrong with Redis. */
export const redisTroubles = [
  'unreachable', // No connection could be made, or it broke, or Redis would not let us in.
  'timeout', // A command had no answer in time.
  'refused', // A command was answered with an error.
] as const
export type RedisTrouble = (typeof redisTroubles)[number]

export interface RedisStoreOptions {
  address: RedisAddress
  /** Put before every key, so that several services can share a Redis. */
  prefix: string
  /** How long a command may take; 100 when left out. */
  commandTimeoutMs?: number
  /** How long a connection may take to be made; 500 when left out. */
  connectTimeoutMs?: number
  /** Called at every trouble. `code` names it (`ECONNREFUSED`, `WRONGPASS`, `OOM`) where something did. */
  onTrouble(trouble: RedisTrouble, code: string | null): void
}

/** The pause after an attempt to connect. */
const attemptIntervalMs = 1000
/** Several sentinels or members may be asked in one attempt. */
const attemptTimeoutMs = 10_000

/**
 * The store that several processes share. Needs Redis 6 or later and nothing but GET, SET, DEL and PING of it; SELECT for
 * a database other than 0, and CLUSTER SLOTS and ASKING of the members of a cluster.
 *
 * Connects in the background and for ever. A Redis that is absent, hung, full or read-only makes commands reject: at once
 * while there is no connection, within `commandTimeoutMs` otherwise. What is asked before the first attempt to connect has
 * ended waits for its end first, as long as for an answer.
 */
export class RedisStore implements CredentialStore {
  readonly #options: Required<RedisStoreOptions>
  /** Loaded in the background: a process with the memory store never pays for the library. */
  #library: typeof redisClient | null = null
  /** What commands use; null without a connection. */
  #client: RedisClient | null = null
  #isConnecting = false
  #isClosed = false
  readonly #firstAttempt = Promise.withResolvers<void>()

  constructor(options: RedisStoreOptions) {
    this.#options = { commandTimeoutMs: 100, connectTimeoutMs: 500, ...options }
    void this.#connect()
  }

  get(key: string): Promise<string | null> {
    return this.#ask((client) => client.get(this.#options.prefix + key))
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
    if (!client?.isReady) {
      void this.#connect()
      throw unusable('not connected')
    }
    try {
      return await within(commandTimeoutMs, command(client), late)
    } catch (error) {
      const { codeOf, isRefusal } = this.#library!
      const code = codeOf(error)
      if (isRefusal(error)) onTrouble('refused', code)
      if (error === noAnswer) {
        onTrouble('timeout', null)
        // Nobody else waits for a server that hangs. The other members of a cluster are used until there is a successor.
        if (address.kind !== 'cluster' && this.#client === client) this.#replace(null)
      }
      // After a failover the name may stand for another server already, while this one stays behind as a replica.
      if (!isRefusal(error) || code === 'READONLY') void this.#connect()
      throw unusable(error === noAnswer ? noAnswer.message : (code ?? 'connection lost'))
    }
  }

  /** Puts a connected client in the place of the one in use, with as many attempts as it takes. */
  async #connect(): Promise<void> {
    if (this.#isConnecting) return
    this.#isConnecting = true
    this.#library ??= await import('./redis-client.ts')
    const { codeOf, createRedisClient, isRefusal } = this.#library
    const { address, connectTimeoutMs, onTrouble } = this.#options
    while (!this.#isClosed) {
      let cause: unknown
      let isLost = false
      const next = createRedisClient(address, connectTimeoutMs, (error) => {
        // Of several sentinels or members, one that answered tells most.
        if (!isRefusal(cause)) cause = error
        if (next !== this.#client || isLost) return
        isLost = true
        onTrouble('unreachable', codeOf(error))
        void this.#connect()
      })
      const isConnected = await within<unknown>(attemptTimeoutMs, next.connect(), late).then(
        () => !this.#isClosed,
        (error) => void (cause ??= error),
      )
      if (isConnected) this.#replace(next)
      else {
        next.destroy()
        if (!this.#isClosed) onTrouble('unreachable', codeOf(cause))
      }
      this.#firstAttempt.resolve()
      await new Promise((resolve) => setTimeout(resolve, attemptIntervalMs).unref())
      if (this.#client === next && !isLost) break
    }
    this.#isConnecting = false
  }
}

const noAnswer = new Error('no answer in time')
const late = () => noAnswer

/** Without the text of the original, because replies quote what was sent and addresses hold passwords. */
function unusable(state: string): Error {
  return new Error(`Cannot use the credential cache: ${state}`)
}
