interface HostAndPort {
  host: string
  port: number
}

/** The login of a client. Without a user name, Redis uses `default`. */
interface RedisLogin {
  username?: string
  password?: string
}

/**
 * The kinds of address:
 * - `server`: one server
 * - `sentinel`: sentinels, which know the current master of that name
 * - `cluster`: some of the servers that share the keys
 */
export type RedisAddress = RedisLogin & {
  database: number
  /** `ca`: the authorities to trust in PEM, instead of the system's. */
  tls: false | { ca?: string }
} & (
    | { kind: 'server'; endpoints: [HostAndPort | { path: string }] }
    | { kind: 'sentinel'; endpoints: HostAndPort[]; master: string; sentinelLogin: RedisLogin }
    | { kind: 'cluster'; endpoints: HostAndPort[] }
  )

/**
 * Parses the address of a Redis:
 * - `redis://[login@]host[:port][/database]`
 * - `unix://[login@]/path[?db=database]`, also as `redis+unix:`
 * - `redis+sentinel://[login@]host[:port][,host[:port]…]/master[/database][?sentinel_password=…]`: the hosts are the sentinels, and
 *   `sentinel_user=` is their user. Without a password of their own they get that of the login, as user `default`, which accepts any
 *   password if none is set.
 * - `redis+cluster://[login@]host[:port][,host[:port]…]`
 *
 * `login` is `[user][:password]`. With `rediss` instead of `redis`, all connections use TLS and trust the system's authorities, or those in
 * the PEM file `?cacert=`. Special characters are percent-encoded. Hosts may be IPv6 addresses in brackets.
 *
 * Null if it is anything else.
 */
export function readRedisAddress(url: string): RedisAddress | null {
  const match = addressPattern.exec(url)
  try {
    return match && readParts(match)
  } catch {
    // An invalid escape or host. Drops the error, because it quotes the address, which may contain a password.
    return null
  }
}

const addressPattern =
  /^(?:redis(s?)(?:\+(sentinel|cluster))?|(?:redis\+)?(unix)):\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?#\s]*)(\/[^?#]*)?(?:\?([^#\s]+))?$/

function readParts(match: string[]): RedisAddress | null {
  const [, secure, topology = 'server', unix, user, word, hosts, path = '', query = ''] = match
  const {
    db,
    cacert: ca,
    sentinel_user: sentinelUser,
    sentinel_password: sentinelPassword,
  } = readParameters(query)
  const isSentinel = topology === 'sentinel'
  if ((db && !unix) || (ca && !secure) || (sentinelPassword && !isSentinel)) return null
  if (sentinelUser && !sentinelPassword) return null
  const segments = unix ? [db] : path.split('/').slice(1)
  const master = isSentinel && decodeURIComponent(segments.shift() ?? '')
  const [database = '', ...rest] = segments
  if (master === '' || !/^\d{0,5}$/.test(database) || rest.length > 0) return null
  const [username, password] = [user, word].map((text) => (text ? decodeURIComponent(text) : undefined))
  const tls = secure ? { ca } : (false as const)
  const common = { username, password, database: Number(database), tls }
  if (unix) {
    const isLocal = hosts === '' && path.length > 1
    return isLocal ? { kind: 'server', endpoints: [{ path: decodeURIComponent(path) }], ...common } : null
  }
  const [first, ...others] = hosts!.split(',').map((host) => readEndpoint(host, isSentinel ? 26_379 : 6379))
  const endpoints = [first!, ...others]
  if (master) {
    const sentinelLogin = { username: sentinelUser, password: sentinelPassword ?? password }
    return { kind: 'sentinel', endpoints, master, sentinelLogin, ...common }
  }
  // A cluster has no databases.
  if (topology === 'cluster') return common.database === 0 ? { kind: 'cluster', endpoints, ...common } : null
  return others.length === 0 ? { kind: 'server', endpoints: [first!], ...common } : null
}

/** Throws for an invalid host or port. */
function readEndpoint(text: string, defaultPort: number): HostAndPort {
  const { hostname, port } = new URL(`redis://${text}`)
  if (hostname === '' || port === '0') throw new Error('No host or port')
  return { host: hostname.replaceAll(/[[\]]/g, ''), port: Number(port || defaultPort) }
}

/** Throws for a parameter that is unknown or empty. */
function readParameters(query: string): Record<string, string | undefined> {
  const entries = query
    .split('&')
    .map((text) => /^(db|cacert|sentinel_user|sentinel_password)=(.+)$/.exec(text)!)
  return query === ''
    ? {}
    : Object.fromEntries(entries.map(([, name, value]) => [name, decodeURIComponent(value!)]))
}
