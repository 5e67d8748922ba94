import { createIdentity, type Identity } from '../domain/credentials.ts'
import { errno, ServiceError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import type { RequestHeaders } from './resource.ts'

/** The identity, and whether the client is an old one whose bucket does not name the client state. */
interface ReadIdentity {
  identity: Identity
  isLegacyBucket: boolean
}

const clientStateForm = /^[0-9a-fA-F]{32}$/
// Printable characters without comma and blank: servers join two headers of one name by a comma.
const authorizationForm = /^(browserid|bearer) +([\x21-\x2b\x2d-\x7e]{1,8192})$/i

// Clients send the same headers for minutes.
const recent = new RecentMap<string, ReadIdentity>(1000)

/**
 * Reads the identity for a bucket from Authorization, X-KeyID and X-Client-State. A bucket of 32 characters is the client
 * state; for any other the headers name it. Throws `ServiceError` 401 when the credentials are missing, unusable, or
 * contradict each other.
 */
export function readIdentity(headers: RequestHeaders, bucket: string): ReadIdentity {
  const raw = `${bucket}\n${headers['x-keyid'] ?? ''}\n${headers['x-client-state'] ?? ''}\n${headers.authorization ?? ''}`
  const known = recent.get(raw)
  if (known) return known
  const read = { identity: identityOf(headers, bucket), isLegacyBucket: bucket.length !== 32 }
  recent.set(raw, read)
  return read
}

/**
 * Reads the identity where no bucket is named: with the client state that the headers name, or an empty one. Null when
 * there are no usable credentials.
 */
export function readAnonymousIdentity(headers: RequestHeaders): Identity | null {
  try {
    return identityOf(headers, null)
  } catch {
    return null
  }
}

function identityOf(headers: RequestHeaders, bucket: string | null): Identity {
  const { scheme, assertion } = readAuthorization(headers)
  const keyRefusal = 'X-KeyID in header: must be "<keys_changed_at>-<base64url client state>"'
  const keyId = readOptional(headers['x-keyid'], keyIdForm, keyRefusal)
  // The client state inside a key id, in hex.
  const named = keyId && Buffer.from(keyId.slice(keyId.indexOf('-') + 1), 'base64url').toString('hex')
  const isClientState = bucket?.length === 32
  if (isClientState && !clientStateForm.test(bucket))
    throw unauthenticated('The bucket id is not a client state')
  const stateRefusal =
    'X-Client-State in header: must be 1 to 32 letters, digits, dots, dashes and underscores'
  const stated = isClientState
    ? bucket.toLowerCase()
    : readOptional(headers['x-client-state'], stateForm, stateRefusal)
  const clientState = bucket === null ? (named ?? stated ?? '') : (stated ?? named)
  if (clientState === null) {
    throw unauthenticated(
      'The bucket id is not a client state, and neither X-Client-State nor X-KeyID tells it',
    )
  }
  if (scheme === 'BrowserID') return createIdentity({ scheme, assertion, clientState })
  if (keyId === null) throw unauthenticated('X-KeyID in header: is missing, and an access token needs it')
  if (named !== clientState.toLowerCase()) {
    throw unauthenticated('X-KeyID in header: names another client state than the bucket id')
  }
  return createIdentity({ scheme, assertion, clientState: named, keyId })
}

/** Reads the credentials alone. Throws `ServiceError` 401 when they are missing or have no usable form. */
export function readAuthorization({ authorization }: RequestHeaders): Pick<Identity, 'scheme' | 'assertion'> {
  const value = authorization?.trim() ?? ''
  if (value === '') throw unauthenticated('Authorization in header: is missing')
  const match = authorizationForm.exec(value)
  if (!match) {
    throw unauthenticated(
      'Authorization in header: must be "BrowserID <assertion>" or "Bearer <access token>"',
    )
  }
  return { scheme: match[1]!.toLowerCase() === 'bearer' ? 'Bearer' : 'BrowserID', assertion: match[2]! }
}

// A client state is 16 bytes; the token server can't store a longer one, and fails like a server that is out of order.
const keyIdForm = /^\d{1,19}-[\w-]{2,22}$/
const stateForm = /^[a-zA-Z0-9._-]{1,32}$/

/** The value of a header that may be missing or empty. */
function readOptional(value: string | undefined, form: RegExp, refusal: string): string | null {
  if (!value) return null
  if (!form.test(value)) throw unauthenticated(refusal)
  return value
}

function unauthenticated(message: string): ServiceError {
  return new ServiceError(401, errno.missingCredentials, message)
}
