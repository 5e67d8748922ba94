import { RedisRefusal } from './redis-client.ts'

import type { RedisEndpoint } from './redis-address.ts'

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
