import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readKey, withoutQuotes } from '../../client/account.ts'
import { printableLine } from '../../client/safe-text.ts'
import { describeRecord } from '../../client/engines.ts'
import { ClientError } from '../../client/errors.ts'
import { errno } from '../../domain/errors.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { Option, partialSuccess, several, UsageError, type CommandFactory } from '../command.ts'
import { stopSignals } from '../signals.ts'
import { backupNames, readState, type State } from './backup-folder.ts'
import { readMoment, type Moment } from './dates.ts'
import { readEngines } from './engines.ts'
import { writeOut } from '../output.ts'
import { collectionArguments, describeAccountCommand, folderOption } from './options.ts'
import { countOf, someOf } from './phrases.ts'
import { Progress } from './progress.ts'
import { Translator, type Plan } from './restore-plan.ts'
import { withAccount, type Session } from './session.ts'
import type { SyncClient, TransactionRequest, TransactionResponse } from '../../client/sync-client.ts'
import type { AccountOptions } from './bridge-choice.ts'
import type { Host } from '../host.ts'

// Keys and engines must stay current: old ones would make everything else unreadable.
const never = new Set(['crypto', 'meta'])
// Devices create these themselves.
const unlessNamed = new Set([...never, 'clients', 'tabs'])

export const restoreCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'restore',
    'show what a backup would restore; with --write, restore it',
    'DIR is a backup, or a folder of backups, whose last complete one is used. Without COLLECTION: all but clients and tabs. ' +
      'Set BACKUP_SYNC_KEY in the environment if the backup has another sync key.',
  )
    .argument('<DIR>', 'a backup, or a folder of backups')
    .addArgument(collectionArguments('the collections to restore'))
    .option('--write', 'write records that are missing, or were deleted since the backup')
    .option('--overwrite', 'overwrite records that differ, too')
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
    .action(perform((host, folder, named = [], options) => restore(folder, named, options, host)))

interface RestoreOptions extends AccountOptions {
  write?: true
  overwrite?: true
  deletedSince?: Moment
  folder?: string
  id?: string[]
}

/**
 * Restores a backup: records that are missing or were deleted, and with `--overwrite` also those that differ. Writes only with `--write` or
 * `--overwrite`, on the condition that the records have not changed meanwhile.
 */
async function restore(given: string, named: string[], options: RestoreOptions, host: Host): Promise<number> {
  const { folder, id: ids, overwrite: overwrites = false, write: isWriting = false } = options
  const deletedSince = options.deletedSince?.(host.now()) ?? null
  if (folder !== undefined && named.some((name) => name !== 'bookmarks'))
    throw new UsageError('--folder only applies to bookmarks')
  const writes = overwrites || isWriting
  const backupKey = readBackupKey(host)
  const backup = await findBackup(given)
  const state = await readState(backup)
  const collections = folder === undefined ? chooseCollections(state, named) : ['bookmarks']
  // Any collection, because a backup may contain those of other programs.
  return withAccount(options, host, { writes: writes ? collections : [] }, async (session) => {
    const { client, tell } = session
    tell(`From ${backup}`)
    if (client.account.syncKey === '')
      throw new ClientError('SYNC_KEY is missing from the account', { field: 'syncKey' })
    const translator = await Translator.create(client, backup, backupKey || client.account.syncKey)
    if (translator.hasNewKeys)
      tell('The account has new keys since this backup: records will be encrypted again')
    const wantedIds = folder === undefined ? null : await translator.idsOfFolder(folder)
    for (const id of ids ?? []) wantedIds?.add(id)
    const wanted = { ids: wantedIds ?? (ids ? new Set(ids) : null), deletedSince, overwrites }
    const absent = new Set(ids)
    const engines = await readEngines(client)
    const unsynced = new Set(engines === null ? [] : firefoxCollections.filter((name) => !engines[name]))
    const stopping = writes ? stopBetweenBatches(session) : undefined
    let isWhole = true
    for (const collection of collections) {
      stopping?.throwIfAborted()
      const plan = await translator.plan(collection, wanted).catch((error: ClientError) => {
        // The keys could be read, so the address is right.
        if (error.errno !== errno.unknownPath) throw error
        tell(`${collection}: cannot be read: this bridge does not expose this collection`)
      })
      isWhole &&= plan !== undefined
      if (!plan) continue
      count(session, collection, plan, overwrites)
      if (plan.requests.length > 0 && unsynced.has(collection)) tell(`  ${notSynced}`)
      const records = state.get(collection)?.records ?? 0
      const isIntact = plan.saved.size >= records
      if (!isIntact)
        tell(`  the backup is damaged: it has only ${plan.saved.size} of ${countOf(records, 'record')}`)
      for (const id of plan.saved) absent.delete(id)
      if (!writes) await list(session, collection, plan)
      const isWritten = !writes || (await write(session, plan.requests, stopping))
      const left = plan.unreadable.length + plan.unmoved.size + plan.retyped.length
      isWhole &&= isWritten && isIntact && left === 0
    }
    if (absent.size > 0) tell(`Not found in the backup: ${[...absent].map(printableLine).join(' ')}`)
    isWhole &&= absent.size === 0
    if (!writes) tell('Nothing was written. Add --write to write this.')
    return isWhole ? 0 : partialSuccess
  })
}

const notSynced =
  'Firefox does not sync these in this account, and deletes them when you turn that on: turn it on and sync before you restore'

/** The sync key of the backup, if it has another one than the account. Throws `UsageError`. */
function readBackupKey({ environment }: Host): string | null {
  const { BACKUP_SYNC_KEY } = environment
  if (!BACKUP_SYNC_KEY) return null
  try {
    return readKey(withoutQuotes(BACKUP_SYNC_KEY))
  } catch (error) {
    throw new UsageError(`BACKUP_SYNC_KEY: ${(error as Error).message}`)
  }
}

