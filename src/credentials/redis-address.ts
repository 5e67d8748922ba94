interface HostAndPort {
  host: string
  port: number
}

/** What a client is known by to Redis. A password alone is that of the user `default`. */
export interface RedisLogin {
  username?: string
  password?: string
}

/**
 * What an address names:
 * - `server`: one process
 * - `sentinel`: processes that know which server is the master of that name
 * - `cluster`: some of the servers that share the keys among them
 */
export type RedisAddress = RedisLogin & {
  database: number
  /** With `ca`, the authorities to trust in PEM, instead of the usual ones. */
  tls: false | { ca?: string }
} & (
    | { kind: 'server'; endpoints: [HostAndPort | { path: string }] }
    | { kind: 'sentinel'; endpoints: HostAndPort[]; master: string; sentinelLogin: RedisLogin }
    | { kind: 'cluster'; endpoints: HostAndPort[] }
  )

/**
 * Reads the address of a Redis:
 * - `redis://[login@]host[:port][/database]`
 * - `unix://[login@]/path[?db=database]`, also as `redis+unix:`
 * - `redis+sentinel://[login@]host[:port][,host[:port]…]/master[/database][?sentinel_password=…]`; the hosts are those of
 *   the sentinels, and `sentinel_user=` is one of theirs. Without a password of their own they get that of the login, as
 *   their user `default`, who accepts any password where none is set.
 * - `redis+cluster://[login@]host[:port][,host[:port]…]`
 *
 * `login` is `[user][:password]`. With `rediss` instead of `redis` all connections use TLS and trust the usual
 * authorities, or those of `?cacert=`, a PEM text. Whatever is special in a URL is percent-encoded. Hosts may be IPv6
 * addresses in brackets.
 *
 * Null when it is anything else.
 */
export function readRedisAddress(url: string): RedisAddress | null {
  try {
    return readUnixAddress(url) ?? readNetworkAddress(url)
  } catch {
    // An escape that can't be decoded. The error quotes the address, which may hold a password, so it ends here.
    return null
  }
}

const unixForm = /^(?:redis\+)?unix:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?(\/[^?#]+)(?:\?db=(\d{1,5}))?$/

function readUnixAddress(url: string): RedisAddress | null {
  const match = unixForm.exec(url)
  if (!match) return null
  const [, username, password, path, database] = match
  return {
    kind: 'server',
    endpoints: [{ path: decodeURIComponent(path!) }],
    ...readLogin(username, password),
    database: Number(database ?? 0),
    tls: false,
  }
}

const networkForm =
  /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?#\s]+)((?:\/[^/?#\s]*)*)(?:\?([^#\s]+))?$/

function readNetworkAddress(url: string): RedisAddress | null {
  const match = networkForm.exec(url)
  if (!match) return null
  const [, secure, kind = 'server', username, password, hosts, path, query = ''] = match
  const endpoints = readEndpoints(hosts!, kind === 'sentinel' ? 26_379 : 6379)
  const segments = path!.split('/').slice(1)
  const master = kind === 'sentinel' ? decodeURIComponent(segments.shift() ?? '') : ''
  const [database = '', ...rest] = segments
  const parameters = readParameters(query)
  if (!endpoints || !parameters || !/^\d{0,5}$/.test(database) || rest.length > 0) return null
  const { cacert: ca, sentinel_user: sentinelUser, sentinel_password: sentinelPassword } = parameters
  if ((ca && !secure) || (sentinelUser && !sentinelPassword) || (sentinelPassword && kind !== 'sentinel'))
    return null
  const login = readLogin(username, password)
  const common = { ...login, database: Number(database), tls: secure ? { ca } : (false as const) }
  switch (kind) {
    case 'sentinel': {
      if (master === '') return null
      const sentinelLogin = { username: sentinelUser, password: sentinelPassword ?? login.password }
      return { kind, endpoints, master, sentinelLogin, ...common }
    }
    case 'cluster':
      // A cluster has no databases.
      return common.database === 0 ? { kind, endpoints, ...common } : null
    default:
      return endpoints.length === 1 ? { kind: 'server', endpoints: [endpoints[0]!], ...common } : null
  }
}

const endpointForm = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]@/?#\s]+))(?::(\d{1,5}))?$/

function readEndpoints(text: string, defaultPort: number): HostAndPort[] | null {
  const endpoints = text.split(',').map((one) => {
    const [, ipv6, name, port] = endpointForm.exec(one) ?? []
    return { host: ipv6 ?? name ?? '', port: Number(port ?? defaultPort) }
  })
  return endpoints.every(({ host, port }) => host !== '' && port >= 1 && port <= 65_535) ? endpoints : null
}

function readParameters(query: string): Record<string, string | undefined> | null {
  const parameters: Record<string, string> = {}
  for (const text of query === '' ? [] : query.split('&')) {
    const [, name, value] = /^(cacert|sentinel_user|sentinel_password)=(.+)$/.exec(text) ?? []
    if (!name) return null
    parameters[name] = decodeURIComponent(value!)
  }
  return parameters
}

function readLogin(username?: string, password?: string): RedisLogin {
  return {
    username: username ? decodeURIComponent(username) : undefined,
    password: password ? decodeURIComponent(password) : undefined,
  }
}
