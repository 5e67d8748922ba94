import { Database } from 'bun:sqlite'
import type { Bso, StoredRecord } from './bso.ts'
import type { Dialect } from './dialect.ts'
import { Refusal } from './reply.ts'

/** A record for bulk loading, with its timestamp and expiry in milliseconds. */
export interface TimedRecord {
  id: string
  payload: string
  sortindex?: number | null
  modified: number
  expiry?: number | null
}

/** The size of one collection, without expired records. */
interface CollectionUsage {
  collection: string
  count: number
  bytes: number
}

interface Row {
  row: number
  id: string
  modified: number
  /** The payload as JSON text, so that lists need not quote it each time. */
  quoted: string
  sortindex: number | null
  expiry: number
}

/** The expiry of records that never expire: later than any clock. */
const noExpiry = Number.MAX_SAFE_INTEGER

// Rows are immutable: a write inserts a new one and removes the old one. While a list is sent, removed rows are only
// marked, so a slow reader gets the records as of its request without a copy.
const schema = (collation: 'BINARY' | 'NOCASE') => `
  CREATE TABLE bso (
    row INTEGER PRIMARY KEY, uid INTEGER NOT NULL, collection TEXT COLLATE ${collation} NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL,
    modified INTEGER NOT NULL, sortindex INTEGER, expiry INTEGER NOT NULL, gone INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL, quoted TEXT NOT NULL
  );
  CREATE UNIQUE INDEX bso_key ON bso (uid, collection, key) WHERE gone = 0;
  CREATE INDEX bso_modified ON bso (uid, collection, modified, id) WHERE gone = 0;
  CREATE TABLE collection (
    uid INTEGER, name TEXT COLLATE ${collation}, modified INTEGER NOT NULL, PRIMARY KEY (uid, name)
  ) WITHOUT ROWID;
  CREATE TABLE tombstone (uid INTEGER PRIMARY KEY, modified INTEGER NOT NULL);
`

/** All stores of one sandbox. Times are milliseconds; missing records and collections have the timestamp 0. */
export class Storage {
  readonly database = new Database(':memory:')
  readonly #dialect: Dialect
  #openSnapshots = 0

  constructor(dialect: Dialect) {
    this.#dialect = dialect
    this.database.run('PRAGMA journal_mode = MEMORY')
    for (const statement of schema(dialect.collation).split(';').slice(0, -1)) {
      this.database.run(statement)
    }
  }

  /** Runs the work as one transaction, which an error rolls back. */
  transaction<T>(work: () => T): T {
    return this.database.transaction(work)()
  }

  /** The latest timestamp of all collections; deleted collections still count. */
  storeTimestamp(uid: number): number {
    const newest = `SELECT max(modified) AS modified FROM (
      SELECT modified FROM collection WHERE uid = ?1 UNION ALL SELECT modified FROM tombstone WHERE uid = ?1)`
    return this.#timestamp(newest, uid)
  }

  collectionTimestamp(uid: number, collection: string): number {
    return this.#timestamp('SELECT modified FROM collection WHERE uid = ? AND name = ?', uid, collection)
  }

