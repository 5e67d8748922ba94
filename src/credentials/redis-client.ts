import type { RedisEndpoint } from './redis-address.ts'
import type { FirstAttempt } from './within-time.ts'

/** One connection to one Redis, from its greeting to its end. */
export interface RedisClient {
  /** Rejects with `RedisRefusal` when it is answered by an error, and with `RedisLoss` when the connection breaks. */
  send(command: string[]): Promise<unknown>
  /** Resolves when the connection is gone, to what ended it in one word. */
  readonly ended: Promise<string | null>
  /** Ends it now; commands under way are rejected. */
  destroy(): void
}

/** The receiver of commands: one server, or several that act as one. */
export interface RedisLink {
  /** Rejects in time; see `RedisClient.send`. Only commands without a key or with one, right after its name. */
  ask(command: string[]): Promise<unknown>
  close(): void
  /** Commands wait for it to end, all together 500 ms at most. */
  readonly firstAttempt: FirstAttempt
}

/** A Redis answered with an error. Without its text, which may quote what was sent. */
export class RedisRefusal extends Error {
  override readonly name = 'RedisRefusal'

  constructor(
    /** The first word of the answer. */
    readonly code: string,
    /** The server that a member of a cluster wants to be asked instead, as `host:port`; the host may be empty. */
    readonly redirect: string | null = null,
  ) {
    super(`Cannot use the credential cache: ${code}`)
  }
}

/** There is no connection, or there is none any more. */
export class RedisLoss extends Error {
  override readonly name = 'RedisLoss'

  constructor(
    /** What went wrong in one word, where there is one. */
    readonly code: string | null,
    state = 'connection lost',
  ) {
    super(`Cannot use the credential cache: ${code ?? state}`)
  }
}

/** What an error of a Redis is called in one word, where it has one. Of several, one that answered tells most. */
export function troubleCode(error: unknown): string | null {
  if (error instanceof AggregateError) {
    const refusal = error.errors.find((one) => one instanceof RedisRefusal)
    return troubleCode(refusal ?? error.errors[0])
  }
  return error instanceof RedisRefusal || error instanceof RedisLoss ? error.code : null
}

/** Sends one command to one server, with or without the login of the address, and hangs up. */
export type AskOnce = (endpoint: RedisEndpoint, command: string[], login: boolean) => Promise<unknown>

/**
 * The server that is the master of that name now, as the first sentinel says that knows it. All are asked at once, so
 * that one that hangs costs nothing. A sentinel that is behind names a server that is gone or has become a replica: that
 * shows when it is used, and then they are asked again.
 */
export async function findMaster(
  sentinels: RedisEndpoint[],
  master: string,
  askOnce: AskOnce,
): Promise<RedisEndpoint> {
  const command = ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', master]
  return Promise.any(
    sentinels.map(async (sentinel) => {
      // Sentinels have users and passwords of their own, mostly none; the login of the address is for the servers.
      const reply = await askOnce(sentinel, command, false).catch((error: unknown) => {
        if (error instanceof RedisRefusal && error.code === 'NOAUTH') return askOnce(sentinel, command, true)
        throw error
      })
      return readMaster(reply)
    }),
  )
}

function readMaster(reply: unknown): RedisEndpoint {
  if (!Array.isArray(reply)) throw new RedisRefusal('NOMASTER')
  const [host, port] = reply.map(String)
  return { host: host!, port: Number(port) }
}
