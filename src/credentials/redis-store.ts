import { ConnectionTimeoutError, createClient, ErrorReply, SocketTimeoutError } from 'redis'

import { reconnectDelayMs } from './reconnect-delay.ts'
import { readRedisAddress } from './redis-address.ts'

import type { CredentialStore } from './credential-store.ts'
import type { RedisAddress } from './redis-address.ts'

/**
 * What can be wrong with Redis:
 * - `unreachable`: no connection could be made, or it broke, or Redis would not let us in
 * - `timeout`: a command had no answer in time
 * - `refused`: a command was answered with an error
 * - `suspended`: too many commands in a row had no answer; it is left alone until it answers a probe
 */
export type RedisTrouble = 'unreachable' | 'timeout' | 'refused' | 'suspended'

export interface RedisStoreOptions {
  /** See `readRedisAddress` for its forms. */
  url: string
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
 * The store that several processes share. Needs Redis 6 or later and nothing but GET, SET, DEL and PING of it.
 *
 * Connects in the background and for ever: a Redis that is absent, hung, full or read-only makes commands reject,
 * within `commandTimeoutMs` at worst and at once while it is known to be away. Throws for an address that can't be
 * read.
 */
export function createRedisStore(options: RedisStoreOptions): CredentialStore {
  return new RedisStore(options)
}

const timeoutsToSuspend = 3
const probeIntervalMs = 500
const readOnlyRepliesToReconnect = 3
const readOnlyReconnectIntervalMs = 2000
/** An idle connection is asked for a sign of life so often, and given up after so long without any. */
const pingIntervalMs = 1000
const silenceTimeoutMs = 1500

class RedisStore implements CredentialStore {
  readonly #options: RedisStoreOptions
  readonly #address: RedisAddress
  readonly #commandTimeoutMs: number
  #client: Client
  #closed = false
  #timeoutsInARow = 0
  /** Runs while Redis is suspended. */
  #probing: Timer | null = null
  #readOnlyReplies = 0
  /** Runs for a while after a reconnect that read-only replies caused. */
  #readOnlyPause: Timer | null = null

  constructor(options: RedisStoreOptions) {
    this.#options = options
    this.#address = readRedisAddress(options.url)
    this.#commandTimeoutMs = options.commandTimeoutMs ?? 100
    this.#client = this.#connect()
  }

  get(key: string): Promise<string | null> {
    return this.#ask((client) => client.get(this.#options.prefix + key))
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const expiration = { type: 'PX', value: Math.max(1, Math.floor(ttlMs)) } as const
    await this.#ask((client) => client.set(this.#options.prefix + key, value, { expiration }))
    this.#readOnlyReplies = 0
  }

  async delete(key: string): Promise<void> {
    await this.#ask((client) => client.del(this.#options.prefix + key))
  }

  async ping(): Promise<boolean> {
    try {
      await this.#ask((client) => client.ping())
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#resume()
    if (this.#readOnlyPause) clearTimeout(this.#readOnlyPause)
    this.#client.destroy()
  }

  async #ask<Reply>(command: (client: Client) => Promise<Reply>): Promise<Reply> {
    const client = this.#client
    if (this.#probing || !client.isReady) throw new Error('Cannot use the credential cache: not connected')
    try {
      const reply = await answerWithin(command(client), this.#commandTimeoutMs)
      this.#timeoutsInARow = 0
      return reply
    } catch (error) {
      this.#note(error)
      throw explain(error)
    }
  }

  #note(error: unknown): void {
    if (error instanceof NoAnswer) {
      this.#options.onTrouble('timeout', null)
      this.#timeoutsInARow += 1
      if (this.#timeoutsInARow >= timeoutsToSuspend) this.#suspend()
    } else if (error instanceof ErrorReply) {
      this.#timeoutsInARow = 0
      this.#options.onTrouble('refused', codeOf(error))
      if (codeOf(error) === 'READONLY') this.#noteReadOnly()
    }
  }

  /** After a failover the name may already stand for another server, while this one stays behind as a replica. */
  #noteReadOnly(): void {
    this.#readOnlyReplies += 1
    if (this.#readOnlyReplies < readOnlyRepliesToReconnect || this.#readOnlyPause) return
    this.#readOnlyReplies = 0
    this.#readOnlyPause = setTimeout(() => (this.#readOnlyPause = null), readOnlyReconnectIntervalMs)
    this.#readOnlyPause.unref()
    this.#reconnect()
  }

  #suspend(): void {
    if (this.#probing) return
    this.#options.onTrouble('suspended', null)
    this.#probing = setInterval(() => void this.#probe(), probeIntervalMs)
    this.#probing.unref()
    // The unanswered commands go with the connection, so that nothing piles up.
    this.#reconnect()
  }

  async #probe(): Promise<void> {
    const client = this.#client
    if (!client.isReady) return
    try {
      await answerWithin(client.ping(), this.#commandTimeoutMs)
      this.#resume()
    } catch (error) {
      if (error instanceof ErrorReply) this.#resume()
      else if (client === this.#client) this.#reconnect()
    }
  }

  #resume(): void {
    if (this.#probing) clearInterval(this.#probing)
    this.#probing = null
    this.#timeoutsInARow = 0
  }

  #reconnect(): void {
    if (this.#closed) return
    const previous = this.#client
    this.#client = this.#connect()
    previous.destroy()
  }

  #connect(): Client {
    const { random, onTrouble, connectTimeoutMs = 500 } = this.#options
    const client = createRedisClient(this.#address, connectTimeoutMs, random)
    client.on('error', (error: unknown) => {
      if (client === this.#client && !this.#closed) onTrouble('unreachable', codeOf(error))
    })
    // It rejects only once the client has been destroyed; what fails before is told to the listener above.
    client.connect().catch(() => {})
    return client
  }
}

type Client = ReturnType<typeof createRedisClient>

function createRedisClient(address: RedisAddress, connectTimeoutMs: number, random: () => number) {
  const { socket, ...login } = address
  const common = {
    connectTimeout: connectTimeoutMs,
    // Also bounds the greeting: a hung server still accepts connections.
    socketTimeout: silenceTimeoutMs,
    reconnectStrategy: (retries: number) => reconnectDelayMs(retries, random()),
  }
  return createClient({
    ...login,
    socket: isTls(socket) ? { ...socket, ...common, tls: true } : { ...socket, ...common, tls: false },
    pingInterval: pingIntervalMs,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    // The package's own timeout does not cover commands that have been sent; ours covers all.
    commandOptions: { timeout: 0 },
  })
}

function isTls(socket: RedisAddress['socket']): socket is { host: string; port: number; tls: true } {
  return socket.tls
}

class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

function answerWithin<Reply>(reply: Promise<Reply>, timeoutMs: number): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>()
  const timer = setTimeout(() => reject(new NoAnswer('no answer in time')), timeoutMs)
  reply.then(resolve, reject).finally(() => clearTimeout(timer))
  return promise
}

/** Without the original: replies quote what was sent, and addresses hold passwords. */
function explain(error: unknown): Error {
  return new Error(`Cannot use the credential cache: ${codeOf(error) ?? 'connection lost'}`)
}

const replyCodeForm = /^[A-Z]{2,20}\b/

/** What went wrong in one word where there is one. */
function codeOf(error: unknown): string | null {
  if (error instanceof NoAnswer) return error.message
  if (error instanceof ErrorReply) return replyCodeForm.exec(error.message)?.[0] ?? 'ERR'
  if (error instanceof SocketTimeoutError || error instanceof ConnectionTimeoutError) return 'ETIMEDOUT'
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code
  return null
}
