/** Where one Redis process listens. */
export type RedisEndpoint = { host: string; port: number } | { path: string }

/** How the servers want to be greeted. */
export interface RedisGreeting {
  username?: string
  password?: string
  database: number
  /** With `ca`, the authorities to trust in PEM, instead of the usual ones. */
  tls: false | { ca?: string }
}

/**
 * What an address names:
 * - `server`: one process
 * - `sentinel`: processes that know which server is the master of that name
 * - `cluster`: some of the servers that share the keys among them
 */
export type RedisAddress = RedisGreeting & { endpoints: RedisEndpoint[] } & (
    { kind: 'server' | 'cluster' } | { kind: 'sentinel'; master: string }
  )

/**
 * Reads the address of a Redis:
 * - `redis://[login@]host[:port][/database]`
 * - `unix://[login@]/path[?db=database]`, also as `redis+unix:`
 * - `redis+sentinel://[login@]host[:port][,host[:port]…]/master[/database]`; the hosts are those of the sentinels
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

/** A host and port as one text: what tells servers apart. */
export function endpointText(endpoint: RedisEndpoint): string {
  if ('path' in endpoint) return endpoint.path
  return endpoint.host.includes(':')
    ? `[${endpoint.host}]:${endpoint.port}`
    : `${endpoint.host}:${endpoint.port}`
}

const endpointForm = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]@/?#\s]+))(?::(\d{1,5}))?$/

/** The inverse of `endpointText`; null when it isn't `host` or `host:port`. */
export function readEndpoint(text: string, defaultPort: number): RedisEndpoint | null {
  const match = endpointForm.exec(text)
  if (!match) return null
  const port = Number(match[3] ?? defaultPort)
  return port >= 1 && port <= 65_535 ? { host: match[1] ?? match[2]!, port } : null
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
  /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?#\s]+)((?:\/[^/?#\s]*)*)(?:\?cacert=([^&#\s]+))?$/
const databaseForm = /^\d{0,5}$/

function readNetworkAddress(url: string): RedisAddress | null {
  const match = networkForm.exec(url)
  if (!match) return null
  const [, secure, topology = 'server', username, password, hosts, path, ca] = match
  const endpoints = hosts!
    .split(',')
    .map((text) => readEndpoint(text, topology === 'sentinel' ? 26_379 : 6379))
  if (!endpoints.every((endpoint) => endpoint !== null) || (ca !== undefined && !secure)) return null
  const segments = path!.split('/').slice(1)
  const master = topology === 'sentinel' ? decodeURIComponent(segments.shift() ?? '') : ''
  const [database = '', ...rest] = segments
  if (!databaseForm.test(database) || rest.length > 0) return null
  const common = {
    endpoints,
    ...readLogin(username, password),
    database: Number(database),
    tls: secure ? { ...(ca !== undefined && { ca: decodeURIComponent(ca) }) } : (false as const),
  }
  switch (topology) {
    case 'sentinel':
      return master === '' ? null : { kind: 'sentinel', master, ...common }
    case 'cluster':
      // A cluster has no databases.
      return common.database === 0 ? { kind: 'cluster', ...common } : null
    default:
      return endpoints.length === 1 ? { kind: 'server', ...common } : null
  }
}

function readLogin(username?: string, password?: string): Pick<RedisGreeting, 'username' | 'password'> {
  return {
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
  }
}
