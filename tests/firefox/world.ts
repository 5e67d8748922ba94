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
} from '../../src/client/crypto.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { startExecutable } from '../support/executable.ts'
import { startAccounts, type Accounts } from './accounts.ts'
import { startFirefox, type Firefox } from './firefox.ts'
import { byId } from './records.ts'

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

/** The result of a sync. */
interface SyncOutcome {
  service: string
  outcome: string
  /** Names of engines with errors, and records that could not be applied or sent. */
  engines: Record<string, string>
  failed: Record<string, number>
  /** The problems that the bookmark validator found. */
  problems: { name: string; count: number }[]
}

const writable = ['bookmarks', 'history', 'tabs', 'passwords', 'forms', 'prefs', 'clients']

/** A storage with sample data, a bridge over it, its client with the user's key, and the user's Firefox. */
export interface World extends AsyncDisposable {
  user: SandboxUser
  /** Of the bridge, without the version. */
  bridgeUrl: string
  headers: Record<string, string>
  bucket: Bucket
  firefox: Firefox
  accounts: Accounts
  /** Syncs Firefox; rejects on any error or any problem found by its validator. */
  sync(): Promise<void>
  /** All records of a collection, decrypted, ordered by id. */
  pull(collection: string): Promise<ClearRecord[]>
  open(collection: string, record: { id: string; payload: string }): Promise<ClearRecord>
  /** A record for a PUT. */
  seal(collection: string, clear: ClearRecord): Promise<{ id: string; payload: string }>
}

/** Starts everything; nothing is synced yet except by Firefox itself. */
export async function startWorld(): Promise<World> {
  await using stack = new AsyncDisposableStack()
  // As docs/backup.md says, so that a restore is one batch.
  const settings = { batch_max_requests: '1000' }
  const bridge = stack.use(await startExecutable({ settings, writable }))
  const { sandbox } = bridge
  const user = sandbox.addUser('sample')
  fillSampleData(sandbox, user, { history: 300 })
  const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }
  const bucket = new KintoClient(`${bridge.url}/v1`, { headers }).bucket(user.clientState)
  const syncKeys = keyPairFromHex(user.syncKey.toString('hex'))
  let reading: Promise<{ data: SealedRecord }> | null = null
  // Read again each time, because Firefox creates new keys after a wipe; once for records that are decrypted at the same time.
  const keysOf = async (collection: string): Promise<KeyPair> => {
    reading ??= bucket.collection('crypto').getRecord<SealedRecord>('keys')
    const { data } = await reading.finally(() => (reading = null))
    return (await collectionKeys(syncKeys, data))(collection)
  }
  const pull = async (collection: string) => {
    const { data } = await bucket.collection(collection).listRecords<SealedRecord>({ pages: Infinity })
    const keys = await keysOf(collection)
    return byId(await Promise.all(data.map((record) => decryptRecord(keys, record))))
  }
  const clients = await pull('clients')
  const accounts = startAccounts({
    email: 'sample.user@example.org',
    devices: clients.map(({ fxaDeviceId, name }) => ({ id: String(fxaDeviceId), name: String(name) })),
    mintAccessToken: (expiresInSeconds) => user.bearerToken({ expiresInSeconds }),
  })
  stack.defer(() => accounts.stop())
  const firefox = await startFirefox({ accounts, tokenServerUrl: sandbox.tokenServerUrl, user })
  stack.defer(() => firefox.stop())
  const all = stack.move()
  return {
    user,
    bridgeUrl: bridge.url,
    headers,
    bucket,
    firefox,
    accounts,
    async sync() {
      const outcome = await firefox.call<SyncOutcome>('sync')
      const { service, outcome: sync, ...troubles } = outcome
      const isGood = service === 'success.status_ok' && sync === 'success.sync'
      const isQuiet = Object.values(troubles).every((trouble) => Object.keys(trouble).length === 0)
      if (!isGood || !isQuiet) throw new Error(`Firefox did not sync well: ${JSON.stringify(outcome)}`)
    },
    pull,
    open: async (collection, record) => decryptRecord(await keysOf(collection), record),
    seal: async (collection, clear) => {
      return { id: clear.id, payload: await encryptRecord(await keysOf(collection), clear) }
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** The part of a kinto.js collection that is used here. */
interface LocalCollection {
  list(): Promise<{ data: (ClearRecord & { last_modified: number })[] }>
  update(record: ClearRecord): Promise<unknown>
  sync(): Promise<{ ok: boolean; errors: unknown[]; conflicts: unknown[] }>
}

/** A collection of kinto.js that decrypts what it pulls and encrypts what it publishes. */
export function openLocal({ bridgeUrl, user, headers, seal, open }: World, name: string): LocalCollection {
  const kinto = new Kinto({
    remote: `${bridgeUrl}/v1`,
    bucket: user.clientState,
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
