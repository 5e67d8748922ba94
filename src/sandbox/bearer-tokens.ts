import { issuer, toCount } from './assertions.ts'
import { openCompact, signCompact, signingKeys } from './jws.ts'
import { TokenError, unauthorized } from './token-error.ts'

/** The OAuth scope that opens Sync. */
export const syncScope = 'https://identity.mozilla.com/apps/oldsync'

const leewaySeconds = 60

/** What an access token is made of. */
export interface BearerParts {
  /** The account's id, the local part of its address. */
  account: string
  scope: string
  /** Seconds since the epoch. */
  expiresAt: number
  /** The claim `fxa-generation`, left out when null. */
  generation: number | null
}

/** What a verified access token says. */
export interface BearerIdentity {
  email: string
  generation: number | null
}

/** The key half of an OAuth identity: the header X-KeyID taken apart. */
export interface KeyId {
  keysChangedAt: number | null
  /** Hex. */
  clientState: string
}

/** A signed `at+jwt`, to be sent as `Authorization: Bearer <this>` together with X-KeyID. */
export function mintBearerToken({ account, scope, expiresAt, generation }: BearerParts): string {
  const claims = { iss: `https://${issuer}`, sub: account, scope, exp: expiresAt, client_id: 'sandbox' }
  return signCompact(
    { alg: 'RS256', typ: 'at+jwt', kid: 'sandbox' },
    generation === null ? claims : { ...claims, 'fxa-generation': generation },
  )
}

/** Who the token speaks for; throws TokenError. An expired token is just as invalid as a forged one. */
export function verifyBearerToken(text: string, nowMs: number): BearerIdentity {
  const token = openCompact(text)
  if (token === null) throw unauthorized('invalid-credentials')
  const { alg, typ } = token.header
  const { sub, scope, exp } = token.claims
  const isSound =
    alg === 'RS256' &&
    /^(application\/)?at\+jwt$/i.test(String(typ)) &&
    token.isSignedBy(signingKeys().publicKey) &&
    typeof exp === 'number' &&
    exp + leewaySeconds > nowMs / 1000 &&
    typeof sub === 'string' &&
    // Only commas part the scopes: a token with several of them, parted by blanks, is refused.
    String(scope).split(',').includes(syncScope)
  if (!isSound) throw unauthorized('invalid-credentials')
  return { email: `${sub}@${issuer}`, generation: toCount(token.claims['fxa-generation']) }
}

/** Formats X-KeyID; the client state is given in hex. */
export function formatKeyId(keysChangedAt: number, clientState: string): string {
  const digits = String(keysChangedAt).padStart(13, '0')
  return `${digits}-${Buffer.from(clientState, 'hex').toString('base64url')}`
}

/** Reads X-KeyID; throws TokenError when it is absent or malformed. */
export function readKeyId(header: string | null): KeyId {
  if (header === null || !/^[\x20-\x7e]*$/.test(header)) {
    throw new TokenError(401, 'invalid-key-id', 'header', 'X-KeyID', 'Missing or unreadable X-KeyID')
  }
  const parts = /^(\d{1,18})-([A-Za-z0-9_-]+)$/.exec(header)
  const state = parts?.[2] ?? ''
  // One base64 digit alone can't encode a byte.
  if (parts === null || state.length % 4 === 1) throw unauthorized('invalid-credentials')
  return {
    keysChangedAt: toCount(Number(parts[1])),
    clientState: Buffer.from(state, 'base64url').toString('hex'),
  }
}
