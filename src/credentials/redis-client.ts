import type * as redisPackage from 'redis'
import type { RedisEndpoint, RedisGreeting } from './redis-address.ts'

/** One connection to one Redis, from its greeting to its end. */
export interface RedisClient {
  /** Rejects with `RedisRefusal` when it is answered by an error, and with `RedisError` when the connection breaks. */
  send(command: string[]): Promise<unknown>
  /** Resolves when the connection is gone, to what ended it in one word. */
  readonly ended: Promise<string | null>
  /** Ends it now; commands under way are rejected. */
  destroy(): void
}

/** Redis can't be used. Without the texts of the original, because replies quote what was sent and addresses hold passwords. */
export class RedisError extends Error {
  override readonly name: string = 'RedisError'

  constructor(
    /** What went wrong in one word (`ECONNREFUSED`, `WRONGPASS`, `OOM`), where there is one. */
    readonly code: string | null,
    state = code ?? 'connection lost',
  ) {
    super(`Cannot use the credential cache: ${state}`)
  }
}

/** It answered with an error. */
export class RedisRefusal extends RedisError {
  override readonly name = 'RedisRefusal'

  constructor(
    code: string,
    /** The server that a member of a cluster wants to be asked instead, as `host:port`; the host may be empty. */
    readonly redirect: string | null = null,
  ) {
    super(code)
  }
}

/** It did not answer in time. */
export class NoAnswer extends RedisError {
  override readonly name = 'NoAnswer'

  constructor() {
    super('ETIMEDOUT', 'no answer in time')
  }
}

/** What an error of a Redis is called in one word, where it has one. Of several, one that answered tells most. */
export function troubleCode(error: unknown): string | null {
  if (error instanceof AggregateError) {
    const refusal = error.errors.find((one) => one instanceof RedisRefusal)
    return troubleCode(refusal ?? error.errors[0])
  }
  return error instanceof RedisError ? error.code : null
}

// A timer that fires so late shows that this process stood still, not that the other side did not answer.
const latenessMs = 20
const secondChanceMs = 25

/**
 * The same outcome, or `NoAnswer` when there is none after so many ms. When this process itself has stood still, what may
 * have arrived meanwhile gets a moment to be read.
 */
export function answerWithin<Answer>(answer: Promise<Answer>, timeoutMs: number): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const startedAtMs = performance.now()
  const giveUp = () => reject(new NoAnswer())
  let timer = setTimeout(() => {
    const isLate = performance.now() - startedAtMs > timeoutMs + latenessMs
    if (isLate) timer = setTimeout(giveUp, secondChanceMs)
    else giveUp()
  }, timeoutMs)
  answer.then(resolve, reject).finally(() => clearTimeout(timer))
  return promise
}

/** Resolves after so many ms, or at the signal. Not by node:timers/promises, which every start would load then. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    resolve()
  }
  const timer = setTimeout(end, ms)
  signal.addEventListener('abort', end)
  if (signal.aborted) end()
  return promise
}

/** An idle connection is asked for a sign of life so often, and given up after so long without any. */
const pingIntervalMs = 1000
const silenceTimeoutMs = 1500

// A service with the memory store never pays for the package, and no first answer waits until it is loaded.
const loadingDelayMs = 25
let library: Promise<typeof redisPackage> | null = null

/** Connects once, until the signal says that nobody waits any more. Rejects with `RedisError`. */
export async function openClient(
  endpoint: RedisEndpoint,
  { username, password, database, tls }: RedisGreeting,
  connectTimeoutMs: number,
  signal?: AbortSignal,
): Promise<RedisClient> {
  const redis = await (library ??= Bun.sleep(loadingDelayMs).then(() => import('redis')))
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

/** Sends one command over a connection of its own. */
export async function askOnce(
  endpoint: RedisEndpoint,
  greeting: RedisGreeting,
  timeoutMs: number,
  command: string[],
): Promise<unknown> {
  const client = await openClient(endpoint, { ...greeting, database: 0 }, timeoutMs)
  return answerWithin(client.send(command), timeoutMs).finally(() => client.destroy())
}

function socketOptions(endpoint: RedisEndpoint, tls: RedisGreeting['tls']) {
  if ('path' in endpoint) return { path: endpoint.path, tls: false } as const
  return tls ? { ...endpoint, ...tls, tls: true as const } : { ...endpoint, tls: false as const }
}

const refusalForm = /^([A-Z]{2,20})\b(?: \d+ (\S+))?/
const redirections = new Set(['MOVED', 'ASK'])

function explainError(error: unknown, redis: typeof redisPackage): RedisError {
  if (error instanceof redis.ErrorReply) {
    const [, code = 'ERR', target] = refusalForm.exec(error.message) ?? []
    return new RedisRefusal(code, redirections.has(code) ? (target ?? null) : null)
  }
  const isTimeout =
    error instanceof NoAnswer ||
    error instanceof redis.SocketTimeoutError ||
    error instanceof redis.ConnectionTimeoutError
  if (isTimeout) return new RedisError('ETIMEDOUT')
  const code = error instanceof Error && 'code' in error ? error.code : null
  return new RedisError(typeof code === 'string' ? code : null)
}
