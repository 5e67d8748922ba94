import { ClientError } from '../../client/errors.ts'
import { errno } from '../../domain/errors.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { printableLine } from '../../client/safe-text.ts'
import { Option, partialSuccess, several, UsageError, type CommandFactory } from '../command.ts'
import { writeOut } from '../output.ts'
import { readMoment, type Moment } from './dates.ts'
import { readEngines } from './synced-collections.ts'
import { collectionArguments, describeAccountCommand, folderOption, noUndoOption } from './options.ts'
import { BackupChoice, findBackups, neverRestored } from './restore-choice.ts'
import { planBookmarks } from './restore-bookmarks.ts'
import { planIndependent } from './restore-independent.ts'
import { contentOf, recordLabel, type Plan, type Source, type Wanted } from './restore-plan.ts'
import { planUnique, uniqueKeys } from './restore-unique.ts'
import { stopBetweenBatches, writePlan } from './restore-write.ts'
import { SavedFile } from './saved-file.ts'
import { UndoLog } from './undo-log.ts'
import { countOf, someOf } from './phrases.ts'
import { withAccount, type Session } from './session.ts'
import type { AccountOptions } from './bridge-choice.ts'
import type { Host } from '../host.ts'

export const restoreCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'restore',
    'show what a backup would restore; with --write, restore it',
    'DIR is a backup, or a folder of backups, whose last complete one is used. Without COLLECTION: all but clients and tabs.',
  )
    .argument('<DIR>', 'a backup, or a folder of backups')
    .addArgument(collectionArguments('the collections to restore', neverRestored))
    .option('--write', 'write what is shown without it')
    .option('--overwrite', 'include records that differ in the storage')
    .addOption(
      new Option(
        '--at <DATE>',
        'the last backup made until then: 2026-01-31, or how long ago, such as 12h or 7d',
      ).argParser(readMoment),
    )
    .addOption(
      new Option(
        '--deleted-since <DATE>',
        'only what was deleted since: 2026-01-31, or how long ago, such as 12h or 7d',
      ).argParser(readMoment),
    )
    .addOption(folderOption('only this bookmarks folder, by title or id, with its contents'))
    .addOption(
      new Option('--id <ID>', 'only this record; may be given several times').argParser(several(String)),
    )
    .option(
      '--key <FILE>',
      "the backup's sync key, if the account does not have it: an account file, or the key alone; - is standard input",
    )
    .addOption(noUndoOption)
    .action(perform((host, folder, named = [], options) => restore(folder, named, options, host)))

interface RestoreOptions extends AccountOptions {
  write?: true
  overwrite?: true
  at?: Moment
  deletedSince?: Moment
  folder?: string
  id?: string[]
  key?: string
  undo?: boolean
}

/**
 * Restores a backup: records that are missing or were deleted, and with `--overwrite` also those that differ. Writes only with `--write`, on
 * the condition that the records have not changed meanwhile.
 */
async function restore(given: string, named: string[], options: RestoreOptions, host: Host): Promise<number> {
  const { folder, id: ids, overwrite: overwrites = false, key: keyFile = null } = options
  const deletedSince = options.deletedSince?.(host.now()) ?? null
  const atMs = options.at?.(host.now()) ?? null
  if (folder !== undefined && named.some((name) => name !== 'bookmarks'))
    throw new UsageError('--folder only applies to bookmarks')
  const found = await findBackups(given)
  // Any collection, because a backup may contain those of other programs.
  const writes = options.write ? found.backups.flatMap(({ state }) => [...state.collections.keys()]) : []
  return withAccount(options, host, { writes }, async (session) => {
    const { client, tell } = session
    const choice = await BackupChoice.make(session, found, { atMs, keyFile })
    const wantedIds = folder === undefined ? null : await choice.idsOfFolder(folder)
    for (const id of ids ?? []) wantedIds?.add(id)
    const wanted = { ids: wantedIds ?? (ids ? new Set(ids) : null), deletedSince, overwrites }
    const { whole, isAll } = await choice.collections(folder === undefined ? named : ['bookmarks'])
    const engines = await readEngines(client)
    const unsynced = new Set(engines === null ? [] : firefoxCollections.filter((name) => !engines[name]))
    const stopping = options.write ? stopBetweenBatches(session) : null
    const log = new UndoLog(session, 'restore', stopping !== null && options.undo !== false)
    const run = new Run(session, wanted, stopping && { stopping, log }, unsynced)
    let isDone = isAll
    try {
      for (const collection of whole) {
        stopping?.throwIfAborted()
        const file = await SavedFile.open(choice.backup.path, collection)
        try {
          isDone = (await run.restore({ collection, client, file, ...choice.keys })) && isDone
        } finally {
          await file.close()
        }
      }
    } catch (error) {
      // What was sent last may be written.
      log.end(`${countOf(run.written, 'record')} or more`)
      throw error
    }
    log.end(run.written > 0 ? countOf(run.written, 'record') : '')
    const absent = [...new Set(ids)].filter((id) => !run.found.has(id))
    if (absent.length > 0) tell(`Not found in the backup: ${absent.map(printableLine).join(' ')}`)
    if (!stopping)
      tell(run.planned > 0 ? 'Nothing was written. Add --write to write this.' : 'There is nothing to write.')
    return isDone && absent.length === 0 ? 0 : partialSuccess
  })
}

