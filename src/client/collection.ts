import {
  readNextQuery,
  readRecords,
  readTimestamp,
  readTotal,
  requireAll,
  unexpected,
  type StoredRecord,
} from './answers.ts'
import { decryptRecord, parseContent, UnreadableRecord, type ClearRecord, type KeyPair } from './crypto.ts'
import { ClientError } from './errors.ts'
import type { Requests } from './requests.ts'

export type { CollectionInfo, StoredRecord } from './answers.ts'

/** A record, stored and decrypted. */
export interface SyncRecord {
  collection: string
  stored: StoredRecord
  /** Null if the key can't decrypt it. A deletion is `{ id, deleted: true }`. */
  clear: ClearRecord | null
  /** Why it can't be decrypted, as a sentence; null if it can. */
  problem: string | null
}

/** A record that could be decrypted and is not a deletion. */
export type ReadableRecord = SyncRecord & { clear: ClearRecord }

export function isReadable(record: SyncRecord): record is ReadableRecord {
  return record.clear !== null && record.clear.deleted !== true
}

/** Which records to read, and how. */
export interface ReadOptions {
  /** Only records changed after this time, in ms since 1970. */
  since?: number
  /** Only records with these ids; up to 400. */
  ids?: readonly string[]
  /** Records per request; null: all in one streamed request. If others change the collection, pages are read again. @default null */
  pageSize?: number | null
  signal?: AbortSignal
}

/** One page of a collection. */
export interface Page<Item> {
  records: Item[]
  /** The collection's timestamp when the first page was read, in ms since 1970. Pass it as `since` next time. */
  lastModified: number
}

/** What a collection needs to read its records. */
export interface Source {
  requests: Requests
  /** The keys of a collection. */
  keysOf(collection: string, signal?: AbortSignal): Promise<KeyPair>
  forgetKeys(): void
}

/** A collection of an account. All methods reject with `ClientError`. */
export class Collection {
  constructor(
    readonly name: string,
    private readonly source: Source,
    private readonly path: string,
  ) {}

  /** The number of records, and the last change in ms since 1970. */
  async count(signal?: AbortSignal): Promise<{ total: number; lastModified: number }> {
    const { headers } = await this.source.requests.ask(this.path, { method: 'HEAD', signal })
    return { total: readTotal(headers), lastModified: readTimestamp(headers) }
  }

  /** Yields decrypted records. With a page size, records may be yielded twice. */
  async *records(options: ReadOptions = {}): AsyncGenerator<SyncRecord> {
    for await (const { records } of this.pages(options)) yield* records
  }

  /** The same, page by page. */
  async *pages(options: ReadOptions = {}): AsyncGenerator<Page<SyncRecord>> {
    const open = await this.#opener(options.signal)
    for await (const { records, lastModified } of this.storedPages(options))
      yield { records: await Promise.all(records.map(open)), lastModified }
  }

  /** Yields stored records, page by page; requests the next page while one is processed. */
  async *storedPages({ since, ids, pageSize = null, signal }: ReadOptions = {}): AsyncGenerator<
    Page<StoredRecord>
  > {
    const { requests } = this.source
    type Asked = Promise<{
      headers: Headers
      parts: Iterable<StoredRecord[]> | AsyncIterable<StoredRecord[]>
    }>
    const ask = (query: string): Asked => {
      const asked =
        pageSize === null
          ? requests.stream(this.path + query, { signal })
          : requests
              .ask(this.path + query, { signal })
              .then(({ body, headers }) => ({ headers, parts: [readRecords(body)] }))
      // Nothing may be awaiting the request yet when it fails.
      asked.catch(() => {})
      return asked
    }
    const query = new URLSearchParams()
    if (pageSize !== null) query.set('_limit', String(pageSize))
    if (since !== undefined) query.set('_since', `"${since}"`)
    if (ids !== undefined) query.set('in_ids', ids.join(','))
    const first = `?${query}`
    for (;;) {
      let asked: Asked | null = ask(first)
      let query: string | null = first
      let lastModified: number | null = null
      let count = 0
      let received = 0
      let refusal: ClientError | null = null
      while (asked) {
        let page: Awaited<Asked>
        try {
          page = await asked
        } catch (error) {
          // Pages are only valid while nothing changes if the bridge cuts them, as for many ids.
          if (count === 0 || !(error instanceof ClientError) || error.status !== 400) throw error
          refusal = error
          break
        }
        const { parts, headers } = page
        lastModified ??= readTimestamp(headers)
        const next: string | null = readNextQuery(headers)
        if (next !== null && next === query) throw unexpected('the same page again')
        query = next
        asked = next === null ? null : ask(next)
        count += 1
        for await (const records of parts) {
          received += records.length
          yield { records, lastModified }
        }
        // Of a page, other servers say how many all pages have.
        if (next === null && pageSize === null) requireAll(headers, received)
      }
      if (count === 1 && !refusal) return
      // If others have changed or deleted a record between two pages, the pages miss another one, so everything is read again.
      if (lastModified === 0) throw new ClientError('The response has no ETag: does a proxy remove it?')
      if ((await this.count(signal)).lastModified !== lastModified) continue
      if (refusal) throw refusal
      return
    }
  }

  async #opener(signal?: AbortSignal): Promise<(stored: StoredRecord) => Promise<SyncRecord>> {
    const { name, source } = this
    // The only collection that is not encrypted.
    if (name === 'meta') return (stored) => open(name, stored, parseMeta)
    const keys = await source.keysOf(name, signal)
    let newKeys: Promise<KeyPair> | undefined
    const decrypt = (record: StoredRecord) =>
      decryptRecord(keys, record).catch(() => {
        // A client that was reset has created new keys.
        if (!newKeys) source.forgetKeys()
        newKeys ??= source.keysOf(name, signal)
        return decryptRecord(newKeys, record)
      })
    return (stored) => open(name, stored, decrypt)
  }
}

async function open(
  collection: string,
  stored: StoredRecord,
  decrypt: (stored: StoredRecord) => ClearRecord | Promise<ClearRecord>,
): Promise<SyncRecord> {
  try {
    return { collection, stored, clear: await decrypt(stored), problem: null }
  } catch (error) {
    if (!(error instanceof UnreadableRecord)) throw error
    return { collection, stored, clear: null, problem: error.reason }
  }
}

function parseMeta({ id, payload = '' }: StoredRecord): ClearRecord {
  return { ...parseContent(id, payload, 'It is not JSON'), id }
}
