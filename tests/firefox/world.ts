import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { IDBKeyRange, indexedDB } from 'fake-indexeddb'
import KintoClient from 'kinto-http/lib/index.js'
import type Bucket from 'kinto-http/lib/bucket.js'
import {
  collectionKeys,
  decryptRecord,
  encryptRecord,
  keyPairFromHex,
  type ClearRecord,
  type KeyPair,
} from '../../docs/examples/sync-crypto.js'
import { start } from '../system/process.ts'
import { startAccounts, type Accounts } from './accounts.ts'
import { startFirefox, type Firefox } from './firefox.ts'

Object.assign(globalThis, { indexedDB, IDBKeyRange })
const { default: Kinto } = createRequire(import.meta.url)('kinto') as {
  default: new (options: object) => { collection(name: string, options: object): LocalCollection }
}

/** A record as the bridge shows it. */
export interface SealedRecord {
  [field: string]: unknown
  id: string
  last_modified: number
  payload: string
  sortindex?: number
}

/** What came of a sync. */
interface SyncOutcome {
  service: string
  outcome: string
  /** Names of engines with trouble, and records that could not be applied or sent. */
  engines: Record<string, string>
  failed: Record<string, number>
  /** What the validator of bookmarks had to say. */
  problems: { name: string; count: number }[]
}

/** `sync-bridge sandbox`, a client of the bridge that has its user's key, and that user's Firefox. */
export interface World {
  url: string
  bucketName: string
  headers: Record<string, string>
  bucket: Bucket
  firefox: Firefox
  /** A server that also has a page to visit, at /page. */
  accountsUrl: string
  /** Has Firefox sync and rejects unless all went well and its validator is silent. */
  sync(): Promise<void>
  /** All records of a collection, decrypted, in the order of ids. */
  pull(collection: string): Promise<ClearRecord[]>
  open(collection: string, record: { id: string; payload: string }): Promise<ClearRecord>
  /** A record for a PUT. */
  seal(collection: string, clear: ClearRecord): Promise<{ id: string; payload: string }>
  stop(): Promise<void>
}

/** Starts everything; nothing is synced yet but what Firefox does by itself. */
export async function startWorld(): Promise<World> {
  const sandbox = start(['sandbox', '--port', '0'])
  let accounts: Accounts | undefined
  const end = async () => {
    sandbox.signal('SIGTERM')
    await Promise.all([sandbox.exited, accounts?.stop()])
  }
  try {
    const [, source = ''] = await sandbox.line(/^ {2}\. (\S+)$/)
    const values = readValues(source)
    const headers = { Authorization: `Bearer ${values.BEARER_TOKEN}`, 'X-KeyID': values.KEY_ID! }
    const client = new KintoClient(`${values.BRIDGE_URL}/v1`, { headers })
    const bucket = client.bucket(values.BUCKET!)
    const syncKeys = keyPairFromHex(values.SYNC_KEY!)
    // Read anew each time: after a wipe Firefox makes other keys.
    const keysOf = async (collection: string): Promise<KeyPair> => {
      const { data } = await bucket.collection('crypto').getRecord<SealedRecord>('keys')
      return (await collectionKeys(syncKeys, data))(collection)
    }
    const pull = async (collection: string) => {
      const { data } = await bucket
        .collection(collection)
        .listRecords<SealedRecord>({ pages: Number.POSITIVE_INFINITY })
      const keys = await keysOf(collection)
      const clear = await Promise.all(data.map((record) => decryptRecord(keys, record)))
      return clear.toSorted((a, b) => (a.id < b.id ? -1 : 1))
    }
    const email = 'sample.user@example.org'
    const clients = await pull('clients')
    const devices = clients.map(({ fxaDeviceId, name }) => ({ id: String(fxaDeviceId), name: String(name) }))
    accounts = startAccounts({ bearerToken: values.BEARER_TOKEN!, email, devices })
    const firefox = await startFirefox({
      accountsUrl: accounts.url,
      tokenServerUrl: values.TOKEN_SERVER_URL!,
      email,
      keyId: values.KEY_ID!,
      syncKey: values.SYNC_KEY!,
    })
    return {
      url: `${values.BRIDGE_URL}/v1`,
      bucketName: values.BUCKET!,
      headers,
      bucket,
      firefox,
      accountsUrl: accounts.url,
      async sync() {
        const outcome = await firefox.call<SyncOutcome>('sync')
        const { service, outcome: sync, ...troubles } = outcome
        const isGood = service === 'success.status_ok' && sync === 'success.sync'
        const isQuiet = Object.values(troubles).every((trouble) => Object.keys(trouble).length === 0)
        if (!isGood || !isQuiet) throw new Error(`Firefox did not sync well: ${JSON.stringify(outcome)}`)
      },
      pull,
      open: async (collection, record) => decryptRecord(keysOf(collection), record),
      seal: async (collection, clear) => {
        return { id: clear.id, payload: await encryptRecord(keysOf(collection), clear) }
      },
      async stop() {
        await firefox.stop()
        await end()
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** The part of a kinto.js collection that is used here. */
interface LocalCollection {
  list(): Promise<{ data: (ClearRecord & { last_modified: number })[] }>
  update(record: ClearRecord): Promise<unknown>
  sync(): Promise<{ ok: boolean; errors: unknown[]; conflicts: unknown[] }>
}

/** A collection of kinto.js that decrypts what it pulls and encrypts what it publishes. */
export function openLocal({ url, bucketName, headers, seal, open }: World, name: string): LocalCollection {
  const kinto = new Kinto({
    remote: url,
    bucket: bucketName,
    headers,
    adapterOptions: { dbName: `firefox ${name}` },
  })
  const transformer = {
    async encode({ last_modified, _status, sortindex, ...clear }: ClearRecord) {
      return { ...(await seal(name, clear)), last_modified, _status, sortindex }
    },
    async decode({ payload, ...record }: ClearRecord) {
      return payload === undefined
        ? record
        : { ...record, ...(await open(name, { id: record.id, payload: String(payload) })) }
    },
  }
  const idSchema = { generate: () => '', validate: (id: string) => /^[ -~]{1,64}$/.test(id) }
  return kinto.collection(name, { idSchema, remoteTransformers: [transformer] })
}

function readValues(path: string): Record<string, string> {
  const assignments = readFileSync(path, 'utf8').matchAll(/^export ([A-Z_0-9]+)=(.*)$/gm)
  return Object.fromEntries([...assignments].map(([, name, value]) => [name, value]))
}
