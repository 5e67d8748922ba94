/** Names and values of a query, in their order; a value is a list when it names several things. */
export type Query = [name: string, value: string | string[]][]

/** Where a request goes, in the parts that sending and signing it need. A `URL` is one, and costs more to make. */
export type Address = Pick<
  URL,
  'href' | 'origin' | 'protocol' | 'host' | 'hostname' | 'port' | 'pathname' | 'search'
>

/**
 * The address of a resource of the storage: each segment is percent-encoded once and stays one segment. Throws
 * for names of which URL parsing would make another address: a record's address must never turn into that of its
 * collection, or of the whole storage.
 */
export function storageUrl(endpoint: string | URL, segments: readonly string[], query: Query = []): Address {
  const { origin, protocol, host, hostname, port, pathname: prefix } = baseOf(endpoint)
  let pathname = prefix
  for (const segment of segments) pathname += `/${encodeSegment(segment)}`
  const search = query.length > 0 ? `?${query.map(encodeParameter).join('&')}` : ''
  return { href: origin + pathname + search, origin, protocol, host, hostname, port, pathname, search }
}

function baseOf(endpoint: string | URL): URL {
  const base = typeof endpoint === 'string' ? new URL(endpoint) : endpoint
  if (base.search === '' && base.hash === '' && base.username === '' && base.password === '') return base
  throw new RangeError('Cannot address a resource of the storage: its endpoint is more than an address')
}

// What is left of a name in these characters means the same to every URL parser; the two dot segments do not.
const unreserved = /^[\w.~-]+$/

function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new RangeError('Cannot address a resource of the storage: its name is empty or a dot segment')
  }
  return encode(segment)
}

function encodeParameter([name, value]: Query[number]): string {
  return `${name}=${typeof value === 'string' ? encode(value) : value.map(encode).join(',')}`
}

/** Percent-encodes whatever is not unreserved; see RFC 3986, 2.3. Throws on text that isn't well-formed Unicode. */
function encode(text: string): string {
  if (unreserved.test(text)) return text
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
