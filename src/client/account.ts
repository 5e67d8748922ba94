import { ClientError, type AccountField } from './errors.ts'

/** The values needed to read an account's data; `docs/connect.md` says where to get them. */
export interface Account {
  /** The URL of the bridge, such as `http://127.0.0.1:8000`; may include a path, and may end in `/v1`. */
  bridgeUrl: string
  /** An access token for Sync. */
  token: string
  /** Identifies the key that encrypts the data. */
  keyId: string
  /** The second half of the key id, as 32 hexadecimal digits. */
  bucket: string
  /** 128 hexadecimal digits; empty for a client that does not decrypt. */
  syncKey: string
  /** Used to get new access tokens; empty if the token can't be renewed. */
  refreshToken: string
  /** The URL that exchanges the refresh token for an access token. */
  tokenEndpoint: string
  /** The OAuth client id that the refresh token was issued to. */
  clientId: string
  /** The token server, needed to start a bridge; empty if unknown. */
  tokenServerUrl: string
  /** The sync keys from before password resets, as `KEY_ID:SYNC_KEY` joined by commas; `keyFor` looks them up. */
  formerKeys: string
  /** The file that it was read from, to which new access tokens are written; empty if none. */
  file: string
}

/** The values in a file; `file` is not one of them. */
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
  FORMER_KEYS: 'formerKeys',
}

/** Finds the `NAME=value` lines that the Firefox recipe prints, in any text; `export`, quotes and comments are allowed. */
export function parseAccount(text: string): Partial<Account> {
  const found: Partial<Account> = {}
  for (const [, name, value] of text.matchAll(/^[ \t]*#.*|\b([A-Z_]+)=((?:["']?Bearer )?[^\s&]+)/gm)) {
    const field = names[name!]
    if (field) found[field] = withoutQuotes(value!)
  }
  return found
}

/**
 * Formats an account as the lines that `parseAccount` reads, without empty values. Quoted, because a shell may source them. Throws
 * `ClientError` for a value that quotes can't hold.
 */
export function formatAccount(account: Partial<Account>): string {
  return Object.entries(names)
    .filter(([, field]) => account[field])
    .map(([name, field]) => `${name}=${quoted(name, account[field]!)}\n`)
    .join('')
}

function quoted(name: string, value: string): string {
  if (/^[!-&(-~]+$/.test(value)) return `'${value}'`
  throw new ClientError(`${name} contains a quote, a space or another character that no value has`)
}

/**
 * Validates an account, and cleans up values that were copied with surrounding characters. Throws `ClientError` with the name of the
 * invalid field. The bucket is optional; so is the sync key, if nothing is decrypted.
 */
export function checkAccount(given: Partial<Account>): Account {
  const value = (field: keyof Account) => withoutQuotes(given[field] ?? '')
  const token = readToken(value('token'))
  const keyId = value('keyId')
  if (!/^\d+-[\w-]{22}={0,2}$/.test(keyId)) {
    const shape = 'a number, a hyphen and 22 characters, like 1700000000000-AbCdEfGhIjKlMnOpQrStUv'
    throw wrong('keyId', `The key id must be ${shape}.`)
  }
  const bucket = bucketOf(keyId)
  const givenBucket = value('bucket').toLowerCase()
  if (givenBucket !== '' && givenBucket !== bucket) {
    const advice = 'Leave it empty if the key id is right: the bucket is derived from it.'
    throw wrong('bucket', `This bucket belongs to another account than the key id. ${advice}`)
  }
  const bridgeUrl = value('bridgeUrl')
  // The message does not repeat the address, which may contain a password.
  if (bridgeUrl !== '' && !(URL.canParse(bridgeUrl) && /^https?:\/\/[^@?#]+$/i.test(bridgeUrl)))
    throw wrong(
      'bridgeUrl',
      'The address of the bridge must begin with https:// or http://, without a user, password or query.',
    )
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
    formerKeys: value('formerKeys'),
    file: given.file ?? '',
  }
}

/** The lines that `parseAccount` may have read the token from; a file may begin with a byte order mark. */
const tokenLines = /^(\uFEFF?[ \t]*(?:export[ \t]+)?BEARER_TOKEN=).*$/gm

/** The text of an account's file with its present token; null if the file contains another account by now. */
export function withToken(text: string, { token, refreshToken }: Account): string | null {
  if (parseAccount(text).refreshToken !== refreshToken) return null
  // A function, because a text may hold references like $&.
  return text.replaceAll(tokenLines, (_, name) => `${name}'${token}'`)
}

/** The values that renew access tokens. */
export type Renewal = Pick<Account, 'refreshToken' | 'tokenEndpoint' | 'clientId'>

/** Whether an account can renew its access token. */
export function isRenewable({ refreshToken, tokenEndpoint, clientId }: Renewal): boolean {
  return refreshToken !== '' && tokenEndpoint !== '' && clientId !== ''
}

function wrong(field: AccountField, message: string): ClientError {
  return new ClientError(message, { field })
}

/** Validates an access token for use in a header. */
function readToken(text: string): string {
  const token = text.replace(/^bearer(\s+|$)/i, '')
  if (token === '') throw wrong('token', 'The access token is missing.')
  const [strange] = /[^!-~]/u.exec(token) ?? []
  if (strange === undefined) return token
  const what = /\s/.test(strange) ? 'a space' : `“${strange}”`
  throw wrong('token', `This access token contains ${what}, which is invalid: copy it again.`)
}

/** Reads a sync key as hexadecimal digits. Throws `ClientError`. */
export function readKey(text: string): string {
  if (/^[0-9a-f]{128}$/i.test(text)) return text
  if (/^[\w+/-]{86}={0,2}$/.test(text)) return hexOfBase64(text.replaceAll('=', ''))
  const forms = '128 hexadecimal digits, or 86 characters of base64url'
  throw wrong('syncKey', `The sync key must be ${forms}.`)
}

/** Removes surrounding quotes, which are often copied along. */
export function withoutQuotes(text: string): string {
  return text
    .trim()
    .replace(/^["'“”„‘’`]/, '')
    .replace(/["'“”„‘’`]$/, '')
}

/** The bucket of a key id: the part after the hyphen, in hexadecimal digits; empty if the key id is invalid. */
export function bucketOf(keyId: string): string {
  const state = /^\d+-([\w-]{22})=*$/.exec(keyId)?.[1]
  return state === undefined ? '' : hexOfBase64(state)
}

function hexOfBase64(base64url: string): string {
  const bytes = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'))
  return Array.from(bytes, (char) => char.charCodeAt(0).toString(16).padStart(2, '0')).join('')
}
