import {
  ConnectionTimeoutError,
  createClient,
  createCluster,
  createSentinel,
  ErrorReply,
  SocketTimeoutError,
} from 'redis'
import type { RedisAddress } from './redis-address.ts'

export type RedisClient = ReturnType<typeof createRedisClient>

/** An idle connection is asked for a sign of life so often, and given up after so long without any. */
const pingIntervalMs = 1000
const silenceTimeoutMs = 1500

/**
 * A client that connects once, to where the address says at that moment. `onError` is told whatever goes wrong with a
 * connection of it, before it is connected and afterwards.
 */
export function createRedisClient(
  address: RedisAddress,
  connectTimeoutMs: number,
  onError: (error: unknown) => void,
) {
  const { username, password, database, tls } = address
  // The library's own timeout does not cover commands that have been sent, so there is another one around it.
  const commandOptions = { timeout: 0 }
  const socket = {
    connectTimeout: connectTimeoutMs,
    // Also bounds the greeting: a hung server still accepts connections.
    socketTimeout: silenceTimeoutMs,
    reconnectStrategy: false,
    ...(tls && ({ tls: true, ...tls } as const)),
  } as const
  const common = {
    username,
    password,
    socket,
    pingInterval: pingIntervalMs,
    disableOfflineQueue: true,
    // What has no answer yet, so that nothing piles up where a whole cluster hangs.
    commandsQueueMaxLength: 10_000,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions,
  } as const
  switch (address.kind) {
    case 'server':
      return createClient({ ...common, database, socket: { ...socket, ...address.endpoints[0] } }).on(
        'error',
        onError,
      )
    case 'sentinel':
      return createSentinel({
        name: address.master,
        sentinelRootNodes: address.endpoints,
        nodeClientOptions: { ...common, database },
        sentinelClientOptions: { ...common, ...address.sentinelLogin },
        commandOptions,
        // All commands share one connection, and none of them is repeated.
        reserveClient: true,
        maxCommandRediscovers: 0,
        passthroughClientErrorEvents: true,
      }).on('error', (error) => onError(error.cause ?? error))
    case 'cluster':
      return createCluster({
        rootNodes: address.endpoints.map((endpoint) => ({ socket: endpoint })),
        defaults: common,
        commandOptions,
        // A member that is away must not keep the others from being used.
        minimizeConnections: true,
        // A member that does not know its own host leaves it out: it is that of the others.
        nodeAddressMap: (text) => {
          const port = /^(?:null|\?)?:(\d+)$/.exec(text)?.[1]
          return port ? { host: address.endpoints[0]!.host, port: Number(port) } : undefined
        },
      })
        .on('error', onError)
        .on('node-error', onError)
    default:
      return address satisfies never
  }
}

/** Whether a command or a greeting was answered with an error. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof ErrorReply
}

/** What an error is called in one word (`ECONNREFUSED`, `WRONGPASS`, `OOM`), where it has one. */
export function codeOf(error: unknown): string | null {
  if (error instanceof SocketTimeoutError || error instanceof ConnectionTimeoutError) return 'ETIMEDOUT'
  if (isRefusal(error)) {
    if (error.message.includes('No such master')) return 'NOMASTER'
    return /^[A-Z]{2,20}\b/.exec(error.message)?.[0] ?? 'ERR'
  }
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' ? code : null
}
