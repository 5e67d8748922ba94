import { Database } from 'bun:sqlite'
import { Refusal } from './http.ts'
import type { Quirks } from './options.ts'
import type { Bso, StoredRecord } from './upload.ts'

/** A record with the time it was written and that it expires, both in milliseconds, for bulk loading. */
export interface TimedRecord {
  id: string
  payload: string
  sortindex?: number | null
  modified: number
  expiry?: number | null
}

/** What one collection holds, expired records left out. */
interface CollectionUsage {
  collection: string
  count: number
  bytes: number
}

interface Row {
  row: number
  id: string
  modified: number
  /** The payload as JSON text, so that lists needn't quote it each time. */
  quoted: string
  sortindex: number | null
  expiry: number
}

/** Later than any clock: the expiry of a record that has none. */
const noExpiry = Number.MAX_SAFE_INTEGER

// A row never changes: a write inserts a new one and removes the old one. While a list is being sent, removed rows are
// only marked as gone, so that a slow reader gets the records as they were when it asked, without a copy of them.
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

/** Every store of one sandbox. Times are milliseconds; a missing thing has the timestamp 0. */
export class Storage {
  readonly database = new Database(':memory:')
  readonly #quirks: Quirks
  #openSnapshots = 0

  constructor(quirks: Quirks) {
    this.#quirks = quirks
    this.database.run('PRAGMA journal_mode = MEMORY')
    for (const statement of schema(quirks.foldsIds ? 'NOCASE' : 'BINARY')
      .split(';')
      .slice(0, -1)) {
      this.database.run(statement)
    }
  }

  /** Runs the work as one transaction: what it throws undoes all of it. */
  transaction<T>(work: () => T): T {
    return this.database.transaction(work)()
  }

  /** The newest collection's timestamp; a deleted collection still counts, except on the Python server. */
  storeTimestamp(uid: number): number {
    const newest = `SELECT max(modified) AS modified FROM (
      SELECT modified FROM collection WHERE uid = ?1 UNION ALL SELECT modified FROM tombstone WHERE uid = ?1)`
    return this.#timestamp(newest, uid)
  }

  collectionTimestamp(uid: number, collection: string): number {
    return this.#timestamp('SELECT modified FROM collection WHERE uid = ? AND name = ?', uid, collection)
  }

  /** What preconditions on a record are compared with; an expired one counts on some servers. */
  itemTimestamp(uid: number, collection: string, id: string, nowMs: number): number {
    const row = this.#find(uid, collection, id)
    return row === null || (row.expiry <= nowMs && !this.#quirks.expiredCounts) ? 0 : row.modified
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

  /** The record unless it has expired. */
  get(uid: number, collection: string, id: string, nowMs: number): StoredRecord | null {
    const row = this.#find(uid, collection, id)
    return row === null || row.expiry <= nowMs ? null : toRecord(row)
  }

  /** Every unexpired record of a collection by id, for tests to look at. */
  all(uid: number, collection: string, nowMs: number): StoredRecord[] {
    const sql = 'SELECT * FROM bso WHERE uid = ? AND collection = ? AND gone = 0 AND expiry > ? ORDER BY id'
    return this.database.query<Row, [number, string, number]>(sql).all(uid, collection, nowMs).map(toRecord)
  }

  /**
   * Creates the record or merges the given fields into it. Only payload and sortindex move its timestamp, unless it was
   * staged. One that has expired keeps its expiry, and so stays hidden, unless a ttl is given: the servers only ever
   * look at the row.
   */
  put(uid: number, collection: string, bso: Bso, timestamp: number, wasStaged = false): void {
    if (!this.#quirks.storable.test(bso.payload ?? '')) throw new Refusal(500)
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

  /** Adds a record that isn't there yet, leaving the collection's timestamp alone. */
  insert(uid: number, collection: string, { id, modified, payload, sortindex, expiry }: TimedRecord): void {
    const sql = `INSERT INTO bso (uid, collection, key, id, modified, sortindex, expiry, bytes, quoted)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
    const [key, bytes, quoted] = [this.keyOf(id), Buffer.byteLength(payload), JSON.stringify(payload)]
    this.database
      .query(sql)
      .run(uid, collection, key, id, modified, sortindex ?? null, expiry ?? noExpiry, bytes, quoted)
  }

  /** Sets the collection's timestamp, creating the collection if need be. */
  touch(uid: number, collection: string, timestamp: number): void {
    const sql = `INSERT INTO collection VALUES (?, ?, ?)
      ON CONFLICT (uid, name) DO UPDATE SET modified = excluded.modified`
    this.database.query(sql).run(uid, collection, timestamp)
  }

  /** Removes records, expired ones too. */
  deleteItems(uid: number, collection: string, ids: readonly string[]): void {
    for (const id of ids) {
      this.#remove('uid = ? AND collection = ? AND key = ? AND gone = 0', uid, collection, this.keyOf(id))
    }
  }

  /** Forgets a collection and its timestamp. */
  deleteCollection(uid: number, collection: string, timestamp: number): void {
    const existed = this.collectionTimestamp(uid, collection) > 0
    this.#remove('uid = ? AND collection = ? AND gone = 0', uid, collection)
    this.database.query('DELETE FROM collection WHERE uid = ? AND name = ?').run(uid, collection)
    // The tombstone keeps the store's timestamp from going backwards.
    if (existed && !this.#quirks.isPython) {
      this.database.query('INSERT OR REPLACE INTO tombstone VALUES (?, ?)').run(uid, timestamp)
    }
  }

  /** Forgets everything of a user. */
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

  /** What identifies a record in the table. */
  keyOf(id: string): string {
    return this.#quirks.foldsIds ? id.toLowerCase().replace(/ {1,64}$/, '') : id
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
