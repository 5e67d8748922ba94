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

/** How often an idle connection is pinged, and after how much silence it is closed. */
const pingIntervalMs = 1000
const silenceTimeoutMs = 1500

/** Creates a client that connects once, to where the address points at that time. `onError` gets every error of its connections. */
export function createRedisClient(
  address: RedisAddress,
  connectTimeoutMs: number,
  onError: (error: unknown) => void,
) {
  const { username, password, database, tls } = address
  // The library's timeout does not cover commands that were sent, so the caller uses its own.
  const commandOptions = { timeout: 0 }
  const socket = {
    connectTimeout: connectTimeoutMs,
    // Also bounds the handshake, because a hung server still accepts connections.
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
    // Bounds the commands without a reply, so that they don't pile up if a cluster hangs.
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
        // All commands share one connection, and are never repeated.
        reserveClient: true,
        maxCommandRediscovers: 0,
        passthroughClientErrorEvents: true,
      }).on('error', (error) => onError(error.cause ?? error))
    case 'cluster':
      return createCluster({
        rootNodes: address.endpoints.map((endpoint) => ({ socket: endpoint })),
        defaults: common,
        commandOptions,
        // Only connects as needed, so that a missing member does not block the others.
        minimizeConnections: true,
        // A member that does not know its own host omits it: use the first host.
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

/** Whether Redis replied with an error. */
export function isErrorReply(error: unknown): error is Error {
  return error instanceof ErrorReply
}

/** The code of an error in one word (`ECONNREFUSED`, `WRONGPASS`, `OOM`); null if it has none. */
export function redisCodeOf(error: unknown): string | null {
  if (error instanceof SocketTimeoutError || error instanceof ConnectionTimeoutError) return 'ETIMEDOUT'
  if (isErrorReply(error)) {
    if (error.message.includes('No such master')) return 'NOMASTER'
    return /^[A-Z]{2,20}\b/.exec(error.message)?.[0] ?? 'ERR'
  }
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' ? code : null
}
