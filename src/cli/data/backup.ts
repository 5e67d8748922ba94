import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { collectionKeys, decryptRecord, keyPairFromHex, UnreadableRecord } from '../../client/crypto.ts'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { backupNames, fileOf, incompleteMark, readRecords, readState, type State } from './backup-folder.ts'
import { Progress } from './progress.ts'
import { countOf, doneInPart, printableLine, withAccount, type Session } from './session.ts'
import { UsageError } from './usage-error.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { GivenOptions } from '../command-line.ts'
import type { Host } from '../host.ts'

const dayMs = 86_400_000

/**
 * Makes one more backup in a folder: a folder that is named after its moment, with a file for each collection, a record a line, encrypted
 * as the storage has it. Only what has changed since the last one is asked for. What was written is read again and decrypted.
 *
 * Where something is missing the backup's name says so, no old one is removed, and the exit code is 3. Where it breaks off there is none.
 */
export function backup(options: GivenOptions, [folder]: string[], host: Host): Promise<number> {
  const [text = '30'] = options.get('keep') ?? []
  const keep = Number(text)
  if (!/^\d{1,6}$/.test(text) || keep < 1)
    throw new UsageError(`--keep ${JSON.stringify(text)} is no number of backups: write 1 or more`)
  return withAccount(options, host, {}, async (session) => {
    try {
      const problems = await new Backup(session, folder!).make(keep)
      for (const problem of problems) session.tell(problem)
      return problems.length > 0 ? doneInPart : 0
    } catch (error) {
      if (!isFileError(error)) throw error
      throw new ClientError(`Cannot write ${error.path ?? folder} (${reasonOf(error)})`, { cause: error })
    }
  })
}

function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === 'string'
}

class Backup {
  readonly #session: Session
  readonly #folder: string
  readonly #progress: Progress

  constructor(session: Session, folder: string) {
    this.#session = session
    this.#folder = folder
    this.#progress = new Progress(session.host)
  }

