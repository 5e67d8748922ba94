import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { collectionKeys, decryptRecord, keyPairFromHex, UnreadableRecord } from '../../client/crypto.ts'
import { ClientError } from '../../client/errors.ts'
import { collectionPattern } from '../../domain/record.ts'
import { reasonOf } from '../../settings/readers.ts'
import { Option, partialSuccess, wholeNumber, type CommandFactory } from '../command.ts'
import {
  backupNames,
  digestOf,
  fileOf,
  incompleteMark,
  readRecords,
  readState,
  timeOf,
  type State,
} from './backup-folder.ts'
import { readEngines } from './engines.ts'
import { describeAccountCommand } from './options.ts'
import { countOf, someOf } from './phrases.ts'
import { Progress } from './progress.ts'
import { withAccount, type Session } from './session.ts'
import type { StoredRecord } from '../../client/collection.ts'

const dayMs = 86_400_000

/**
 * Makes a backup: a new folder named after the current time, with a file per collection and a record per line, encrypted as in the storage.
 * Reads only what has changed since the last backup, and verifies what was written by decrypting it.
 *
 * If something is missing, the name says so, no old backup is removed, and the exit code is 3. A failure leaves no backup.
 */
export const backupCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'backup',
    'back up your account into a folder',
    'The backup is complete, encrypted as in the storage, and verified. Only changes are downloaded. Exits 3 if something is missing, ' +
      'and lists it.',
  )
    .argument('<DIR>', 'the folder of the backups')
    .addOption(
      new Option('--keep <N>', 'how many backups to keep').argParser(wholeNumber(1, 999_999)).default(30),
    )
    .action(
      perform((host, folder, { keep, ...options }) =>
        withAccount(options, host, {}, async (session) => {
          try {
            const problems = await new Backup(session, folder).make(keep)
            for (const problem of problems) session.tell(problem)
            return problems.length > 0 ? partialSuccess : 0
          } catch (error) {
            if (!isFileError(error)) throw error
            throw new ClientError(`Cannot write ${error.path ?? folder} (${reasonOf(error)})`, {
              cause: error,
            })
          }
        }),
      ),
    )

function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === 'string'
}

class Backup {
  readonly #session: Session
  readonly #folder: string
  readonly #progress: Progress
  /** After all backups, because the last one by name is the one to continue and to restore, even if the clock was reset. */
  #earliestMs = 0

  constructor(session: Session, folder: string) {
    this.#session = session
    this.#folder = folder
    this.#progress = new Progress(session.host)
  }