/** Finds the backup: this folder, or the last complete one in it. */
async function findBackup(folder: string): Promise<string> {
  if (existsSync(join(folder, 'state.json'))) return folder
  const last = (await backupNames(folder)).complete.at(-1)
  if (last !== undefined) return join(folder, last)
  throw new ClientError(`No complete backup in ${folder}: name an incomplete one to restore it`)
}

function chooseCollections(state: State, named: string[]): string[] {
  const saved = new Set(state.keys())
  if (named.length === 0) return [...saved].filter((name) => !unlessNamed.has(name)).toSorted()
  const absent = named.find((name) => !saved.has(name) || never.has(name))
  if (absent !== undefined) throw new ClientError(`${absent} is not in this backup or cannot be restored`)
  return named
}

/** Reports the number of changes. */
function count({ tell }: Session, collection: string, plan: Plan, overwrites: boolean): void {
  const { deleted, different, repaired, orphans, unmoved, cut, retyped, unreadable, requests } = plan
  const left = overwrites ? '' : `, ${different.length} different in the storage`
  tell(`${collection}: ${requests.length} to write${left}`)
  if (deleted.length > 0) tell(`  ${deleted.length} of them were deleted since the backup`)
  if (repaired.length > 0) tell(`  ${repaired.length} of them are folders that regain their contents`)
  for (const [folder, children] of orphans) {
    const remedy = `restore it, too, with --id ${printableLine(folder)}`
    tell(`  ${children} of them will be in Other Bookmarks, because their folder was deleted: ${remedy}`)
  }
  for (const [folder, former] of unmoved) {
    const remedy = `restore that, too, with --id ${printableLine(former)}`
    tell(`  ${printableLine(folder)} is not restored, because its former folder is in it now: ${remedy}`)
  }
  if (cut.length > 0)
    tell(`  in Other Bookmarks, because the backup has them inside themselves: ${someOf(cut)}`)
  if (retyped.length > 0)
    tell(`  not restored, because something of another type has the id now: ${someOf(retyped)}`)
  if (unreadable.length > 0) tell(`  cannot be decrypted: ${someOf(unreadable)}`)
}

/** Lists the changes, one record per line. */
async function list({ host }: Session, collection: string, plan: Plan): Promise<void> {
  const { missing, deleted, repaired } = plan
  const lines = Object.entries({ missing, deleted, repaired }).flatMap(([kind, records]) =>
    records.map((record) => [collection, kind.padEnd(9), describeRecord(collection, record) || record.id]),
  )
  await writeOut(host, lines.map((cells) => `${cells.map(printableLine).join('  ')}\n`).join(''))
}

const maxBatchBytes = 1_500_000

/** Aborts at the first signal, so that a restore ends between two batches and says what it has written; a second one exits at once. */
function stopBetweenBatches({ host, tell }: Session): AbortSignal {
  const stopping = new AbortController()
  const { stop, abort } = stopSignals(host, 0)
  void stop.then(() => {
    stopping.abort(new ClientError('Interrupted: run it again to write the rest'))
    tell('Stopping after this batch. Press Ctrl+C again to stop at once')
  })
  void abort.then((code) => process.exit(code))
  return stopping.signal
}

/** Writes the planned changes; false if any was rejected. */
async function write(
  { client, host, tell }: Session,
  requests: TransactionRequest[],
  stopping?: AbortSignal,
): Promise<boolean> {
  if (requests.length === 0) return true
  const progress = new Progress(host)
  const { maxRequests } = await client.info()
  /** Ids by the reason. */
  const refused = new Map<string, string[]>()
  let [written, changed, notAllowed] = [0, 0, 0]
  try {
    for (const part of parts(requests, maxRequests)) {
      stopping?.throwIfAborted()
      for await (const [{ id }, { status, body }] of send(client, part)) {
        if (status === 200) written += 1
        else if (status === 412) changed += 1
        else if (status === 405) notAllowed += 1
        else refused.getOrInsertComputed(`${status} ${body.message ?? ''}`, () => []).push(id)
      }
      progress.show(`${written} of ${requests.length} written`)
    }
  } finally {
    progress.clear()
    tell(`  ${written} written, ${changed} skipped: changed meanwhile`)
  }
  if (notAllowed > 0) tell(`  ${notAllowed} rejected: this bridge has not enabled writes to this collection`)
  for (const [reason, ids] of refused) tell(`  ${ids.length} rejected (${reason}): ${someOf(ids)}`)
  return notAllowed === 0 && refused.size === 0 && changed === 0
}

/** Sends requests as one transaction; those that the storage finds too large together, as two. Yields each with its response. */
async function* send(
  client: SyncClient,
  requests: TransactionRequest[],
): AsyncGenerator<[TransactionRequest, TransactionResponse]> {
  const responses = await client.transaction(requests)
  const tooLarge = requests.filter((_, index) => responses[index]!.status === 413)
  const isTogether = tooLarge.length > 1
  for (const [index, request] of requests.entries())
    if (!isTogether || responses[index]!.status !== 413) yield [request, responses[index]!]
  if (!isTogether) return
  const half = tooLarge.length >> 1
  yield* send(client, tooLarge.slice(0, half))
  yield* send(client, tooLarge.slice(half))
}

/** Splits requests into batches within the limits of number and size. */
function* parts(requests: TransactionRequest[], maxRequests: number): Generator<TransactionRequest[]> {
  let part: TransactionRequest[] = []
  let bytes = 0
  for (const request of requests) {
    const size = JSON.stringify(request).length
    if (part.length > 0 && (part.length === maxRequests || bytes + size > maxBatchBytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(request)
    bytes += size
  }
  if (part.length > 0) yield part
}