  /** Makes the backup; returns what is missing in it. */
  async make(keep: number): Promise<string[]> {
    const { tell } = this.#session
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    await this.#clean()
    const { all, complete } = await backupNames(this.#folder)
    const last = complete.length > 0 ? join(this.#folder, complete.at(-1)!) : null
    const draft = await mkdtemp(join(this.#folder, '.draft-'))
    try {
      const problems = await this.#fill(draft, last)
      if (problems.length > 0) {
        const name = await this.#giveName(draft, incompleteMark)
        tell(`To accept ${join(this.#folder, name)} as it is, rename it without "${incompleteMark}"`)
        return problems
      }
      const name = await this.#giveName(draft)
      tell(`${join(this.#folder, name)} is complete`)
      const oldest = [...complete, name].at(-keep) ?? ''
      for (const each of all)
        if (each < oldest) await rm(join(this.#folder, each), { recursive: true, force: true })
      return []
    } catch (error) {
      await rm(draft, { recursive: true })
      throw error
    } finally {
      this.#progress.clear()
    }
  }

  /** Names a draft after this moment, or after the next that no other run has taken. */
  async #giveName(draft: string, mark = ''): Promise<string> {
    for (;;) {
      const name = new Date(this.#session.host.now()).toISOString().replaceAll(':', '-') + mark
      try {
        await rename(draft, join(this.#folder, name))
        return name
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
      }
    }
  }

  /** Removes what runs that were killed have left behind, a day later. */
  async #clean(): Promise<void> {
    const names = await readdir(this.#folder)
    for (const draft of names.filter((name) => name.startsWith('.draft-'))) {
      // Another run may have given it its name meanwhile.
      const found = await stat(join(this.#folder, draft)).catch(() => null)
      if (found && this.#session.host.now() - found.mtimeMs > dayMs)
        await rm(join(this.#folder, draft), { recursive: true, force: true })
    }
  }

  /** Writes all collections into a folder: what the last backup has, and what has changed since. Returns what is missing. */
  async #fill(draft: string, last: string | null): Promise<string[]> {
    const { client, tell } = this.#session
    const before: State = last ? await readState(last) : new Map()
    const state: State = new Map()
    const problems: string[] = []
    const syncIds = await this.#readSyncIds()
    const collections = await client.collections()
    for (const [index, { name, lastModified }] of collections.entries()) {
      const syncId = syncIds[name]?.syncID ?? null
      const known = before.get(name)
      const saved = known ? await collect(readRecords(last!, name)).catch(() => []) : []
      const isIntact = known !== undefined && saved.length === known.records && known.syncId === syncId
      const savedAt = isIntact ? Number(known.etag.replaceAll('"', '')) : null
      const unchanged = { fresh: 0, all: saved, changedAt: lastModified, stored: saved.length }
      // A collection that is older than it was has been wiped and filled again: what is in it now may be older, too.
      const since = savedAt !== null && savedAt < lastModified ? { savedAt, saved } : null
      const found =
        savedAt === lastModified
          ? unchanged
          : await this.#readCollection(name, since).catch((error: unknown) => messageOf(error))
      this.#progress.clear()
      if (typeof found === 'string') {
        problems.push(`${name}: ${found}`)
        before.delete(name)
        continue
      }
      await write(
        join(draft, fileOf(name)),
        found.all.map((record) => `${JSON.stringify(record)}\n`).join(''),
      )
      const [records, unreadable] = [found.all.length, known?.unreadable ?? 0]
      state.set(name, { etag: `"${found.changedAt}"`, syncId, records, unreadable })
      const news = savedAt === lastModified ? 'unchanged' : countOf(found.fresh, 'record')
      tell(`[${index + 1}/${collections.length}] ${name}: ${news}`)
      if (found.stored > found.all.length)
        problems.push(`${name}: of ${found.stored} records ${found.all.length} have come`)
    }
    problems.push(...shrunk(before, state), ...(await this.#check(draft, state, before)))
    await write(join(draft, 'state.json'), JSON.stringify(Object.fromEntries(state), null, 2))
    return problems
  }

  /** What Firefox says of its collections: the one record that is not encrypted. */
  async #readSyncIds(): Promise<Record<string, { syncID?: string } | undefined>> {
    try {
      for await (const { clear } of this.#session.client.collection('meta').records())
        if (clear?.id === 'global') return (clear.engines ?? {}) as Record<string, { syncID?: string }>
    } catch (error) {
      if (!(error instanceof ClientError) || error.field !== null) throw error
    }
    // Without it, every collection is read as a whole.
    return {}
  }

  /**
   * Reads a collection, or what has changed since it was saved. Resolves to all records with how many are new, and how many the storage
   * has.
   */
  async #readCollection(
    name: string,
    since: { savedAt: number; saved: StoredRecord[] } | null,
  ): Promise<{ fresh: number; all: StoredRecord[]; changedAt: number; stored: number }> {
    const collection = this.#session.client.collection(name)
    const all = new Map((since?.saved ?? []).map((record) => [record.id, record]))
    const fresh = new Set<string>()
    let changedAt = 0
    for await (const page of collection.storedPages({ since: since?.savedAt, pageSize: null })) {
      for (const record of page.records) {
        all.set(record.id, record)
        fresh.add(record.id)
      }
      changedAt = page.lastModified
      this.#progress.show(`${name}: ${countOf(fresh.size, 'record')} read`)
    }
    const counted = await collection.count()
    // What has been written meanwhile comes with the next backup.
    const stored = counted.lastModified === changedAt ? counted.total : 0
    // Some have come with a date of long ago.
    if (since !== null && stored > all.size) return this.#readCollection(name, null)
    return { fresh: fresh.size, all: [...all.values()], changedAt, stored }
  }

  /** Decrypts what was written; returns what is wrong with it, and notes how many records the key does not open. */
  async #check(draft: string, state: State, before: State): Promise<string[]> {
    const { client, tell } = this.#session
    const { syncKey } = client.account
    if (syncKey === '') {
      tell('Without SYNC_KEY nothing can say whether this can be decrypted')
      return []
    }
    const problems: string[] = []
    const keys = (await collect(readRecords(draft, 'crypto'))).find(({ id }) => id === 'keys')
    if (!keys) return ['The account has no keys in its storage: has a Firefox of it synced yet?']
    const keysOf = await collectionKeys(keyPairFromHex(syncKey), keys).catch((error: unknown) =>
      messageOf(error),
    )
    if (typeof keysOf === 'string') return [keysOf]
    for (const [name, about] of state) {
      if (name === 'crypto' || name === 'meta') continue
      const unreadable: string[] = []
      const keyPair = await keysOf(name)
      for await (const record of readRecords(draft, name)) {
        try {
          await decryptRecord(keyPair, record)
        } catch (error) {
          if (!(error instanceof UnreadableRecord)) throw error
          unreadable.push(record.id)
        }
        this.#progress.show(`${name}: decrypting`)
      }
      this.#progress.clear()
      const known =
        before.get(name)?.unreadable ?? (unreadable.length < about.records ? unreadable.length : 0)
      const ids = unreadable.slice(0, 10).map(printableLine)
      const finding = `${name}: ${unreadable.length} of ${about.records} cannot be decrypted: ${ids.join(' ')}`
      if (unreadable.length > known) problems.push(finding)
      else if (unreadable.length > 0) tell(finding)
      about.unreadable = unreadable.length
    }
    return problems
  }
}

/** Collections that have lost more than half of their records since the last backup. */
function shrunk(before: State, state: State): string[] {
  return [...before]
    .map(([name, { records }]) => ({ name, records, left: state.get(name)?.records ?? 0 }))
    .filter(({ records, left }) => left * 2 < records)
    .map(({ name, records, left }) => `${name}: of ${records} records in the last backup ${left} are left`)
}

function messageOf(error: unknown): string {
  // A token that is refused is refused for all.
  if (!(error instanceof Error) || (error instanceof ClientError && error.field === 'token')) throw error
  return error.message
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = []
  for await (const item of items) all.push(item)
  return all
}

/** Writes a file that is on the disk before its backup gets a name, so that no power cut leaves an empty one. */
function write(file: string, text: string): Promise<void> {
  return writeFile(file, text, { mode: 0o600, flush: true })
}
