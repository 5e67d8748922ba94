/** What a client authenticates with. Every part is secret and never logged. */
export interface Identity {
  scheme: 'BrowserID' | 'Bearer'
  /** The identity assertion or the OAuth access token. */
  assertion: string
  /** Hex text that identifies the user's encryption key; also the bucket id. Sent to the token server. */
  clientState: string
  /** The X-KeyID header that goes with an access token: `<keys_changed_at>-<base64url client state>`. */
  keyId?: string
  /** All parts as one text, unique for each identity. */
  key: string
}

/** The credentials that the token server issues for an identity; they allow reading and writing one user's storage. */
export interface SyncCredentials {
  hawkId: string
  hawkKey: string
  endpoint: Endpoint
  uid: number
  /** Wall clock, ms since 1970, after which the storage rejects them. */
  expiresAtMs: number
}

/** Base address of a user's storage. Parsed once, because every call needs its parts. */
export interface Endpoint {
  /** Without a trailing slash. */
  href: string
  origin: string
  host: string
  hostname: string
  /** Explicit, even if it is the scheme's default. */
  port: string
  /** Without a trailing slash. */
  path: string
}

export function toEndpoint({ origin, protocol, host, hostname, port, pathname }: URL): Endpoint {
  const path = pathname.endsWith('/') ? pathname.slice(0, -1) : pathname
  return {
    href: origin + path,
    origin,
    host,
    hostname,
    port: port || (protocol === 'https:' ? '443' : '80'),
    path,
  }
}

export function createIdentity(parts: Omit<Identity, 'key'>): Identity {
  const { scheme, assertion, clientState, keyId } = parts
  return { ...parts, key: joinFields(scheme, assertion, clientState, keyId) }
}

/** Prefixes each field with its length, so that different fields never give the same text. */
export function joinFields(...fields: (string | undefined)[]): string {
  let text = ''
  for (const field of fields) text += field === undefined ? '-' : `${field.length}:${field}`
  return text
}
