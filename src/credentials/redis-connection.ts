import { setTimeout as delay } from 'node:timers/promises'

import { RedisLoss, RedisRefusal, troubleCode } from './redis-client.ts'
import { answerWithin, FirstAttempt, NoAnswer, reconnectDelayMs } from './within-time.ts'

import type { RedisClient, RedisLink } from './redis-client.ts'

/**
 * What can be wrong with Redis:
 * - `unreachable`: no connection could be made, or it broke, or Redis would not let us in
 * - `timeout`: a command had no answer in time
 * - `refused`: a command was answered with an error
 * - `suspended`: too many commands in a row had no answer; it is left alone until it answers a probe
 */
export type RedisTrouble = 'unreachable' | 'timeout' | 'refused' | 'suspended'

interface RedisConnectionOptions {
  /** One attempt to connect; given up when the signal says so. Rejects with `RedisLoss` or `RedisRefusal`. */
  open(signal: AbortSignal): Promise<RedisClient>
  commandTimeoutMs: number
  /** From 0 up to but not including 1. */
  random(): number
  /** Called at every trouble. `code` names it (`ECONNREFUSED`, `WRONGPASS`, `OOM`) where something did. */
  onTrouble(trouble: RedisTrouble, code: string | null): void
}

const timeoutsToSuspend = 3
const probeIntervalMs = 500
const readOnlyRepliesToReconnect = 3
const readOnlyReconnectIntervalMs = 2000

/**
 * A connection that is made again for ever, in the background. Without a connection commands are rejected at once,
 * otherwise within `commandTimeoutMs`; only commands before the end of the first attempt wait for it.
 */
export class RedisConnection implements RedisLink {
  readonly firstAttempt = new FirstAttempt()
  readonly #options: RedisConnectionOptions
  readonly #closing = new AbortController()
  #client: RedisClient | null = null
  #timeoutsInARow = 0
  /** Runs while Redis is suspended. */
  #probing: Timer | null = null
  #readOnlyReplies = 0
  /** Runs for a while after a reconnect that read-only replies caused. */
  #readOnlyPause: Timer | null = null

  constructor(options: RedisConnectionOptions) {
    this.#options = options
    void this.#stayConnected()
  }

  async ask(command: string[]): Promise<unknown> {
    await this.firstAttempt.wait()
    const client = this.#client
    if (this.#probing || !client) throw new RedisLoss(null, 'not connected')
    try {
      const reply = await answerWithin(client.send(command), this.#options.commandTimeoutMs)
      this.#timeoutsInARow = 0
      if (command[0] === 'SET') this.#readOnlyReplies = 0
      return reply
    } catch (error) {
      this.#note(error)
      throw error
    }
  }

  close(): void {
    this.#closing.abort()
    this.firstAttempt.end()
    this.#resume()
    if (this.#readOnlyPause) clearTimeout(this.#readOnlyPause)
    this.#drop()
  }

  async #stayConnected(): Promise<void> {
    // Opening the first connection loads the client, so other parts that start must not wait for it.
    await this.#pause(0)
    let failures = 0
    while (!this.#closing.signal.aborted) {
      failures = (await this.#connectOnce()) ? 0 : failures + 1
      await this.#pause(reconnectDelayMs(Math.max(0, failures - 1), this.#options.random()))
    }
  }

  /** Resolves when the connection is gone, to whether there had been one. */
  async #connectOnce(): Promise<boolean> {
    const { open, onTrouble } = this.#options
    try {
      const client = await open(this.#closing.signal)
      this.#client = client
      this.firstAttempt.end()
      if (this.#closing.signal.aborted) this.#drop()
      const code = await client.ended
      if (this.#client !== client) return true
      this.#client = null
      onTrouble('unreachable', code)
      return true
    } catch (error) {
      this.firstAttempt.end()
      if (!this.#closing.signal.aborted) onTrouble('unreachable', troubleCode(error))
      return false
    }
  }

  #note(error: unknown): void {
    if (error instanceof NoAnswer) {
      this.#options.onTrouble('timeout', null)
      this.#timeoutsInARow += 1
      if (this.#timeoutsInARow >= timeoutsToSuspend) this.#suspend()
    } else if (error instanceof RedisRefusal) {
      this.#timeoutsInARow = 0
      if (error.redirect === null) this.#options.onTrouble('refused', error.code)
      if (error.code === 'READONLY') this.#noteReadOnly()
    }
  }

  /** After a failover the name may already stand for another server, while this one stays behind as a replica. */
  #noteReadOnly(): void {
    this.#readOnlyReplies += 1
    if (this.#readOnlyReplies < readOnlyRepliesToReconnect || this.#readOnlyPause) return
    this.#readOnlyReplies = 0
    this.#readOnlyPause = setTimeout(() => (this.#readOnlyPause = null), readOnlyReconnectIntervalMs)
    this.#readOnlyPause.unref()
    this.#drop()
  }

  #suspend(): void {
    if (this.#probing) return
    this.#options.onTrouble('suspended', null)
    this.#probing = setInterval(() => void this.#probe(), probeIntervalMs)
    this.#probing.unref()
    // Unanswered commands end with the connection, so that they do not pile up.
    this.#drop()
  }

  async #probe(): Promise<void> {
    const client = this.#client
    if (!client) return
    try {
      await answerWithin(client.send(['PING']), this.#options.commandTimeoutMs)
      this.#resume()
    } catch (error) {
      if (error instanceof RedisRefusal) this.#resume()
      else if (client === this.#client) this.#drop()
    }
  }

  #resume(): void {
    if (this.#probing) clearInterval(this.#probing)
    this.#probing = null
    this.#timeoutsInARow = 0
  }

  /** Another connection is made instead. */
  #drop(): void {
    const client = this.#client
    this.#client = null
    client?.destroy()
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#closing.signal }).catch(() => {})
  }
}
