import { ClientError, type AccountField } from './errors.ts'

/** The values that reading an account's data takes. `docs/connect.md` says where to get them. */
export interface Account {
  /** Where the bridge is, such as `http://127.0.0.1:8000`; what follows the host is kept, a final `/v1` may be left out. */
  bridgeUrl: string
  /** An access token for Sync. */
  token: string
  /** Names the key that the data is encrypted with. */
  keyId: string
  /** The second half of the key id as 32 hexadecimal digits. */
  bucket: string
  /** 128 hexadecimal digits; empty for a client that does not decrypt. */
  syncKey: string
  /** Gets new access tokens; empty for an account whose token is not renewed. */
  refreshToken: string
  /** Where the refresh token is used. */
  tokenEndpoint: string
  /** As which program it is used. */
  clientId: string
  /** The token server, for those who start a bridge; empty where it is not known. */
  tokenServerUrl: string
}

const names: Record<string, keyof Account> = {
  BRIDGE_URL: 'bridgeUrl',
  BEARER_TOKEN: 'token',
  KEY_ID: 'keyId',
  BUCKET: 'bucket',
  SYNC_KEY: 'syncKey',
  REFRESH_TOKEN: 'refreshToken',
  TOKEN_ENDPOINT: 'tokenEndpoint',
  CLIENT_ID: 'clientId',
  TOKEN_SERVER_URL: 'tokenServerUrl',
}

/** Reads lines `NAME=value`, as Firefox prints them with the recipe, among any others; `export` and quotes may be around them. */
export function parseAccount(text: string): Partial<Account> {
  const found: Partial<Account> = {}
  for (const [, name, value] of text.matchAll(/\b([A-Z_]+)=((?:["']?Bearer )?[^\s&]+)/g)) {
    const field = names[name!]
    if (field) found[field] = withoutQuotes(value!)
  }
  return found
}

/** The lines that `parseAccount` reads, without values that are empty. */
export function formatAccount(account: Partial<Account>): string {
  return Object.entries(names)
    .filter(([, field]) => account[field])
    .map(([name, field]) => `${name}=${account[field]}\n`)
    .join('')
}

/**
 * The account, without what comes along when values are copied. Throws `ClientError`, which names the field, when it can't be used.
 * The bucket may be left out, and the sync key by those who don't decrypt.
 */
export function checkAccount(given: Partial<Account>): Account {
  const value = (field: keyof Account) => withoutQuotes(given[field] ?? '')
  const token = readToken(value('token'))
  const keyId = value('keyId')
  if (!/^\d+-[\w-]{22}={0,2}$/.test(keyId)) {
    const shape = 'a number, a hyphen and 22 characters, like 1700000000000-AbCdEfGhIjKlMnOpQrStUv'
    throw wrong('keyId', `The key id is ${shape}.`)
  }
  const bucket = bucketOf(keyId)
  const givenBucket = value('bucket').toLowerCase()
  if (givenBucket !== '' && givenBucket !== bucket) {
    const advice = 'Leave this field empty if the key id is right: the bucket follows from it.'
    throw wrong('bucket', `This bucket belongs to another account than the key id. ${advice}`)
  }
  const bridgeUrl = value('bridgeUrl')
  if (bridgeUrl !== '' && !isHttp(bridgeUrl))
    throw wrong('bridgeUrl', `The address of the bridge begins with https:// or http://: ${bridgeUrl}`)
  return {
    bridgeUrl,
    token,
    keyId,
    bucket,
    syncKey: value('syncKey') === '' ? '' : readKey(value('syncKey')),
    refreshToken: value('refreshToken'),
    tokenEndpoint: value('tokenEndpoint'),
    clientId: value('clientId'),
    tokenServerUrl: value('tokenServerUrl'),
  }
}

/** Whether an account can renew its access token. */
export function isRenewable({ refreshToken, tokenEndpoint, clientId }: Account): boolean {
  return refreshToken !== '' && tokenEndpoint !== '' && clientId !== ''
}

function isHttp(address: string): boolean {
  return URL.canParse(address) && /^https?:$/.test(new URL(address).protocol)
}

function wrong(field: AccountField, message: string): ClientError {
  return new ClientError(message, { field })
}

/** An access token as headers can carry it. */
function readToken(text: string): string {
  const token = text.replace(/^bearer(\s+|$)/i, '')
  if (token === '') throw wrong('token', 'The access token is missing.')
  const [strange] = /[^!-~]/u.exec(token) ?? []
  if (strange === undefined) return token
  const what = /\s/.test(strange) ? 'a space' : `“${strange}”`
  throw wrong('token', `There is ${what} in this access token, which no token has: copy it again.`)
}

function readKey(text: string): string {
  if (/^[0-9a-f]{128}$/i.test(text)) return text
  if (/^[\w+/-]{86}={0,2}$/.test(text)) return hexOfBase64(text.replaceAll('=', ''))
  const forms = '128 hexadecimal digits, or 86 characters of base64url'
  throw wrong('syncKey', `The sync key is 64 bytes: ${forms}.`)
}

/** Values are often copied together with the quotes around them. */
export function withoutQuotes(text: string): string {
  return text
    .trim()
    .replace(/^["'“”„‘’`]/, '')
    .replace(/["'“”„‘’`]$/, '')
}

/** The bucket that a key id names: the part behind the hyphen as hexadecimal digits; empty when it is none. */
export function bucketOf(keyId: string): string {
  const state = /^\d+-([\w-]{22})=*$/.exec(keyId)?.[1]
  return state === undefined ? '' : hexOfBase64(state)
}

function hexOfBase64(base64url: string): string {
  const bytes = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'))
  return Array.from(bytes, (char) => char.charCodeAt(0).toString(16).padStart(2, '0')).join('')
}
