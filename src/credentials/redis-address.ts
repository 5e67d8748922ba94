/** Where a Redis server listens and how it wants to be greeted, in the form that the `redis` package takes. */
export interface RedisAddress {
  socket: { host: string; port: number; tls: boolean } | { path: string; tls: false }
  username?: string
  password?: string
  database: number
}

const defaultPort = 6379

/**
 * Reads `redis://[user[:password]@]host[:port][/database]`, `rediss://…` (TLS) and
 * `unix://[user[:password]@]/path[?db=database]` (also `redis+unix:`). Hosts may be IPv6 addresses in brackets.
 * Throws when it is anything else; the message shows nothing of the address, which may hold a password.
 */
export function readRedisAddress(url: string): RedisAddress {
  // What a parser throws quotes the address, so it isn't passed on as the cause either.
  const address = attempt(() => readUnixAddress(url) ?? readNetworkAddress(url))
  if (address) return address
  throw new Error(
    'Cannot read the address of the credential cache: ' +
      'expected redis://host:port/database, rediss://host:port/database or unix:///path',
  )
}

function attempt<Value>(read: () => Value): Value | null {
  try {
    return read()
  } catch {
    return null
  }
}

const unixForm = /^(?:redis\+)?unix:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?(\/[^?#]+)(?:\?db=(\d{1,5}))?$/

function readUnixAddress(url: string): RedisAddress | null {
  const match = unixForm.exec(url)
  if (!match) return null
  const [, username, password, path, database] = match
  return {
    socket: { path: decodeURIComponent(path!), tls: false },
    ...readLogin(username, password),
    database: Number(database ?? 0),
  }
}

const databaseForm = /^\/?(\d{0,5})$/

function readNetworkAddress(text: string): RedisAddress | null {
  const url = new URL(text)
  const database = databaseForm.exec(url.pathname)
  if (!database || (url.protocol !== 'redis:' && url.protocol !== 'rediss:')) return null
  return {
    socket: {
      host: decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/, '$1') || '127.0.0.1',
      port: Number(url.port || defaultPort),
      tls: url.protocol === 'rediss:',
    },
    ...readLogin(url.username, url.password),
    database: Number(database[1]),
  }
}

function readLogin(username?: string, password?: string): Pick<RedisAddress, 'username' | 'password'> {
  return {
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
  }
}
