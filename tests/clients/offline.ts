import { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { IDBKeyRange, indexedDB } from 'fake-indexeddb'
import { seal, unseal, type Bookmark } from './sealed.ts'

/** A record of kinto.js, which has no types for all its versions. */
interface LocalRecord {
  id: string
  title?: string
  /** A record that was published and pulled as an encrypted tombstone. Such records may stay in the local database. */
  deleted?: boolean
  /** Replaces all of these if the application encrypts records itself. */
  payload?: string
  last_modified?: number | null
  _status?: 'created' | 'updated' | 'deleted' | 'synced'
}

export interface Conflict {
  type: 'incoming' | 'outgoing'
  local: LocalRecord
  remote: LocalRecord | null
}

interface SyncResult {
  ok: boolean
  lastModified: number | null
  errors: { type: string; message?: string }[]
  conflicts: Conflict[]
  published: LocalRecord[]
  created: LocalRecord[]
  resolved: LocalRecord[]
}

export type Strategy = 'manual' | 'client_wins' | 'server_wins' | 'pull_only'

interface SyncOptions {
  strategy?: Strategy
  headers?: Record<string, string>
  ignoreBackoff?: boolean
  retry?: number
}

/** The part that all versions share. */
interface OfflineCollection {
  lastModified: number | null
  create(record: LocalRecord, options: { useRecordId: true }): Promise<unknown>
  update(record: LocalRecord): Promise<unknown>
  delete(id: string): Promise<unknown>
  get(id: string): Promise<{ data: LocalRecord }>
  list(params?: object, options?: { includeDeleted: boolean }): Promise<{ data: LocalRecord[] }>
  resolve(conflict: Conflict, resolution: LocalRecord): Promise<unknown>
  sync(options?: SyncOptions): Promise<SyncResult>
  clear(): Promise<unknown>
  resetSyncStatus(): Promise<unknown>
}

interface Kinto {
  api: { setHeaders(headers: Record<string, string>): void }
  collection(name: string, options: object): OfflineCollection
}

type KintoClass = new (options: object) => Kinto

const require = createRequire(import.meta.url)
// The bundles of that time include its HTTP client. Without polyfills, which would replace ArrayBuffer for everything else in this process;
// the generators they need are loaded separately.
Object.assign(globalThis, {
  indexedDB,
  IDBKeyRange,
  regeneratorRuntime: require('regenerator-runtime/runtime') as unknown,
})
const versions = {
  'kinto 17.1.1': (require('kinto') as { default: KintoClass }).default,
  'kinto 12.7.0': require('kinto-12-7/dist/kinto.noshim.js') as KintoClass,
  'kinto 12.1.1': require('kinto-12-1/dist/kinto.noshim.js') as KintoClass,
  'kinto 9.0.2': require('kinto-9/dist/kinto.noshim.js') as KintoClass,
  'kinto 1.2.2': require('kinto-1/dist/kinto-1.2.2.noshim.js') as KintoClass,
}

export type KintoVersion = keyof typeof versions
export const currentVersion: KintoVersion = 'kinto 17.1.1'
export const kintoVersions = Object.keys(versions) as KintoVersion[]

export interface DeviceOptions {
  version?: KintoVersion
  url: string
  /** The client state. */
  bucket: string
  headers: Record<string, string>
  collection?: string
}

/** An application that keeps its bookmarks in kinto.js and syncs them through the service. */
export class Device {
  readonly collection: OfflineCollection
  readonly events = new EventEmitter()
  readonly #options: DeviceOptions
  readonly #kinto: Kinto
  readonly #sealsItself: boolean
  #beforePush: (() => void) | null = null
  #afterPush: (() => void) | null = null
  #isPushing = false

  constructor(options: DeviceOptions) {
    const { version = currentVersion, url, bucket, headers } = options
    const database = `device ${++devices}`
    this.#options = options
    // That version does not decode the two sides of a conflict found during a push.
    this.#sealsItself = version === 'kinto 1.2.2'
    this.#kinto = new versions[version]({
      remote: `${url}/v1`,
      bucket,
      headers,
      events: this.events,
      dbPrefix: database,
      adapterOptions: { dbName: database },
    })
    this.collection = this.reopen()
  }

  /** A new object for the same local database, as after a restart of the application. */
  reopen(bucket = this.#options.bucket): OfflineCollection {
    return this.#kinto.collection(this.#options.collection ?? 'bookmarks', {
      bucket,
      // The default schema requires UUIDs, which Firefox doesn't use.
      idSchema: { generate: firefoxId, validate: (id: string) => /^[ -~]{1,64}$/.test(id) },
      remoteTransformers: [
        {
          encode: (record: LocalRecord) => {
            this.#beforePush?.()
            this.#beforePush = null
            this.#isPushing = true
            return this.#sealsItself ? record : encode(record)
          },
          decode: (record: LocalRecord) => {
            if (this.#isPushing) {
              this.#afterPush?.()
              this.#afterPush = null
            }
            this.#isPushing = false
            return this.#sealsItself ? record : decode(record)
          },
        },
      ],
    })
  }

  /** Runs a callback once during a sync that has something to publish: after the pull, before the push. */
  beforePush(deed: (() => void) | null): void {
    this.#beforePush = deed
  }

  /** The same after the push, before the last pull. */
  afterPush(deed: () => void): void {
    this.#afterPush = deed
  }

  /** Switches accounts, with the same objects and a collection for that account. Not for the old versions. */
  become({ bucket, headers }: Pick<DeviceOptions, 'bucket' | 'headers'>): OfflineCollection {
    this.#kinto.api.setHeaders(headers)
    return this.reopen(bucket)
  }

  create(id: string, title: string): Promise<unknown> {
    return this.collection.create({ id, ...this.#content({ title }, id) }, { useRecordId: true })
  }

  edit(id: string, title: string): Promise<unknown> {
    return this.#update(id, { title })
  }

  /** Deletes in the way that Firefox understands: an edit that is published as a tombstone. */
  remove(id: string): Promise<unknown> {
    return this.#update(id, 'deleted')
  }

  sync(strategy: Strategy = 'manual', options: SyncOptions = {}): Promise<SyncResult> {
    return this.collection.sync({ strategy, ...options })
  }

  /** The titles that the application shows, by id. */
  async titles(): Promise<Record<string, string>> {
    const { data } = await this.collection.list()
    const shown = data
      .map((record) => (this.#sealsItself ? decode(record) : record))
      .filter(({ deleted }) => !deleted)
    return Object.fromEntries(shown.map(({ id, title }) => [id, title ?? '']).toSorted())
  }

  /** Ids of records that are not published yet. */
  async pending(): Promise<string[]> {
    const { data } = await this.collection.list({}, { includeDeleted: true })
    return data.filter(({ _status }) => _status !== 'synced').map(({ id }) => id)
  }

  async #update(id: string, content: Bookmark | 'deleted'): Promise<void> {
    const { data } = await this.collection.get(id)
    const { last_modified } = data
    await this.collection.update({
      id,
      ...(last_modified && { last_modified }),
      ...this.#content(content, id),
    })
  }

  #content(content: Bookmark | 'deleted', id: string): Partial<LocalRecord> {
    if (this.#sealsItself) return { payload: seal(id, content) }
    return content === 'deleted' ? { deleted: true } : { ...content, deleted: false }
  }
}

let devices = 0

function firefoxId(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(9))).toString('base64url')
}

function encode({ id, title = '', deleted, last_modified, _status }: LocalRecord): LocalRecord {
  const payload = seal(id, deleted ? 'deleted' : { title })
  return { id, payload, ...(last_modified !== undefined && { last_modified }), ...(_status && { _status }) }
}

// Also called for tombstones of the protocol, and for conflicts over deletions, which have no payload. Sets `deleted: false` otherwise,
// because kinto.js merges what it pulls into the existing record.
function decode({ payload, ...record }: LocalRecord): LocalRecord {
  if (payload === undefined) return record
  const content = unseal(payload)
  return content === 'deleted' ? { ...record, deleted: true } : { ...record, ...content, deleted: false }
}
