import { answerWithin, NoAnswer, pause, RedisError, RedisRefusal, troubleCode } from './redis-client.ts'

import type { RedisClient } from './redis-client.ts'

/** The receiver of commands: one server, or several that act as one. */
export interface RedisLink {
  /** Rejects in time; see `RedisClient.send`. Only commands without a key or with one, right after its name. */
  ask(command: string[]): Promise<unknown>
  close(): void
  /** Commands wait for it to end, all together 500 ms at most. */
  readonly firstAttempt: FirstAttempt
}

/**
 * What can be wrong with Redis:
 * - `unreachable`: no connection could be made, or it broke, or Redis would not let us in
 * - `timeout`: a command had no answer in time
 * - `refused`: a command was answered with an error
 * - `suspended`: too many commands in a row had no answer; it is left alone until it answers a probe
 */
export type RedisTrouble = 'unreachable' | 'timeout' | 'refused' | 'suspended'

export interface RedisConnectionOptions {
  /** One attempt to connect; given up when the signal says so. Rejects with `RedisError`. */
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
  /** Until then no other reconnect is caused by read-only replies. */
  #readOnlyPauseEndsAtMs = -Infinity

  constructor(options: RedisConnectionOptions) {
    this.#options = options
    void this.#stayConnected()
  }

  async ask(command: string[]): Promise<unknown> {
    await this.firstAttempt.wait()
    const client = this.#client
    if (this.#probing || !client) throw new RedisError(null, 'not connected')
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
    this.#drop()
  }

  async #stayConnected(): Promise<void> {
    // Opening the first connection loads the client, so other parts that start must not wait for it.
    await pause(0, this.#closing.signal)
    let failures = 0
    while (!this.#closing.signal.aborted) {
      failures = (await this.#connectOnce()) ? 0 : failures + 1
      await pause(reconnectDelayMs(Math.max(0, failures - 1), this.#options.random()), this.#closing.signal)
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
    const nowMs = performance.now()
    if (this.#readOnlyReplies < readOnlyRepliesToReconnect || nowMs < this.#readOnlyPauseEndsAtMs) return
    this.#readOnlyReplies = 0
    this.#readOnlyPauseEndsAtMs = nowMs + readOnlyReconnectIntervalMs
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
}

const patienceMs = 500

/**
 * The time until a connection has been tried for once. Those who ask before wait for its end, because a moment after the
 * start there is no connection yet where there soon will be one; but no call waits once another one has waited in vain.
 */
export class FirstAttempt {
  /** Resolves when it has succeeded, failed or lasted too long. */
  readonly ended: Promise<void>
  readonly #resolve: () => void
  #isOver = false

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#resolve = resolve
  }

  end(): void {
    this.#isOver = true
    this.#resolve()
  }

  /** Resolves at its end, after 500 ms at the latest. */
  async wait(): Promise<void> {
    if (!this.#isOver) await answerWithin(this.ended, patienceMs).catch(() => this.end())
  }
}

const firstDelayMs = 50
const maxDelayMs = 2000

/**
 * How long to wait before the next attempt to connect, in ms, after so many that failed: 50 doubling to 2000, less up
 * to a quarter by chance (`random` is from 0 up to 1), so that many processes don't come back at the same moment.
 */
export function reconnectDelayMs(failures: number, random: number): number {
  return Math.min(maxDelayMs, firstDelayMs * 2 ** failures) * (1 - 0.25 * random)
}
