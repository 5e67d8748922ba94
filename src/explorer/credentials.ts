/** The values that reading an account's data takes; fields of the form have their names. */
export interface Credentials {
  token: string
  keyId: string
  bucket: string
  /** 128 hexadecimal digits. */
  syncKey: string
}

/** Why the data can't be shown, in words that help. */
export class Trouble extends Error {
  constructor(
    message: string,
    /** The field of the form that another value would cure, or null. */
    readonly field: keyof Credentials | null = null,
    /** Of the bridge's answer, or null. */
    readonly status: number | null = null,
  ) {
    super(message)
  }
}

/** What the form holds, without what comes along when values are copied. Throws `Trouble` when it can't be used. */
export function readCredentials(form: FormData): Credentials {
  const value = (name: keyof Credentials) => withoutQuotes(`${form.get(name)}`)
  const token = readToken(value('token'))
  const keyId = value('keyId')
  if (!/^\d+-[\w-]{22}={0,2}$/.test(keyId)) {
    const shape = 'a number, a hyphen and 22 characters, like 1700000000000-AbCdEfGhIjKlMnOpQrStUv'
    throw new Trouble(`The key id is ${shape}.`, 'keyId')
  }
  const bucket = bucketOf(keyId)
  const given = value('bucket').toLowerCase()
  if (given !== '' && given !== bucket) {
    const advice = 'Leave this field empty if the key id is right: the bucket follows from it.'
    throw new Trouble(`This bucket belongs to another account than the key id. ${advice}`, 'bucket')
  }
  const syncKey = hexKey(value('syncKey'))
  if (syncKey === null) {
    const forms = '128 hexadecimal digits, or 86 characters of base64url'
    throw new Trouble(`The sync key is 64 bytes: ${forms}.`, 'syncKey')
  }
  return { token, keyId, bucket, syncKey }
}

/** An access token as headers can carry it. */
function readToken(text: string): string {
  const token = text.replace(/^bearer(\s+|$)/i, '')
  if (token === '') throw new Trouble('The access token is missing.', 'token')
  const [strange] = /[^!-~]/u.exec(token) ?? []
  if (strange === undefined) return token
  const what = /\s/.test(strange) ? 'a space' : `“${strange}”`
  throw new Trouble(`There is ${what} in this access token, which no token has: copy it again.`, 'token')
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
  return state === undefined ? '' : toHex(state)
}

function hexKey(text: string): string | null {
  if (/^[0-9a-f]{128}$/i.test(text)) return text
  return /^[\w+/-]{86}={0,2}$/.test(text) ? toHex(text.replaceAll('=', '')) : null
}

function toHex(base64url: string): string {
  const bytes = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'))
  return Array.from(bytes, (char) => char.charCodeAt(0).toString(16).padStart(2, '0')).join('')
}

const names: Record<string, keyof Credentials> = {
  BEARER_TOKEN: 'token',
  KEY_ID: 'keyId',
  BUCKET: 'bucket',
  SYNC_KEY: 'syncKey',
}

/** Credentials out of lines `NAME=value`, as the sandbox and the recipe for Firefox print them. */
export function readLines(text: string): Partial<Credentials> {
  const found: Partial<Credentials> = {}
  for (const [, name, value] of text.matchAll(/\b([A-Z_]+)=((?:["']?Bearer )?[^\s&]+)/g)) {
    const field = names[name!]
    if (field) found[field] = withoutQuotes(value!)
  }
  return found
}
