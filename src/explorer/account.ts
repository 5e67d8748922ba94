import { collectionKeys, decryptRecord, keyPairFromHex } from '../../docs/examples/sync-crypto.js'
import type { ClearRecord, KeyPair } from '../../docs/examples/sync-crypto.js'

/** The values that reading an account's data takes; fields of the form have their names. */
export interface Credentials {
  token: string
  keyId: string
  bucket: string
  /** 128 hexadecimal digits. */
  syncKey: string
}

/** A record as the bridge sends it. */
interface WireRecord {
  id: string
  last_modified: number
  payload?: string
  sortindex?: number
}

/** A record with its meaning; `clear` is null, and `problem` tells why, where the key does not open it. */
export interface Entry {
  collection: string
  /** Where the bridge has it. */
  path: string
  wire: WireRecord
  clear: ClearRecord | null
  problem: string | null
}

/** Why the data can't be shown, in words that help. */
export class Trouble extends Error {
  constructor(
    message: string,
    readonly kind: 'expired' | 'key' | 'empty' | 'other' = 'other',
  ) {
    super(message)
  }
}

export interface Account {
  /** The names of the account's collections, without that of the keys. */
  collections: string[]
  /** Calls back with the records of a collection as they come. */
  read(collection: string, onEntries: (entries: Entry[]) => void): Promise<void>
}

const pageSize = 1000

/** Opens an account at the bridge that this page comes from. Rejects with `Trouble`. */
export async function openAccount(form: FormData): Promise<Account> {
  const credentials = readCredentials(form)
  const listed = await ask(credentials, '/collections')
  const keysRecord = await ask(credentials, '/collections/crypto/records/keys').catch((error: Trouble) => {
    const none = 'This account has no keys in its storage: has a Firefox of it synced yet?'
    throw error.kind === 'empty' ? new Trouble(none, 'empty') : error
  })
  const keysOf = await collectionKeys(keyPairFromHex(credentials.syncKey), keysRecord.body.data).catch(() => {
    throw new Trouble(otherKey, 'key')
  })
  const ids: string[] = listed.body.data.map(({ id }: WireRecord) => id)
  return {
    collections: ids.filter((id) => id !== 'crypto'),
    async read(collection, onEntries) {
      const keyPair = await keysOf(collection)
      const records = `/collections/${encodeURIComponent(collection)}/records`
      async function entryOf(wire: WireRecord): Promise<Entry> {
        const path = `/v1/buckets/${credentials.bucket}${records}/${encodeURIComponent(wire.id)}`
        return { collection, path, wire, ...(await decrypted(collection, wire, keyPair)) }
      }
      for (let query = `?_limit=${pageSize}`; query !== '';) {
        const { body, headers } = await ask(credentials, records + query)
        onEntries(await Promise.all(body.data.map(entryOf)))
        // Of the next page's address only the query: the page asks only the bridge that it comes from.
        const next = headers.get('Next-Page')
        query = next === null ? '' : new URL(next).search
      }
    },
  }
}

type Content = Pick<Entry, 'clear' | 'problem'>

async function decrypted(
  collection: string,
  { id, payload = '' }: WireRecord,
  keyPair: KeyPair,
): Promise<Content> {
  try {
    // `meta` is the one collection that is not encrypted.
    const clear =
      collection === 'meta' ? { id, ...JSON.parse(payload) } : await decryptRecord(keyPair, { id, payload })
    return { clear, problem: null }
  } catch (error) {
    return { clear: null, problem: reasonOf(error) }
  }
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : ''
  if (message.includes('another key')) return 'It was encrypted with another key, or changed since'
  if (message.includes('another id')) return 'Its content belongs to another id'
  return 'It is not encrypted the way Firefox does it'
}

async function ask(
  { token, keyId, bucket }: Credentials,
  path: string,
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of several shapes, from our own origin
): Promise<{ body: any; headers: Headers }> {
  const url = new URL(`buckets/${encodeURIComponent(bucket)}${path}`, location.href)
  const headers = { Authorization: `Bearer ${token}`, 'X-KeyID': keyId }
  let answer: Response
  try {
    answer = await fetch(url, { headers, cache: 'no-store', credentials: 'omit' })
  } catch {
    throw new Trouble('The bridge does not answer. Is it still running?')
  }
  const body = await answer.json().catch(() => null)
  if (answer.ok && body !== null) return { body, headers: answer.headers }
  throw troubleOf(answer, body)
}

function troubleOf(
  { status, headers }: Response,
  body: { message?: string; errno?: number } | null,
): Trouble {
  const message = body?.message ?? `The bridge answers ${status}.`
  // 104: something is missing or contradicts itself, which another token would not cure.
  if (status === 401 && body?.errno !== 104) return new Trouble(expired, 'expired')
  if (status === 404) return new Trouble(message, 'empty')
  const seconds = Number(headers.get('Retry-After'))
  return new Trouble(seconds > 0 ? `${message} Try again in ${seconds} s.` : message)
}

const otherKey = 'This sync key does not open the account: it belongs to another one, or is an old one.'
const expired =
  'The access token is not accepted (any more). Tokens live for some hours at most: ' +
  'get a new one the way you got this, and paste it here.'

function readCredentials(form: FormData): Credentials {
  const value = (name: keyof Credentials) => `${form.get(name)}`.trim()
  const token = value('token')
  if (!/^\S+$/.test(token)) throw new Trouble('The access token is missing.')
  const keyId = value('keyId')
  if (!/^\d+-[\w-]{22}={0,2}$/.test(keyId)) {
    throw new Trouble(
      'The key id is a number, a hyphen and 22 characters, like 1700000000000-AbCdEfGhIjKlMnOpQrStUv.',
    )
  }
  const syncKey = hexKey(value('syncKey'))
  if (syncKey === null)
    throw new Trouble('The sync key is 64 bytes: 128 hexadecimal digits, or 86 characters of base64url.')
  return { token, keyId, bucket: value('bucket') || bucketOf(keyId), syncKey }
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
  for (const [, name, value] of text.matchAll(/\b([A-Z_]+)=([^\s&]+)/g)) {
    const field = names[name!]
    if (field) found[field] = value!
  }
  return found
}
