import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { collectionPattern } from '../../domain/record.ts'
import { errno } from '../../domain/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { Option, partialSuccess, wholeNumber, type CommandFactory } from '../command.ts'
import { findProblems } from './backup-checks.ts'
import { CollectionWriter, type Saved } from './backup-collection.ts'
import {
  incompleteMark,
  readBackups,
  readRecords,
  writeState,
  type Backup,
  type State,
} from './backup-folder.ts'
import { RecordKeys } from './record-keys.ts'
import { listBackups } from './backup-list.ts'
import { ensureTwoCopies, findOutdated, removeBackups } from './backup-rotation.ts'
import { enginesOf, readEngines, type Engines } from './synced-collections.ts'
import { describeAccountCommand } from './options.ts'
import { countOf, someOf } from './phrases.ts'
import { Progress } from './progress.ts'
import { withAccount, type Session } from './session.ts'

const dayMs = 86_400_000

export const backupCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'backup',
    'back up your account into a folder',
    'The backup is complete, encrypted as in the storage, and verified. Only changes are downloaded. Exits 3 if something is missing, ' +
      'and lists it.',
  )
    .argument('<DIR>', 'the folder of the backups')
    .addOption(
      new Option('--keep <N>', 'how many complete backups to keep')
        .argParser(wholeNumber(1, 999_999))
        .default(30),
    )
    .option('--list', 'list the backups: date, records, size, and whether each is complete')
    .action(
      perform((host, folder, { keep, list = false, ...options }) => {
        if (list) return listBackups(folder, host)
        return withAccount(options, host, {}, (session) => makeBackup(session, folder, keep))
      }),
    )

/**
 * Makes a backup: a new folder named after the current time, with a file for each collection and a record in each line, encrypted as in the
 * storage. Reads only what has changed since the last backup.
 *
 * If something is missing, the name says so, no older backup is removed, and the exit code is 3. A failure leaves no backup.
 */
async function makeBackup(session: Session, folder: string, keep: number): Promise<number> {
  try {
    const problems = await new BackupRun(session, folder).make(keep)
    for (const problem of problems) session.tell(problem)
    return problems.length > 0 ? partialSuccess : 0
  } catch (error) {
    if (!isFileError(error)) throw error
    throw new ClientError(`Cannot write ${error.path ?? folder} (${reasonOf(error)})`, { cause: error })
  }
}

function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === 'string'
}

class BackupRun {
  readonly #session: Session
  readonly #folder: string
  readonly #progress: Progress

  constructor(session: Session, folder: string) {
    this.#session = session
    this.#folder = folder
    this.#progress = new Progress(session.host)
  }

