/**
 * Backs up all collections, encrypted as they are.
 *
 *   bun docs/examples/backup.ts FOLDER [--keep N]
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN and KEY_ID in the environment or in account.env (see account.ts). Every run makes one more
 * backup, a folder in FOLDER that is named after its moment and has one file for each collection, a record a line. Only what has
 * changed since the last one is asked for. A run that breaks off leaves no backup. The last N are kept, 30 unless told otherwise.
 * `restore.ts` puts one back.
 *
 * With SYNC_KEY, all that was written is read again and decrypted. Exits 1 and says why when something is missing: a collection
 * cannot be read, has fewer records than the storage, or than half of the last backup; more of them cannot be decrypted than before; or
 * something fails. No old backup is removed then. Without the sync key nobody can read a backup, with it anybody can: keep it
 * somewhere else, too.
 *
 * A backup that lacks something has `-incomplete` behind its name. It is not the last one for the runs that follow, so they exit 1,
 * too, until nothing is missing any more. If it is as it should be, because you have deleted that much yourself, rename it without
 * `-incomplete` to accept it. By its name it can be restored, too.
 *
 * Records that somebody has deleted without leaving a trace, or that have expired, stay in the backups that follow.
 */
import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readAccount } from './account.ts'
import { backupNames, incompleteMark, readRecords, readState, type State } from './backup-folder.ts'
import { count, list, printable, type StoredRecord, type User } from './bridge.js'
import { collectionKeys, decryptRecords, keyPairFromHex } from './sync-crypto.js'

const dayMs = 86_400_000

const { values, positionals } = parseArgs({
  options: { keep: { type: 'string', default: '30' } },
  allowPositionals: true,
})
const [folder] = positionals
const keep = Number(values.keep)
if (!folder || positionals.length > 1 || !Number.isInteger(keep) || keep < 1) {
  console.error('Usage: bun backup.ts FOLDER [--keep N]')
  process.exit(2)
}
try {
  const problems = await backUp(readAccount(), folder)
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exit(1)
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

/** Makes a backup; answers what is missing in it. */
async function backUp(user: User, folder: string): Promise<string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await clean(folder)
  const { all, complete } = await backupNames(folder)
  const last = complete.length > 0 ? join(folder, complete.at(-1)!) : null
  const draft = await mkdtemp(join(folder, '.draft-'))
  try {
    const problems = await fill(user, draft, last)
    if (problems.length > 0) {
      const name = await giveName(draft, folder, incompleteMark)
      console.log(`To accept ${join(folder, name)} as it is, rename it without "${incompleteMark}"`)
      return problems
    }
    const name = await giveName(draft, folder)
    console.log(`${join(folder, name)} is complete`)
    const oldest = [...complete, name].at(-keep) ?? ''
    for (const each of all) if (each < oldest) await rm(join(folder, each), { recursive: true, force: true })
    return []
  } catch (error) {
    await rm(draft, { recursive: true })
    throw error
  }
}

/** Names a draft after this moment, or after the next that no other run has taken. */
async function giveName(draft: string, folder: string, mark = ''): Promise<string> {
  for (;;) {
    const name = new Date().toISOString().replaceAll(':', '-') + mark
    try {
      await rename(draft, join(folder, name))
      return name
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
    }
  }
}

/** Writes all collections into a folder: what the last backup has, and what has changed since. */
async function fill(user: User, draft: string, last: string | null): Promise<string[]> {
  const before: State = last ? await readState(last) : new Map()
  const state: State = new Map()
  const problems: string[] = []
  const syncIds = await readSyncIds(user)
  const { records: collections } = await list(user, '/collections')
  for (const [index, { id: collection, last_modified }] of collections.entries()) {
    const file = `${collection}.jsonl`
    const syncId = syncIds[collection]?.syncID ?? null
    const known = before.get(collection)
    const saved = known ? await readRecords(join(last!, file)).catch(() => []) : []
    const isIntact = known !== undefined && saved.length === known.records && known.syncId === syncId
    const isUnchanged = isIntact && known.etag === `"${last_modified}"`
    // A collection that is older than it was has been wiped and filled anew: what is in it now may be older, too.
    const isSameStore = isIntact && Number(known.etag.replaceAll('"', '')) < last_modified
    const unchanged = { fresh: 0, all: saved, etag: known?.etag ?? '', stored: saved.length }
    const since = isSameStore ? { etag: known.etag, saved } : null
    const found = isUnchanged
      ? unchanged
      : await readCollection(user, collection, since).catch((error: Error) => error.message)
    if (typeof found === 'string') {
      problems.push(`${collection}: ${found}`)
      before.delete(collection)
      continue
    }
    await writeRecords(join(draft, file), found.all)
    const [records, unreadable] = [found.all.length, known?.unreadable ?? 0]
    state.set(collection, { etag: found.etag, syncId, records, unreadable })
    const news = isUnchanged ? 'unchanged' : `${found.fresh} ${found.fresh === 1 ? 'record' : 'records'}`
    console.log(`[${index + 1}/${collections.length}] ${collection}: ${news}`)
    if (found.stored > found.all.length)
      problems.push(`${collection}: of ${found.stored} records ${found.all.length} have come`)
  }
  problems.push(...shrunk(before, state), ...(await check(user, draft, state, before)))
  await write(join(draft, 'state.json'), JSON.stringify(Object.fromEntries(state), null, 2))
  return problems
}

