import { createIdentity, type Identity } from '../domain/credentials.ts'
import { errno, ServiceError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import { decodeSegment } from './records.ts'
import type { RequestHeaders } from './resource.ts'

const clientStatePattern = /^[0-9a-fA-F]{32}$/
// Printable characters without comma and space, because servers join repeated headers with commas.
const authorizationPattern = /^(browserid|bearer) +([\x21-\x2b\x2d-\x7e]{1,8192})$/i

// Clients send the same headers for minutes, so parsed identities are cached.
const recent = new RecentMap<string, Recent>(1000)

/** What an identity was read from, besides Authorization. */
interface Recent {
  bucket: string
  keyId: string | undefined
  state: string | undefined
  identity: Identity
}

/** Whether a bucket id is not the client state, so that several users share its URLs. */
export function isLegacyBucket(bucket: string): boolean {
  return bucket.length !== clientStateLength
}

/** Whether a path is that of a legacy bucket. */
export function isInLegacyBucket(path: string): boolean {
  const bucket = bucketPattern.exec(path)?.[1]
  return bucket !== undefined && isLegacyBucket(decodeSegment(bucket) ?? bucket)
}

const bucketPattern = /^(?:\/v\d+)?\/buckets\/([^/]+)/
const clientStateLength = 32

/**
 * Reads the identity for a bucket from Authorization, X-KeyID and X-Client-State. A bucket id of 32 characters is the client state; for any
 * other the headers provide it. Throws `ServiceError` 401 if the credentials are missing, malformed or contradictory.
 */
export function readIdentity(headers: RequestHeaders, bucket: string): Identity {
  const { authorization = '', 'x-keyid': keyId, 'x-client-state': state } = headers
  const known = recent.get(authorization)
  if (known?.bucket === bucket && known.keyId === keyId && known.state === state) return known.identity
  const identity = identityOf(headers, bucket)
  recent.set(authorization, { bucket, keyId, state, identity })
  return identity
}

/** Reads the identity without a bucket, with the client state from the headers, or an empty one. Null without usable credentials. */
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
  const keyId = readOptional(headers['x-keyid'], keyIdPattern, keyRefusal)
  // The client state in the key id, in hex.
  const named = keyId && Buffer.from(keyId.slice(keyId.indexOf('-') + 1), 'base64url').toString('hex')
  const isClientState = bucket !== null && !isLegacyBucket(bucket)
  if (isClientState && !clientStatePattern.test(bucket))
    throw unauthenticated('bucket_id in path: must be the client state, 32 hexadecimal digits')
  const stateRefusal =
    'X-Client-State in header: must be 1 to 32 letters, digits, dots, dashes and underscores'
  const stated = isClientState
    ? bucket.toLowerCase()
    : readOptional(headers['x-client-state'], statePattern, stateRefusal)
  const clientState = bucket === null ? (named ?? stated ?? '') : (stated ?? named)
  if (clientState === null) {
    throw unauthenticated(
      'bucket_id in path: must be the client state, or X-Client-State or X-KeyID must contain it',
    )
  }
  if (scheme === 'BrowserID') return createIdentity({ scheme, assertion, clientState })
  if (keyId === null) throw unauthenticated('X-KeyID in header: is required with an access token')
  if (named !== clientState.toLowerCase()) {
    throw unauthenticated('X-KeyID in header: contains another client state than the bucket id')
  }
  return createIdentity({ scheme, assertion, clientState: named, keyId })
}

/** Reads only the credentials. Throws `ServiceError` 401 if they are missing or malformed. */
export function readAuthorization({ authorization }: RequestHeaders): Pick<Identity, 'scheme' | 'assertion'> {
  const value = authorization?.trim() ?? ''
  if (value === '') throw unauthenticated('Authorization in header: is required')
  const match = authorizationPattern.exec(value)
  if (!match) {
    throw unauthenticated(
      'Authorization in header: must be "BrowserID <assertion>" or "Bearer <access token>"',
    )
  }
  return { scheme: match[1]!.toLowerCase() === 'bearer' ? 'Bearer' : 'BrowserID', assertion: match[2]! }
}

// A client state is 16 bytes. The token server fails with a 5xx on longer ones.
const keyIdPattern = /^\d{1,19}-[\w-]{2,22}$/
const statePattern = /^[a-zA-Z0-9._-]{1,32}$/

/** Reads a header that may be missing or empty. */
function readOptional(value: string | undefined, form: RegExp, refusal: string): string | null {
  if (!value) return null
  if (!form.test(value)) throw unauthenticated(refusal)
  return value
}

function unauthenticated(message: string): ServiceError {
  return new ServiceError(401, errno.missingCredentials, message)
}