  /** Makes the backup; returns what is missing. */
  async make(keep: number): Promise<string[]> {
    const { client, tell } = this.#session
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    await this.#removeDrafts()
    const { earlier, sequence } = await this.#findEarlier()
    const path = await mkdtemp(join(this.#folder, `${draftPrefix()}${process.pid}-`))
    try {
      const state = await this.#fill(path, earlier)
      const { problems } = state
      const draft = { name: path, path, isComplete: problems.length === 0, state: { ...state, sequence } }
      const outdated = draft.isComplete
        ? await findOutdated(earlier, draft, keep, client.account.syncKey)
        : []
      const leaving = new Set(outdated)
      const staying = earlier.filter((each) => !leaving.has(each))
      await ensureTwoCopies(draft, staying)
      await writeState(path, draft.state)
      const name = await this.#giveName(path, draft.isComplete)
      if (draft.isComplete) tell(`${name} is complete`)
      else tell(`To accept ${name} as it is, rename it without "${incompleteMark}"`)
      await removeBackups(outdated)
      return problems
    } catch (error) {
      await rm(path, { recursive: true, force: true })
      throw error
    } finally {
      this.#progress.clear()
    }
  }

  /** The earlier backups of this account, oldest first, and the place of the next one. Names the others. */
  async #findEarlier(): Promise<{ earlier: Backup[]; sequence: number }> {
    const { client, tell } = this.#session
    const { backups, damaged } = await readBackups(this.#folder)
    for (const { path, reason } of damaged) tell(`${path} is damaged, and not used: ${reason}`)
    const isOwn = ({ state }: Backup) => state.bucket === client.account.bucket
    const foreign = backups.filter((each) => !isOwn(each)).map(({ name }) => name)
    if (foreign.length > 0)
      tell(
        `${countOf(foreign.length, 'backup')} of another account, or from before a password reset, not counted or removed: ${someOf(foreign)}`,
      )
    const sequences = backups.map(({ state }) => state.sequence)
    return { earlier: backups.filter(isOwn), sequence: Math.max(0, ...sequences) + 1 }
  }

  /** Names a draft after the current time, or later if that name is taken; returns its path. */
  async #giveName(draft: string, isComplete: boolean): Promise<string> {
    for (let atMs = this.#session.host.now(); ; atMs += 1) {
      const time = new Date(atMs).toISOString().replaceAll(':', '-')
      const path = join(this.#folder, time + (isComplete ? '' : incompleteMark))
      try {
        await rename(draft, path)
        return path
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error
      }
    }
  }

  /** Removes the drafts of killed runs; those of other machines after a day. */
  async #removeDrafts(): Promise<void> {
    const names = await readdir(this.#folder)
    for (const name of names.filter((each) => each.startsWith('.draft-'))) {
      const path = join(this.#folder, name)
      // Another run may have renamed it by now.
      const found = await stat(path).catch(() => null)
      const pid = name.startsWith(draftPrefix())
        ? Number(/^\d+/.exec(name.slice(draftPrefix().length))?.[0])
        : NaN
      const isOver = Number.isNaN(pid)
        ? this.#session.host.now() - (found?.mtimeMs ?? 0) > dayMs
        : !isRunning(pid)
      if (found && isOver) await rm(path, { recursive: true, force: true })
    }
  }

  /** Saves all collections into a folder. */
  async #fill(draft: string, earlier: Backup[]): Promise<Omit<State, 'sequence'>> {
    const { client, tell } = this.#session
    const { account } = client
    const writer = new CollectionWriter(client, draft, this.#progress)
    const state: State['collections'] = new Map()
    const problems: string[] = []
    const failed = new Set<string>()
    let engines: Engines = {}
    const listed = new Map((await client.collections()).map((each) => [each.name, each.lastModified]))
    const expected = new Set([
      'crypto',
      'meta',
      ...listed.keys(),
      ...(earlier.at(-1)?.state.collections.keys() ?? []),
    ])
    // The keys, and what Firefox syncs, are needed for the others.
    const names = ['crypto', 'meta', ...[...expected.difference(new Set(['crypto', 'meta']))].toSorted()]
    for (const [index, name] of names.entries()) {
      // Names become file names, and come from the bridge and from a record.
      if (!collectionPattern.test(name)) {
        problems.push(`${JSON.stringify(name)}: not a valid collection name`)
        continue
      }
      const lastModified = listed.get(name) ?? null
      const syncId = engines[name]?.syncID ?? null
      const source = { name, lastModified, syncId, earlier: earlier.toReversed() }
      const saved = await writer.save(source).catch(messageOf)
      this.#progress.clear()
      if (typeof saved === 'string') {
        problems.push(`${name}: ${saved}`)
        failed.add(name)
        continue
      }
      state.set(name, saved.about)
      problems.push(...saved.problems)
      if (name === 'crypto') writer.keys = await this.#readKeys(draft, problems)
      if (name === 'meta') {
        engines = await savedEngines(draft, problems)
        for (const engine of Object.keys(engines).toSorted()) if (!expected.has(engine)) names.push(engine)
      }
      tell(`[${index + 1}/${names.length}] ${name}: ${summaryOf(saved)}`)
    }
    problems.push(...(await this.#findWiped(state)))
    const unreadable = [...state].flatMap(([name, saved]) => saved.unreadable.map((id) => `${name}/${id}`))
    if (unreadable.length > 0)
      tell(
        `${countOf(unreadable.length, 'record')} cannot be decrypted, and kept as they are: ${someOf(unreadable)}`,
      )
    problems.push(
      ...findProblems(
        state,
        earlier.filter(({ isComplete }) => isComplete),
        failed,
      ),
    )
    return { bucket: account.bucket, keyId: account.keyId, problems, collections: state }
  }

  /** Reads the keys that were saved; none if that fails, which is added to the problems. */
  async #readKeys(draft: string, problems: string[]): Promise<RecordKeys> {
    const { client, tell } = this.#session
    if (client.account.syncKey === '')
      tell('SYNC_KEY is missing from the account: records are counted, and not decrypted')
    return RecordKeys.read(draft, client.account.syncKey).catch((error: Error) => {
      problems.push(error.message)
      return RecordKeys.none
    })
  }

  /** Finds collections that were wiped while they were read: the backup may mix records from before and after. */
  async #findWiped(state: State['collections']): Promise<string[]> {
    const engines = (await readEngines(this.#session.client)) ?? {}
    const isWiped = ([name, { syncId }]: [string, { syncId: string | null }]) => {
      const now = engines[name]?.syncID ?? null
      return syncId !== null && now !== null && now !== syncId
    }
    const wiped = [...state].filter(isWiped).map(([name]) => name)
    for (const name of wiped) state.get(name)!.isWhole = false
    return wiped.map((name) => `${name}: was wiped while it was read`)
  }
}

/** The prefix of the drafts that runs on this machine are writing. */
function draftPrefix(): string {
  return `.draft-${hostname().replaceAll(/[^\w.]/g, '_')}-`
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** What Firefox syncs, as saved; without that, what else should be there is unknown. */
async function savedEngines(draft: string, problems: string[]): Promise<Engines> {
  const engines = enginesOf((await Array.fromAsync(readRecords(draft, 'meta'))).flat())
  if (engines === null) problems.push('meta: the list of what Firefox syncs is missing or damaged')
  return engines ?? {}
}

/** "309 records, of which the key opens 308: 2 added, 1 changed, 0 deleted". */
function summaryOf({ about: { records, plain, living, unreadable }, changes }: Saved): string {
  const news = changes
    ? `${changes.added} added, ${changes.changed} changed, ${changes.deleted} deleted`
    : 'unchanged'
  const encrypted = records - plain
  const opened =
    living === null || encrypted === 0 ? '' : `, of which the key opens ${encrypted - unreadable.length}`
  return `${countOf(records, 'record')}${opened}: ${news}`
}

/** Why a collection could not be read. Rethrows what affects all of them. */
function messageOf(error: unknown): string {
  const isAboutAll = error instanceof ClientError && error.field === 'token'
  if (!(error instanceof Error) || isAboutAll || isFileError(error)) throw error
  if (error instanceof ClientError && error.errno === errno.unknownPath)
    return 'Firefox syncs it, and this bridge does not expose it'
  return error.message
}
