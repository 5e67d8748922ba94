/** Path and query of a request as the client wrote them, which is what Hawk signs. */
export interface RequestTarget {
  /** Both together, as on the wire. */
  raw: string
  path: string
  query: string
}

/** Cut out of the URL text: parsing and printing it again could spell it differently. */
export function readTarget(url: string): RequestTarget {
  const authority = /^[a-z]+:\/\/[^/?]*/i.exec(url)?.[0] ?? ''
  const rest = url.slice(authority.length)
  const raw = rest.startsWith('/') ? rest : `/${rest}`
  const mark = raw.indexOf('?')
  return mark < 0
    ? { raw, path: raw, query: '' }
    : { raw, path: raw.slice(0, mark), query: raw.slice(mark + 1) }
}