/** What Firefox says of its collections: the one record that is not encrypted. */
async function readSyncIds(user: User): Promise<Record<string, { syncID?: string } | undefined>> {
  const [global] = (await list(user, '/collections/meta/records?in_ids=global')).records
  try {
    return JSON.parse(global!.payload).engines ?? {}
  } catch {
    // Without it, every collection is read as a whole.
    return {}
  }
}

/**
 * Reads a collection, or what has changed since it was saved. Answers all records with how many are new, and how many the storage
 * has.
 */
async function readCollection(
  user: User,
  collection: string,
  since: { etag: string; saved: StoredRecord[] } | null,
): Promise<{ fresh: number; all: StoredRecord[]; etag: string; stored: number }> {
  const filter = since === null ? '' : `?_since=${encodeURIComponent(since.etag)}`
  const { records, etag } = await list(user, `/collections/${collection}/records${filter}`)
  const all = new Map([...(since?.saved ?? []), ...records].map((record) => [record.id, record]))
  const counted = await count(user, collection)
  // What has been written meanwhile comes with the next backup.
  const stored = counted.etag === etag ? counted.total : 0
  // Some have come with a date of long ago.
  if (since !== null && stored > all.size) return readCollection(user, collection, null)
  return { fresh: records.length, all: [...all.values()], etag: etag!, stored }
}

/** Removes what runs that were killed have left behind, a day later. */
async function clean(folder: string): Promise<void> {
  const names = await readdir(folder)
  for (const draft of names.filter((name) => name.startsWith('.draft-'))) {
    // Another run may have given it its name meanwhile.
    const found = await stat(join(folder, draft)).catch(() => null)
    if (found && Date.now() - found.mtimeMs > dayMs)
      await rm(join(folder, draft), { recursive: true, force: true })
  }
}

/** Collections that have lost more than half of their records since the last backup. */
function shrunk(before: State, state: State): string[] {
  return [...before]
    .map(([collection, { records }]) => ({ collection, records, left: state.get(collection)?.records ?? 0 }))
    .filter(({ records, left }) => left * 2 < records)
    .map(
      ({ collection, records, left }) =>
        `${collection}: of ${records} records in the last backup ${left} are left`,
    )
}

/** Decrypts what was written; answers what is wrong with it, and notes how many records the key does not open. */
async function check({ SYNC_KEY }: User, backup: string, state: State, before: State): Promise<string[]> {
  if (!SYNC_KEY) {
    console.log('Without SYNC_KEY nobody can say whether this can be decrypted')
    return []
  }
  const problems = []
  const [keys] = state.has('crypto') ? await readRecords(join(backup, 'crypto.jsonl')) : []
  if (!keys) return ['The account has no keys in its storage: has a Firefox of it synced yet?']
  const keysOf = await collectionKeys(keyPairFromHex(SYNC_KEY), keys)
  for (const [collection, about] of state) {
    if (collection === 'crypto' || collection === 'meta') continue
    const records = await readRecords(join(backup, `${collection}.jsonl`))
    const { unreadable } = await decryptRecords(keysOf(collection), records)
    const known =
      before.get(collection)?.unreadable ?? (unreadable.length < records.length ? unreadable.length : 0)
    const ids = unreadable.slice(0, 10).map(({ id }) => printable(id))
    const finding = `${collection}: ${unreadable.length} of ${records.length} cannot be decrypted: ${ids.join(' ')}`
    if (unreadable.length > known) problems.push(finding)
    else if (unreadable.length > 0) console.log(finding)
    about.unreadable = unreadable.length
  }
  return problems
}

async function writeRecords(file: string, records: StoredRecord[]): Promise<void> {
  await write(file, records.map((record) => `${JSON.stringify(record)}\n`).join(''))
}

/** Writes a file that is on the disk before its backup gets a name, so that no power cut leaves an empty one. */
function write(file: string, text: string): Promise<void> {
  return writeFile(file, text, { mode: 0o600, flush: true })
}
