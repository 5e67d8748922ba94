import { link, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  copyCollection,
  fileOf,
  isIntact,
  readRecords,
  RecordWriter,
  type Backup,
  type SavedCollection,
} from './backup-folder.ts'
import { RecordKeys, type Kind } from './record-keys.ts'
import { countOf } from './phrases.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { SyncClient } from '../../client/sync-client.ts'
import type { Progress } from './progress.ts'

/** A collection to save. */
export interface Source {
  name: string
  /** Its timestamp in the list of collections; null if it is not listed. */
  lastModified: number | null
  syncId: string | null
  /** The earlier backups, latest first. */
  earlier: Backup[]
}

/** A collection that was saved. */
export interface Saved {
  about: SavedCollection
  /** What has changed since the backup before; null if nothing has. */
  changes: { added: number; changed: number; deleted: number } | null
  /** What is missing. */
  problems: string[]
}

/** A record that was received. */
interface Arrival {
  /** The number of its line: a record that changes meanwhile may be received twice. */
  line: number
  hash: number
  kind: Kind
  /** What the backup before has under this id. */
  former: 'nothing' | 'same' | 'living' | 'deleted'
}

/** Received records, in a file of the draft. */
interface Received {
  arrivals: Map<string, Arrival>
  lines: number
  sha256: string
  /** The timestamp of the collection. */
  changedAt: number
}

/** Saves the collections of an account into the folder of a new backup, one record at a time in memory. */
export class CollectionWriter {
  /** The keys of the new backup. They open nothing until `crypto` has been saved. */
  keys = RecordKeys.none
  readonly #keysOf = new Map<string, RecordKeys>()

  constructor(
    private readonly client: SyncClient,
    private readonly draft: string,
    private readonly progress: Progress,
  ) {}

  /** Saves a collection: the file of an earlier backup if nothing has changed, else that with the changes since, or all of it. */
  async save(source: Source): Promise<Saved> {
    const { name, lastModified, syncId } = source
    const base = await findBase(source)
    const known = base?.state.collections.get(name)
    if (!base || known?.syncId !== syncId || lastModified === null) return this.#read(source, base, null)
    if (known.lastModified === lastModified) return this.#keep(name, base, known)
    // A collection with an older timestamp was wiped and filled again, possibly with older records.
    return this.#read(source, base, known.lastModified < lastModified ? known.lastModified : null)
  }