const notSynced =
  'Firefox does not sync these in this account, and deletes them when you turn that on: turn it on and sync before you restore'

class Run {
  /** The wanted ids that the backup has. */
  readonly found = new Set<string>()
  /** How many records were found to write. */
  planned = 0
  /** The number of records that were written. */
  written = 0

  constructor(
    private readonly session: Session,
    private readonly wanted: Wanted,
    /** Null for a preview. */
    private readonly writing: { stopping: AbortSignal; log: UndoLog } | null,
    private readonly unsynced: ReadonlySet<string>,
  ) {}

  /** Restores a collection, or shows what that would write; false if something is left. */
  async restore(source: Source): Promise<boolean> {
    const { collection, file } = source
    const { session, wanted, writing } = this
    const { tell } = session
    for (const id of wanted.ids ?? []) if (file.has(id)) this.found.add(id)
    for (let attempt = 1; ; attempt += 1) {
      const plan = await this.#plan(source)
      if (plan === null) return false
      report(session, collection, plan, wanted.overwrites)
      this.planned += plan.writes.length
      if (plan.writes.length > 0 && this.unsynced.has(collection)) tell(`  ${notSynced}`)
      const { unreadable, faulty, problems } = plan
      const isWhole = unreadable.length + faulty.length + problems.length === 0
      if (!writing) {
        await preview(session, source, plan)
        return isWhole
      }
      const result = await writePlan(session, source, plan.writes, {
        ...writing,
        onWritten: (count) => (this.written += count),
      })
      // The tree has changed meanwhile: the restore is planned again for what is there now.
      if (result !== 'changed' || attempt === maxAttempts) return result === 'written' && isWhole
    }
  }

  /** Null if the collection can't be read, and says why: the others can be restored. */
  async #plan(source: Source): Promise<Plan | null> {
    try {
      return await planCollection(source, this.wanted)
    } catch (error) {
      if (!(error instanceof ClientError) || error.field !== null) throw error
      const isHidden = error.errno === errno.unknownPath
      const reason = isHidden ? 'this bridge does not expose this collection' : error.message
      this.session.tell(`${source.collection}: cannot be read: ${reason}`)
      return null
    }
  }
}

/** How often the bookmarks are planned again because another device has changed them meanwhile. */
const maxAttempts = 5

/** Plans what to write of a collection; pure but for reading it. */
export function planCollection(source: Source, wanted: Wanted): Promise<Plan> {
  if (source.collection === 'bookmarks') return planBookmarks(source, wanted)
  return uniqueKeys.has(source.collection) ? planUnique(source, wanted) : planIndependent(source, wanted)
}

/** Reports the number of changes, and what can't be restored. */
function report({ tell }: Session, collection: string, plan: Plan, overwrites: boolean): void {
  const { writes, different, notes, problems, unreadable, faulty } = plan
  const left = overwrites ? '' : `, ${different.length} different in the storage`
  tell(`${collection}: ${writes.length} to write${left}`)
  const count = (kind: string) => writes.filter((write) => write.kind === kind).length
  if (count('deleted') > 0) tell(`  ${count('deleted')} of them deleted since the backup`)
  if (count('differs') > 0) tell(`  ${count('differs')} of them replacing what is there now`)
  if (count('repaired') > 0) tell(`  ${count('repaired')} of them for folders that regain their contents`)
  for (const line of [...notes, ...problems]) tell(`  ${line}`)
  if (unreadable.length > 0)
    tell(`  ${countOf(unreadable.length, 'record')} cannot be decrypted: ${someOf(unreadable)}`)
  if (faulty.length > 0)
    tell(`  ${countOf(faulty.length, 'record')} not what Firefox writes, and not restored: ${someOf(faulty)}`)
}

const linesAtOnce = 200

/** Lists the changes, one record per line, and what is different and stays. */
async function preview({ host }: Session, source: Source, plan: Plan): Promise<void> {
  const { collection } = source
  let lines: string[] = []
  const add = async (cells: string[]) => {
    lines.push(`${cells.map(printableLine).join('  ').trimEnd()}\n`)
    if (lines.length === linesAtOnce) await flush()
  }
  const flush = async () => {
    await writeOut(host, lines.join(''))
    lines = []
  }
  for (const write of plan.writes) {
    const { clear } = await contentOf(source, write)
    await add([
      collection,
      write.kind.padEnd(8),
      recordLabel(collection, clear, write.id),
      write.differences ?? '',
    ])
  }
  for (const { title, differences } of plan.different)
    await add([collection, 'stays'.padEnd(8), title, differences])
  await flush()
}
