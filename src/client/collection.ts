import { decryptRecord, UnreadableRecord, type ClearRecord, type KeyPair } from './crypto.ts'
import type { StoredRecord } from './record-list.ts'
import type { Requests } from './requests.ts'

export type { StoredRecord } from './record-list.ts'

/** A collection of an account. */
export interface CollectionInfo {
  name: string
  /** In ms since 1970. */
  lastModified: number
}

/** A record with its meaning. */
export interface SyncRecord {
  collection: string
  stored: StoredRecord
  /** Null where the key does not open it. A deletion is a record, too: `{ id, deleted: true }`. */
  clear: ClearRecord | null
  /** Why it can't be read, as a sentence, or null. */
  problem: string | null
}

/** A record that can be read and is no deletion. */
export type ReadableRecord = SyncRecord & { clear: ClearRecord }

export function isReadable(record: SyncRecord): record is ReadableRecord {
  return record.clear !== null && record.clear.deleted !== true
}

/** What of a collection is read, and how. */
export interface ReadOptions {
  /** Only what has changed after this moment, in ms since 1970. */
  since?: number
  /**
   * How many records are asked for at once; null: all, of which some at a time are handed on as they come. That is faster, and what breaks
   * off is asked for again as a whole. @default 1000
   */
  pageSize?: number | null
  signal?: AbortSignal
}

/** A part of a collection. */
export interface Page<Item> {
  records: Item[]
  /** When the collection had changed last when its first page was read, in ms since 1970: `since` for the next time. */
  lastModified: number
}

/** What a collection is read with. */
export interface Source {
  requests: Requests
  /** The keys of a collection. */
  keysOf(collection: string): Promise<KeyPair>
}

/** A collection of an account, read from the bridge. Everything here rejects with `ClientError`. */
export class Collection {
  constructor(
    readonly name: string,
    private readonly source: Source,
    private readonly path: string,
  ) {}

  /** How many records it has, and when it has changed last, in ms since 1970. */
  async count(): Promise<{ total: number; lastModified: number }> {
    const { headers } = await this.source.requests.ask(this.path, { method: 'HEAD' })
    return { total: Number(headers.get('Total-Records')), lastModified: momentOf(headers) }
  }

  /** The records, decrypted, as they come. A record that changes meanwhile may come again. */
  async *records(options: ReadOptions = {}): AsyncGenerator<SyncRecord> {
    for await (const { records } of this.pages(options)) yield* records
  }

  /** The same, page by page. */
  async *pages(options: ReadOptions = {}): AsyncGenerator<Page<SyncRecord>> {
    const open = await this.#opener()
    for await (const { records, lastModified } of this.storedPages(options))
      yield { records: await Promise.all(records.map(open)), lastModified }
  }

  /** The records as they are stored, page by page; the next one is asked for while one is used. */
  async *storedPages({ since, pageSize = 1000, signal }: ReadOptions = {}): AsyncGenerator<
    Page<StoredRecord>
  > {
    const { requests } = this.source
    const ask = (query: string) => {
      const asked =
        pageSize === null
          ? requests.stream(this.path + query, { signal })
          : requests
              .ask(this.path + query, { signal })
              .then(({ body, headers }) => ({ headers, parts: [body.data] }))
      // It may fail while nobody waits for it yet.
      asked.catch(() => {})
      return asked
    }
    const limited = (from?: number) => {
      const limit = pageSize === null ? [] : [`_limit=${pageSize}`]
      const parameters = from === undefined ? limit : [...limit, `_since=%22${from}%22`]
      return parameters.length > 0 ? `?${parameters.join('&')}` : ''
    }
    let asked = ask(limited(since))
    let lastModified = 0
    for (let isFirst = true; ;) {
      const { parts, headers } = await asked
      const next = headers.get('Next-Page')
      const isLast = next === null && isFirst
      if (isFirst) lastModified = momentOf(headers)
      // Of the next page's address only the query: nobody but this bridge gets the token.
      if (next !== null) asked = ask(new URL(next).search)
      // A record that changes between two pages moves to the front, and is on none of the later ones: what has changed since the
      // first page is asked for at the end.
      else if (!isLast) asked = ask(limited(lastModified))
      for await (const records of parts) yield { records, lastModified }
      if (isLast) return
      isFirst = next === null
    }
  }

  async #opener(): Promise<(stored: StoredRecord) => Promise<SyncRecord>> {
    const { name } = this
    // The one collection that is not encrypted.
    if (name === 'meta') return (stored) => open(name, stored, parseMeta)
    const keys = await this.source.keysOf(name)
    return (stored) => open(name, stored, (record) => decryptRecord(keys, record))
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
  try {
    return { id, ...JSON.parse(payload) }
  } catch {
    throw new UnreadableRecord(id, 'It is no JSON')
  }
}

/** The ETag, which is a number of ms in quotes. */
function momentOf(headers: Headers): number {
  return Number((headers.get('ETag') ?? '').replaceAll('"', ''))
}
