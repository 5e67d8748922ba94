import { createIdentity } from '../domain/credentials.ts'
import type { Identity } from '../domain/credentials.ts'
import { RecentMap } from '../domain/recent-map.ts'
import { errno, ServiceError } from '../domain/errors.ts'

/** The headers of a request or a sub-request that identify the user, by their lower-case names. */
export interface IdentityHeaders {
  authorization?: string
  'x-keyid'?: string
  'x-client-state'?: string
}

/** The identity, and whether the client is an old one whose bucket does not name the client state. */
interface ReadIdentity {
  identity: Identity
  isLegacyBucket: boolean
}

const clientStateForm = /^[0-9a-fA-F]{32}$/
const legacyClientStateForm = /^[a-zA-Z0-9._-]{1,32}$/
// A client state is 16 bytes; the token server can't store a longer one, and fails like a server that is out of order.
const keyIdForm = /^\d{1,19}-[\w-]{1,22}$/
// Printable characters without comma and blank: servers join two headers of one name by a comma.
const authorizationForm = /^(browserid|bearer) +([\x21-\x2b\x2d-\x7e]{1,8192})$/i

/**
 * Reads the identity for a bucket from Authorization, X-KeyID and X-Client-State. A bucket of 32 characters is the client
 * state; for any other the headers name it. Throws `ServiceError` 401 when the credentials are missing, unusable, or
 * contradict each other.
 */
export function readIdentity(headers: IdentityHeaders, bucket: string): ReadIdentity {
  const { scheme, assertion } = readAuthorization(headers)
  const keyId = readKeyId(headers)
  if (bucket.length === 32) {
    if (!clientStateForm.test(bucket)) throw unauthenticated('The bucket id is not a client state')
    return { identity: identityOf(scheme, assertion, bucket, keyId), isLegacyBucket: false }
  }
  const stated = readClientState(headers) ?? (keyId && clientStateOf(keyId))
  if (!stated) {
    throw unauthenticated(
      'The bucket id is not a client state, and neither X-Client-State nor X-KeyID tells it',
    )
  }
  return { identity: identityOf(scheme, assertion, stated, keyId), isLegacyBucket: true }
}

/** The number of remembered identities, and the greatest length of the headers that one is remembered by. */
const known = { identities: 1000, headerLength: 4096 }

/** Reads identities and remembers them by their raw headers: clients send the same ones for minutes. */
export class IdentityReader {
  readonly #recent = new RecentMap<string, ReadIdentity>(known.identities)
  #last: { headers: IdentityHeaders; bucket: string; read: ReadIdentity } | null = null

  /** The same as `readIdentity`. */
  read(headers: IdentityHeaders, bucket: string): ReadIdentity {
    // The sub-requests of a batch come one after the other with the same headers.
    if (this.#last?.bucket === bucket && areAlike(this.#last.headers, headers)) return this.#last.read
    const read = this.#recall(headers, bucket)
    this.#last = { headers, bucket, read }
    return read
  }

  #recall(headers: IdentityHeaders, bucket: string): ReadIdentity {
    const raw = `${bucket}\n${headers['x-keyid'] ?? ''}\n${headers['x-client-state'] ?? ''}\n${headers.authorization ?? ''}`
    const remembered = this.#recent.get(raw)
    if (remembered) return remembered
    const read = readIdentity(headers, bucket)
    if (raw.length <= known.headerLength) this.#recent.set(raw, read)
    return read
  }
}

function areAlike(one: IdentityHeaders, other: IdentityHeaders): boolean {
  return (
    one.authorization === other.authorization &&
    one['x-keyid'] === other['x-keyid'] &&
    one['x-client-state'] === other['x-client-state']
  )
}

/**
 * Reads the identity where no bucket is named: with the client state that the headers name, or an empty one. Null when
 * there are no usable credentials.
 */
export function readAnonymousIdentity(headers: IdentityHeaders): Identity | null {
  try {
    const { scheme, assertion } = readAuthorization(headers)
    const keyId = readKeyId(headers)
    const stated = (keyId && clientStateOf(keyId)) ?? readClientState(headers) ?? ''
    return identityOf(scheme, assertion, stated, keyId)
  } catch {
    return null
  }
}

/** Throws `ServiceError` 401 when a request has no credentials of a usable form. */
export function requireAuthorization(headers: IdentityHeaders): void {
  readAuthorization(headers)
}

function readAuthorization(headers: IdentityHeaders): Pick<Identity, 'scheme' | 'assertion'> {
  const value = headers.authorization
  if (value === undefined || value.trim() === '') throw unauthenticated('Authorization in header: is missing')
  const match = authorizationForm.exec(value.trim())
  if (!match) {
    throw unauthenticated(
      'Authorization in header: must be "BrowserID <assertion>" or "Bearer <access token>"',
    )
  }
  return { scheme: match[1]!.toLowerCase() === 'bearer' ? 'Bearer' : 'BrowserID', assertion: match[2]! }
}

function identityOf(
  scheme: Identity['scheme'],
  assertion: string,
  clientState: string,
  keyId: string | null,
): Identity {
  if (scheme === 'BrowserID') return createIdentity({ scheme, assertion, clientState })
  if (keyId === null) throw unauthenticated('X-KeyID in header: is missing, and an access token needs it')
  const named = clientStateOf(keyId)
  if (named !== clientState.toLowerCase()) {
    throw unauthenticated('X-KeyID in header: names another client state than the bucket id')
  }
  return createIdentity({ scheme, assertion, clientState: named, keyId })
}

function readKeyId(headers: IdentityHeaders): string | null {
  const value = headers['x-keyid']
  if (value === undefined) return null
  if (!keyIdForm.test(value)) {
    throw unauthenticated('X-KeyID in header: must be "<keys_changed_at>-<base64url client state>"')
  }
  return value
}

function readClientState(headers: IdentityHeaders): string | null {
  const value = headers['x-client-state']
  if (value === undefined || value === '') return null
  if (!legacyClientStateForm.test(value)) {
    throw unauthenticated(
      'X-Client-State in header: must be 1 to 32 letters, digits, dots, dashes and underscores',
    )
  }
  return value
}

/** The client state inside a key id, in hex. */
function clientStateOf(keyId: string): string {
  return Buffer.from(keyId.slice(keyId.indexOf('-') + 1), 'base64url').toString('hex')
}

function unauthenticated(message: string): ServiceError {
  return new ServiceError(401, errno.missingCredentials, message)
}