  /** Makes the backup; returns what is missing. */
  async make(keep: number): Promise<string[]> {
    const { tell } = this.#session
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    await this.#clean()
    const { all, complete } = await backupNames(this.#folder)
    this.#earliestMs = timeOf(all.at(-1) ?? '') + 1
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

  /** Names a draft after the current time, later if there is a later backup or that name is taken. */
  async #giveName(draft: string, mark = ''): Promise<string> {
    for (let atMs = Math.max(this.#session.host.now(), this.#earliestMs); ; atMs += 1) {
      const name = new Date(atMs).toISOString().replaceAll(':', '-') + mark
      try {
        await rename(draft, join(this.#folder, name))
        return name
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
      }
    }
  }

  /** Removes drafts of killed runs after a day. */
  async #clean(): Promise<void> {
    const names = await readdir(this.#folder)
    for (const draft of names.filter((name) => name.startsWith('.draft-'))) {
      // Another run may have renamed it by now.
      const found = await stat(join(this.#folder, draft)).catch(() => null)
      if (found && this.#session.host.now() - found.mtimeMs > dayMs)
        await rm(join(this.#folder, draft), { recursive: true, force: true })
    }
  }

  /** Writes all collections into a folder: the records of the last backup, and changes since. Returns what is missing. */
  async #fill(draft: string, last: string | null): Promise<string[]> {
    const { client, tell } = this.#session
    const before: State = last ? await readState(last) : new Map()
    const state: State = new Map()
    const problems: string[] = []
    // Without these, every collection is read completely.
    const engines = (await readEngines(client)) ?? {}
    const collections = await client.collections()
    for (const [index, { name, lastModified }] of collections.entries()) {
      // Names become file names, and BRIDGE_URL may name a malicious bridge.
      if (!collectionPattern.test(name)) {
        problems.push(`${JSON.stringify(name)}: not a valid collection name`)
        continue
      }
      const syncId = engines[name]?.syncID ?? null
      const known = before.get(name)
      const isIntact = known?.syncId === syncId && known.sha256 === (await digestOf(last!, name))
      const saved = isIntact ? await collect(readRecords(last!, name)) : []
      const savedAt = isIntact ? Number(known.etag.replaceAll('"', '')) : null
      const unchanged = { fresh: 0, all: saved, changedAt: lastModified, stored: saved.length }
      // A collection with an older timestamp was wiped and filled again, possibly with older records.
      const since = savedAt !== null && savedAt < lastModified ? { savedAt, saved } : null
      const found =
        savedAt === lastModified ? unchanged : await this.#readCollection(name, since).catch(messageOf)
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
      const sha256 = await digestOf(draft, name)
      if (sha256 === null) throw new ClientError(`Cannot read ${join(draft, fileOf(name))}`)
      const [records, unreadable] = [found.all.length, known?.unreadable ?? 0]
      state.set(name, { etag: `"${found.changedAt}"`, syncId, records, sha256, unreadable })
      const news = savedAt === lastModified ? 'unchanged' : countOf(found.fresh, 'record')
      tell(`[${index + 1}/${collections.length}] ${name}: ${news}`)
      if (found.stored > found.all.length)
        problems.push(`${name}: received only ${found.all.length} of ${found.stored} records`)
      // A proxy may remove the ETag; then the time of the change is 0.
      const hasMoment = found.changedAt > 0 || found.fresh === 0
      if (hasMoment && found.changedAt < lastModified) problems.push(`${name}: was emptied while it was read`)
    }
    problems.push(...shrunk(before, state))
    const enginesNow = (await readEngines(client)) ?? {}
    for (const [name, { syncId }] of state) {
      const now = enginesNow[name]?.syncID ?? null
      // The backup may mix records from before and after the wipe.
      if (syncId !== null && now !== null && now !== syncId)
        problems.push(`${name}: was wiped while it was read`)
    }
    // If the keys could not be read, that is already one of the problems.
    const isUnread = collections.some(({ name }) => name === 'crypto') && !state.has('crypto')
    if (!isUnread) problems.push(...(await this.#check(draft, state, before)))
    await write(join(draft, 'state.json'), JSON.stringify(Object.fromEntries(state), null, 2))
    return problems
  }

  /**
   * Reads a collection, or its changes since it was saved. Resolves to all records, the number of new ones, and the number in the storage.
   */
  async #readCollection(
    name: string,
    since: { savedAt: number; saved: StoredRecord[] } | null,
  ): Promise<{ fresh: number; all: StoredRecord[]; changedAt: number; stored: number }> {
    const collection = this.#session.client.collection(name)
    const all = new Map((since?.saved ?? []).map((record) => [record.id, record]))
    const fresh = new Set<string>()
    let changedAt = 0
    for await (const page of collection.storedPages({ since: since?.savedAt })) {
      for (const record of page.records) {
        all.set(record.id, record)
        fresh.add(record.id)
      }
      changedAt = page.lastModified
      this.#progress.show(`${name}: ${countOf(fresh.size, 'record')} read`)
    }
    let counted = await collection.count()
    // The storage reads the timestamp before it counts, so the count may include a write in between.
    if (counted.total > all.size) counted = await collection.count()
    // Concurrent writes are part of the next backup.
    const stored = counted.lastModified === changedAt ? counted.total : 0
    // Firefox deletes one of two records for a login without a tombstone; restored, it would replace the other. Other records may have expired.
    const isLoginGone = name === 'passwords' && stored > 0 && stored < all.size
    // Some may also have been added with an old timestamp.
    if (since !== null && (stored > all.size || isLoginGone)) return this.#readCollection(name, null)
    return { fresh: fresh.size, all: [...all.values()], changedAt, stored }
  }

  /** Verifies the backup by decrypting it; returns the problems, and records how many records can't be decrypted. */
  async #check(draft: string, state: State, before: State): Promise<string[]> {
    const { client, tell } = this.#session
    const { syncKey } = client.account
    if (syncKey === '') {
      tell('Cannot check that the backup can be decrypted: SYNC_KEY is missing from the account')
      return []
    }
    const problems: string[] = []
    const keys = (await collect(readRecords(draft, 'crypto'))).find(({ id }) => id === 'keys')
    if (!keys) return ['The storage has no keys for this account: sync a Firefox first']
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
      const count = `${unreadable.length} of ${about.records}`
      const finding = `${name}: ${count} cannot be decrypted: ${someOf(unreadable)}`
      if (unreadable.length > known) problems.push(finding)
      else if (unreadable.length > 0) tell(finding)
      about.unreadable = unreadable.length
    }
    return problems
  }
}

/** Finds collections that have lost more than half of their records since the last backup. */
function shrunk(before: State, state: State): string[] {
  return [...before]
    .map(([name, { records }]) => ({ name, records, left: state.get(name)?.records ?? 0 }))
    .filter(({ records, left }) => left * 2 < records)
    .map(({ name, records, left }) => `${name}: only ${left} of ${records} records in the last backup remain`)
}

function messageOf(error: unknown): string {
  // A rejected token affects all collections.
  if (!(error instanceof Error) || (error instanceof ClientError && error.field === 'token')) throw error
  return error.message
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = []
  for await (const item of items) all.push(item)
  return all
}

/** Writes and syncs a file, so that a power failure leaves no empty file in a named backup. */
function write(file: string, text: string): Promise<void> {
  return writeFile(file, text, { mode: 0o600, flush: true })
}