  /** The timestamp for preconditions on a record; that of an expired one counts. */
  itemTimestamp(uid: number, collection: string, id: string, nowMs: number): number {
    const row = this.#find(uid, collection, id)
    return row === null || (row.expiry <= nowMs && !this.#dialect.expiredCounts) ? 0 : row.modified
  }

  /** Timestamps by collection name. */
  collectionTimestamps(uid: number): [name: string, modified: number][] {
    const sql = 'SELECT name, modified FROM collection WHERE uid = ? ORDER BY name'
    const rows = this.database.query<{ name: string; modified: number }, [number]>(sql).all(uid)
    return rows.map(({ name, modified }) => [name, modified])
  }

  usage(uid: number, nowMs: number): CollectionUsage[] {
    const sql = `SELECT collection, count(*) AS count, sum(bytes) AS bytes FROM bso
      WHERE uid = ? AND gone = 0 AND expiry > ? GROUP BY collection ORDER BY collection`
    return this.database.query<CollectionUsage, [number, number]>(sql).all(uid, nowMs)
  }

  /** The record; null if it is missing or expired. */
  get(uid: number, collection: string, id: string, nowMs: number): StoredRecord | null {
    const row = this.#find(uid, collection, id)
    return row === null || row.expiry <= nowMs ? null : toRecord(row)
  }

  /** All unexpired records of a collection, ordered by id; for tests. */
  all(uid: number, collection: string, nowMs: number): StoredRecord[] {
    const sql = 'SELECT * FROM bso WHERE uid = ? AND collection = ? AND gone = 0 AND expiry > ? ORDER BY id'
    return this.database.query<Row, [number, string, number]>(sql).all(uid, collection, nowMs).map(toRecord)
  }

  /**
   * Creates the record or merges the given fields into it. Only payload and sortindex change its timestamp, unless it was
   * staged. Without a ttl, an expired record keeps its expiry and stays hidden, because the servers only update the row.
   */
  put(uid: number, collection: string, bso: Bso, timestamp: number, wasStaged = false): void {
    if (!this.#dialect.canStore(bso.payload ?? '')) throw new Refusal(500)
    const old = this.#find(uid, collection, bso.id)
    const changes = wasStaged || bso.payload !== undefined || bso.sortindex !== undefined
    this.#remove('row = ?', old?.row ?? -1)
    this.insert(uid, collection, {
      id: bso.id,
      modified: old === null || changes ? timestamp : old.modified,
      payload: bso.payload ?? (old === null ? '' : toRecord(old).payload),
      sortindex: bso.sortindex ?? old?.sortindex ?? null,
      expiry: bso.ttl === undefined ? (old?.expiry ?? null) : timestamp + bso.ttl * 1000,
    })
  }

  /** Adds a new record without changing the collection's timestamp. */
  insert(uid: number, collection: string, { id, modified, payload, sortindex, expiry }: TimedRecord): void {
    const sql = `INSERT INTO bso (uid, collection, key, id, modified, sortindex, expiry, bytes, quoted)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
    const [key, bytes, quoted] = [this.keyOf(id), Buffer.byteLength(payload), JSON.stringify(payload)]
    this.database
      .query(sql)
      .run(uid, collection, key, id, modified, sortindex ?? null, expiry ?? noExpiry, bytes, quoted)
  }

  /** Sets the collection's timestamp; creates the collection if needed. */
  touch(uid: number, collection: string, timestamp: number): void {
    const sql = `INSERT INTO collection VALUES (?, ?, ?)
      ON CONFLICT (uid, name) DO UPDATE SET modified = excluded.modified`
    this.database.query(sql).run(uid, collection, timestamp)
  }

  /** Removes records, including expired ones. */
  deleteItems(uid: number, collection: string, ids: readonly string[]): void {
    for (const id of ids) {
      this.#remove('uid = ? AND collection = ? AND key = ? AND gone = 0', uid, collection, this.keyOf(id))
    }
  }

  /** Removes a collection and its timestamp. */
  deleteCollection(uid: number, collection: string, timestamp: number): void {
    const existed = this.collectionTimestamp(uid, collection) > 0
    this.#remove('uid = ? AND collection = ? AND gone = 0', uid, collection)
    this.database.query('DELETE FROM collection WHERE uid = ? AND name = ?').run(uid, collection)
    // The tombstone prevents the store's timestamp from going back.
    if (existed && this.#dialect.keepsStoreTimestamp) {
      this.database.query('INSERT OR REPLACE INTO tombstone VALUES (?, ?)').run(uid, timestamp)
    }
  }

  /** Removes all data of a user. */
  deleteStore(uid: number): void {
    this.#remove('uid = ? AND gone = 0', uid)
    this.database.query('DELETE FROM collection WHERE uid = ?').run(uid)
    this.database.query('DELETE FROM tombstone WHERE uid = ?').run(uid)
  }

  /** Keeps removed rows readable by their number until the returned function is called. */
  openSnapshot(): () => void {
    this.#openSnapshots += 1
    let isOpen = true
    return () => {
      if (!isOpen) return
      isOpen = false
      this.#openSnapshots -= 1
      if (this.#openSnapshots === 0) this.database.query('DELETE FROM bso WHERE gone = 1').run()
    }
  }

  /** The key of a record in the table. */
  keyOf(id: string): string {
    return this.#dialect.keyOf(id)
  }

  close(): void {
    this.database.close()
  }

  #find(uid: number, collection: string, id: string): Row | null {
    const sql = 'SELECT * FROM bso WHERE uid = ? AND collection = ? AND key = ? AND gone = 0'
    return this.database.query<Row, [number, string, string]>(sql).get(uid, collection, this.keyOf(id))
  }

  #remove(where: string, ...values: (number | string)[]): void {
    const verb = this.#openSnapshots > 0 ? 'UPDATE bso SET gone = 1' : 'DELETE FROM bso'
    this.database.query(`${verb} WHERE ${where}`).run(...values)
  }

  #timestamp(sql: string, ...values: (number | string)[]): number {
    const found = this.database.query<{ modified: number | null }, (number | string)[]>(sql).get(...values)
    return found?.modified ?? 0
  }
}

function toRecord({ id, modified, quoted, sortindex, expiry }: Row): StoredRecord {
  const payload = JSON.parse(quoted) as string
  return { id, modified, payload, sortindex, expiry: expiry === noExpiry ? null : expiry }
}
