import {
  collectionKeys,
  decryptRecord,
  keyPairFromHex,
  type ClearRecord,
  type KeyPair,
} from '../../docs/examples/sync-crypto.js'
import { Trouble, type Credentials } from './credentials.ts'

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

export interface Account {
  /** The names of the account's collections, without that of the keys. */
  collections: string[]
  /**
   * Calls back with the records of a collection as they come; one that changes meanwhile may come again. Rejects with
   * `Trouble`.
   */
  read(collection: string, signal: AbortSignal, onEntries: (entries: Entry[]) => void): Promise<void>
}

const pageSize = 1000

/** Opens an account at the bridge that this page comes from. Rejects with `Trouble`. */
export async function openAccount(credentials: Credentials): Promise<Account> {
  if (!isSecureContext) throw new Trouble(insecure)
  const listed = await ask(credentials, '/collections')
  const keysRecord = await ask(credentials, '/collections/crypto/records/keys').catch((error: Trouble) => {
    const none = 'This account has no keys in its storage: has a Firefox of it synced yet?'
    throw error.status === 404 ? new Trouble(none) : error
  })
  const keysOf = await collectionKeys(keyPairFromHex(credentials.syncKey), keysRecord.body.data).catch(() => {
    throw new Trouble(otherKey, 'syncKey')
  })
  const ids: string[] = listed.body.data.map(({ id }: WireRecord) => id)
  return {
    collections: ids.filter((id) => id !== 'crypto'),
    async read(collection, signal, onEntries) {
      const keyPair = await keysOf(collection)
      const records = `/collections/${encodeURIComponent(collection)}/records`
      async function entryOf(wire: WireRecord): Promise<Entry> {
        const path = `/v1/buckets/${credentials.bucket}${records}/${encodeURIComponent(wire.id)}`
        return { collection, path, wire, ...(await decrypted(collection, wire, keyPair)) }
      }
      let isFirstPage = true
      for (let query = `?_limit=${pageSize}`; query !== '';) {
        const { body, headers } = await ask(credentials, records + query, signal)
        onEntries(await Promise.all(body.data.map(entryOf)))
        const next = headers.get('Next-Page')
        // Of the next page's address only the query: the page asks only the bridge that it comes from.
        if (next !== null) query = new URL(next).search
        // A record that changes between two pages moves to the front, and is on none of the later pages. Each of them has the
        // version of the first one, since when it is asked for.
        else if (!isFirstPage)
          query = `?_limit=${pageSize}&_since=${encodeURIComponent(headers.get('ETag') ?? '')}`
        else query = ''
        isFirstPage = next === null
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
  signal?: AbortSignal,
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of several shapes, from our own origin
): Promise<{ body: any; headers: Headers }> {
  const url = new URL(`buckets/${encodeURIComponent(bucket)}${path}`, location.href)
  const headers = { Authorization: `Bearer ${token}`, 'X-KeyID': keyId }
  let answer: Response
  try {
    answer = await fetch(url, { headers, signal, cache: 'no-store', credentials: 'omit' })
  } catch {
    throw new Trouble('The bridge does not answer. Is it still running?')
  }
  const body = await answer.json().catch(() => null)
  if (answer.ok && body !== null) return { body, headers: answer.headers }
  if (answer.ok) throw new Trouble('The answer broke off: the storage failed, or the connection.')
  throw troubleOf(answer, body)
}

function troubleOf(
  { status, headers }: Response,
  body: { message?: string; errno?: number } | null,
): Trouble {
  const message = body?.message ?? `The bridge answers ${status}.`
  // 104: something is missing or contradicts itself, which another token would not cure.
  if (status === 401)
    return body?.errno === 104
      ? new Trouble(message, 'keyId')
      : new Trouble(`${message.replace(/\.?$/, '.')} ${newToken}`, 'token')
  const seconds = Number(headers.get('Retry-After'))
  return new Trouble(seconds > 0 ? `${message} (in ${seconds} s)` : message, null, status)
}

const insecure =
  'Browsers decrypt only in pages that come over https, or from 127.0.0.1 or localhost: open this page by such an address.'
const otherKey = 'This sync key does not open the account: it belongs to another one, or is an old one.'
const newToken =
  'A token ends after some hours at most, and belongs to one account, as the key id does. Get a new one the way you got ' +
  'this, and paste it here.'
