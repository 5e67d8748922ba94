import { isIP, isIPv6 } from 'node:net'
import { readRedisAddress, type RedisAddress } from '../credentials/redis-address.ts'
import { invalidValue, reader, readCertificates, type Reader } from './readers.ts'

/** An address to listen on: a host name, an IPv4 or an IPv6 address, the last with or without brackets. */
export const listeningHost = reader('is not an address: write an IP address or a host name', (text) => {
  const bare = /^\[(.*)\]$/.exec(text)?.[1] ?? text
  return isHost(bare) ? bare : null
})

/** HOST:PORT to listen on. */
export const listeningAddress = reader(
  'is not an address with a port: write HOST:PORT, such as 127.0.0.1:9100',
  splitHostAndPort,
)

/** HOST or HOST:PORT, as in a URL. */
export const publicHost = reader(
  'is not a host: write the host name, with :PORT if it is not the default, without http:// and path',
  (text) => (splitHost(text) ? text.toLowerCase() : null),
)

/** An absolute http(s) URL, shown to clients. */
export const link = reader('is not a URL: write a URL that begins with https:// or http://', (text) =>
  httpUrl(text) ? text : null,
)

/**
 * The base URL of a token server, without a trailing slash and without `/1.0/sync/1.5`, which Firefox's configuration includes. May have a
 * path.
 */
export const tokenServerUrl: Reader<string> = (given) => {
  const remedy = 'write a URL such as https://token.example.org, without login, query or fragment'
  const url = httpUrl(given)
  if (!url) return invalidValue(given, `is not an http(s) URL: ${remedy}`)
  if (url.username || url.password) return { problem: `contains a user name or password: ${remedy}` }
  if (/[?#]/.test(given)) return { problem: `contains a query or fragment: ${remedy}` }
  return { value: url.origin + url.pathname.replace(/\/{0,16}(\/1\.0\/sync\/1\.5)?\/{0,16}$/, '') }
}

/** The address of the shared cache. Never quoted in a problem, because it may contain a password. `?cacert=` names a PEM file. */
export const cacheUrl: Reader<RedisAddress> = (given, context) => {
  const address = readRedisAddress(given)
  if (!address?.endpoints.every((endpoint) => 'path' in endpoint || isHost(endpoint.host))) {
    const remedy =
      'write redis://HOST:PORT/DATABASE, rediss://HOST:PORT/DATABASE for TLS, unix:///PATH, ' +
      'redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE or redis+cluster://HOST:PORT,HOST:PORT'
    return { problem: `is not a Redis address: ${remedy}` }
  }
  if (!address.tls || address.tls.ca === undefined) return { value: address }
  const otherwise = "remove cacert to trust the system's authorities"
  const reading = readCertificates(address.tls.ca, context, otherwise)
  if ('problem' in reading) return { problem: `cacert: ${reading.problem}` }
  return { value: { ...address, tls: { ca: reading.value } } }
}

/** The allowed origins of web pages, separated by commas or spaces; null for `*`, all origins. */
export const origins: Reader<Set<string> | null> = (given) => {
  const remedy = 'write *, or origins such as https://app.example.org separated by commas'
  const items = given.split(/[\s,]+/).filter((item) => item !== '')
  if (items.length === 0) return { problem: `is empty: ${remedy}` }
  if (items.length === 1 && items[0] === '*') return { value: null }
  if (items.includes('*')) return { problem: `combines "*" with other origins: ${remedy}` }
  const foreign = items.find((item) => originOf(item) === null)
  if (foreign !== undefined) return invalidValue(foreign, `is not an origin: ${remedy}`)
  return { value: new Set(items.map((item) => originOf(item)!)) }
}

/** Handles browser extensions, whose origins the URL standard calls opaque. Rejects wildcards, which would match none. */
function originOf(given: string): string | null {
  const url = /^[\w+.-]+:\/\/[^*]+$/.test(given) ? URL.parse(given.toLowerCase()) : null
  if (!url?.host) return null
  const origin = `${url.protocol}//${url.host}`
  return url.href.replace(/\/$/, '') === origin ? origin : null
}

export const udpAddress = reader('is not a UDP address: write udp://HOST:PORT', (text) =>
  splitHostAndPort(/^udp:\/\/([^/]+)\/?$/.exec(text)?.[1] ?? ''),
)

function httpUrl(given: string): URL | null {
  return /^https?:\/\/[^\s/]/i.test(given) && !/[\s\\\x00-\x1f]/.test(given) ? URL.parse(given) : null
}

function splitHostAndPort(given: string): { host: string; port: number } | null {
  const { host, port } = splitHost(given) ?? {}
  return host && port ? { host, port } : null
}

function splitHost(given: string): { host: string; port: number | null } | null {
  const [, ipv6, name, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(given) ?? []
  const port = digits === undefined ? null : Number(digits)
  if (port !== null && (port < 1 || port > 65535)) return null
  if (name !== undefined) return isHost(name) ? { host: name, port } : null
  return ipv6 !== undefined && isIPv6(ipv6) ? { host: ipv6, port } : null
}

/** Whether it is an IP address without brackets, or a host name. */
function isHost(given: string): boolean {
  if (isIP(given) !== 0) return true
  if (given.length > 253 || /^[\d.]+$/.test(given)) return false
  const labels = given.replace(/\.$/, '').split('.')
  const isName = labels.every((label) => /^[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?$/.test(label))
  // A URL takes a name that ends in a number, such as "bridge.1", for an IPv4 address.
  return isName && URL.canParse(`http://${given}`)
}