  /** Links the file of an earlier backup, or copies it where links fail. */
  async #keep(name: string, base: Backup, known: SavedCollection): Promise<Saved> {
    const target = join(this.draft, fileOf(name))
    await link(join(base.path, fileOf(name)), target).catch(() => copyCollection(base, name, target))
    const keys = await this.#readKeys(base)
    const isCounted = (known.living === null) === this.keys.isEmpty && keys.payload === this.keys.payload
    if (isCounted) return { about: known, changes: null, problems: [] }
    const count = new Count(this.keys)
    for await (const records of readRecords(base.path, name))
      for (const record of records) count.add(record.id, await this.keys.kindOf(name, record))
    return { about: { ...known, ...count.result() }, changes: null, problems: [] }
  }

  /** Reads a collection, or its changes since a time, and compares it with an earlier backup. */
  async #read(source: Source, base: Backup | null, since: number | null): Promise<Saved> {
    const { name, syncId } = source
    const received = await this.#receive(name, since)
    const { arrivals, changedAt } = received
    const count = new Count(this.keys)
    const deleted = await this.#merge(name, base, since === null, received, count)
    for (const [id, { kind }] of arrivals) count.add(id, kind)
    const stored = await this.#countStored(name, count.records, changedAt)
    // Firefox deletes one of two records for a login without a tombstone; restored, it would replace the other. Other records may have expired.
    const isLoginGone = name === 'passwords' && stored > 0 && stored < count.records
    // Some may also have been added with an old timestamp.
    if (since !== null && (stored > count.records || isLoginGone)) {
      await rm(join(this.draft, fileOf(name)))
      return this.#read(source, base, null)
    }
    const problems: string[] = []
    if (stored > count.records) problems.push(`${name}: received only ${count.records} of ${stored} records`)
    // A proxy may remove the ETag; then the time of the change is 0.
    const hasMoment = changedAt > 0 || arrivals.size === 0
    if (hasMoment && changedAt < (source.lastModified ?? 0))
      problems.push(`${name}: was emptied while it was read`)
    const isWhole = problems.length === 0
    const about = { lastModified: changedAt, syncId, ...count.result(), sha256: received.sha256, isWhole }
    return { about, changes: changesOf(arrivals, deleted), problems }
  }

  /** Receives records into a file of their own. */
  async #receive(name: string, since: number | null): Promise<Received> {
    const arrivals = new Map<string, Arrival>()
    const writer = await RecordWriter.create(join(this.draft, fileOf(partOf(name))))
    let [changedAt, lines] = [0, 0]
    try {
      const pages = this.client.collection(name).storedPages({ since: since ?? undefined })
      for await (const { records, lastModified } of pages) {
        changedAt = lastModified
        for (const record of records) {
          await writer.add(record)
          const kind = await this.keys.kindOf(name, record)
          arrivals.set(record.id, { line: lines, hash: hashOf(record), kind, former: 'nothing' })
          lines += 1
        }
        this.progress.show(`${name}: ${countOf(arrivals.size, 'record')} read`)
      }
      return { arrivals, lines, changedAt, sha256: await writer.finish() }
    } finally {
      await writer.close()
    }
  }

  /**
   * Writes the file of a collection: what an earlier backup has, unless everything was received, and what was received. Notes what is former;
   * returns how many living records of the earlier backup are gone.
   */
  async #merge(
    name: string,
    base: Backup | null,
    isAll: boolean,
    received: Received,
    count: Count,
  ): Promise<number> {
    const { arrivals, lines } = received
    const [part, target] = [partOf(name), join(this.draft, fileOf(name))]
    const isReceived = isAll && lines === arrivals.size
    const writer = isReceived ? null : await RecordWriter.create(target)
    let gone = 0
    try {
      const formerKeys = base ? await this.#readKeys(base) : this.keys
      for await (const records of base ? readRecords(base.path, name) : []) {
        for (const record of records) {
          const arrival = arrivals.get(record.id)
          if (!arrival && !isAll) {
            count.add(record.id, await this.keys.kindOf(name, record))
            await writer!.add(record)
          } else if (arrival?.hash === hashOf(record)) arrival.former = 'same'
          else {
            const former = (await formerKeys.kindOf(name, record)) === 'deleted' ? 'deleted' : 'living'
            if (arrival) arrival.former = former
            else if (former === 'living') gone += 1
          }
        }
        this.progress.show(`${name}: comparing`)
      }
      if (!writer) return await rename(join(this.draft, fileOf(part)), target).then(() => gone)
      let line = 0
      for await (const records of readRecords(this.draft, part))
        for (const record of records) if (arrivals.get(record.id)!.line === line++) await writer.add(record)
      received.sha256 = await writer.finish()
      await rm(join(this.draft, fileOf(part)))
      return gone
    } finally {
      await writer?.close()
    }
  }

  /** The number of records in the storage; 0 if it was changed since it was read. */
  async #countStored(name: string, records: number, changedAt: number): Promise<number> {
    const collection = this.client.collection(name)
    let stored = await collection.count()
    // The storage reads the timestamp before it counts, so the count may include a write in between.
    if (stored.total > records) stored = await collection.count()
    // Concurrent writes are part of the next backup.
    return stored.lastModified === changedAt ? stored.total : 0
  }

  /** The keys of an earlier backup; none if they can't be read. */
  async #readKeys({ path }: Backup): Promise<RecordKeys> {
    const known = this.#keysOf.get(path)
    if (known) return known
    const keys = await RecordKeys.read(path, this.client.account.syncKey).catch(() => RecordKeys.none)
    this.#keysOf.set(path, keys)
    return keys
  }
}

/** The latest earlier backup whose copy of the collection is whole. */
async function findBase({ name, earlier }: Source): Promise<Backup | null> {
  for (const backup of earlier)
    if (backup.state.collections.get(name)?.isWhole && (await isIntact(backup, name))) return backup
  return null
}

/** The name of the file with what was received; no collection has such a name. */
function partOf(collection: string): string {
  return `${collection}~`
}

function hashOf({ payload = '' }: StoredRecord): number {
  return Bun.hash.xxHash32(payload)
}

function changesOf(arrivals: Map<string, Arrival>, gone: number): Saved['changes'] {
  const changes = { added: 0, changed: 0, deleted: gone }
  for (const { kind, former } of arrivals.values()) {
    if (former === 'same') continue
    if (kind !== 'deleted') changes[former === 'living' ? 'changed' : 'added'] += 1
    else if (former === 'living') changes.deleted += 1
  }
  return changes.added + changes.changed + changes.deleted > 0 ? changes : null
}

/** Counts records by what the keys show of them. */
class Count {
  records = 0
  #plain = 0
  #living = 0
  readonly #unreadable: string[] = []

  constructor(private readonly keys: RecordKeys) {}

  add(id: string, kind: Kind): void {
    this.records += 1
    if (kind === 'plain') this.#plain += 1
    if (kind === 'unreadable') this.#unreadable.push(id)
    else if (kind !== 'deleted') this.#living += 1
  }

  result(): Pick<SavedCollection, 'records' | 'plain' | 'living' | 'unreadable'> {
    const { records } = this
    // Without keys, a record may be a deletion.
    if (this.keys.isEmpty) return { records, plain: this.#plain, living: null, unreadable: [] }
    return { records, plain: this.#plain, living: this.#living, unreadable: this.#unreadable }
  }
}
