/** Names and values of a query, in their order; a value is a list when it names several things. */
export type Query = [name: string, value: string | string[]][]

/**
 * The address of a resource of the storage: each segment is percent-encoded once and stays one segment. Throws
 * before anything can be sent when URL parsing would make another address of it: a record's address must never
 * turn into that of its collection, or of the whole storage.
 */
export function storageUrl(endpoint: string, segments: readonly string[], query: Query = []): URL {
  const base = new URL(endpoint)
  const pathname = [base.pathname, ...segments.map(encodeSegment)].join('/')
  const search = query.length > 0 ? `?${query.map(encodeParameter).join('&')}` : ''
  const url = new URL(base.origin + pathname + search)
  const isIntended =
    url.origin === base.origin && url.pathname === pathname && url.search === search && url.hash === ''
  if (!isIntended) throw new RangeError('Cannot address a resource of the storage: its name changes in a URL')
  return url
}

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
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
