import { existsSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { parseAccount, readKey, withoutQuotes, type Account } from '../../client/account.ts'
import { bookmarkTree, folderNamed, walk } from '../../client/bookmarks.ts'
import { ClientError } from '../../client/errors.ts'
import { keyFor } from '../../client/former-keys.ts'
import { reasonOf } from '../../settings/readers.ts'
import { isIntact, readBackups, readRecords, timeOf, type Backup } from './backup-folder.ts'
import { RecordKeys } from './record-keys.ts'
import { countOf, someOf } from './phrases.ts'
import type { Session } from './session.ts'
import { UsageError } from '../command.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { SyncClient } from '../../client/sync-client.ts'
import type { Host } from '../host.ts'

// Keys and engines must stay current: old ones would make everything else unreadable.
export const neverRestored: ReadonlySet<string> = new Set(['crypto', 'meta'])
// Devices create these themselves.
const unlessNamed = new Set([...neverRestored, 'clients', 'tabs'])
/** What matters first; history comes last. */
const firstCollections = ['passwords', 'bookmarks', 'addresses', 'creditcards']

/** How to choose a backup. */
interface Options {
  /** The last one made before this time, in ms since 1970. */
  atMs: number | null
  /** The file with the sync key of the backup; null: the account has it. */
  keyFile: string | null
}

/** The backups in a folder. */
export interface Found {
  folder: string
  backups: Backup[]
  damaged: { path: string; reason: string }[]
  /** The backup that was named; null if the folder was. */
  named: Backup | null
}

/** Finds the backups in a folder, or beside the named one. Rejects with `ClientError` if there are none. */
export async function findBackups(given: string): Promise<Found> {
  const isBackup = existsSync(join(given, 'state.json'))
  const path = resolve(given)
  const { backups, damaged } = await readBackups(isBackup ? dirname(path) : given)
  const named = (isBackup && backups.find(({ name }) => name === basename(path))) || null
  if (isBackup && !named) {
    const found = damaged.find((each) => basename(each.path) === basename(path))
    throw new ClientError(`${given} is not a backup: ${found?.reason ?? 'its name has no date'}`)
  }
  return { folder: given, backups, damaged, named }
}

/** A backup to restore, with its keys and the present ones of the account. */
export class BackupChoice {
  private constructor(
    private readonly session: Session,
    readonly backup: Backup,
    /** Other backups in the same folder. */
    private readonly others: Backup[],
    readonly keys: { savedKeys: RecordKeys; keys: RecordKeys },
  ) {}

  /** Chooses a backup, and opens its keys. Rejects with `ClientError`. */
  static async make(session: Session, found: Found, { atMs, keyFile }: Options): Promise<BackupChoice> {
    const { client, tell, host } = session
    const { backups, damaged, named } = found
    for (const { path, reason } of named ? [] : damaged) tell(`${path} is damaged, and not used: ${reason}`)
    const backup = named ?? chooseBackup(found, client.account.bucket, atMs, tell)
    tell(`From ${backup.path}`)
    if (client.account.syncKey === '')
      throw new ClientError('SYNC_KEY is missing from the account', { field: 'syncKey' })
    const syncKey = keyFile === null ? ownKey(client.account, backup) : readKeyFile(keyFile, backup, host)
    if (!(await isIntact(backup, 'crypto')))
      throw new ClientError(
        `${backup.path} is damaged: its keys are not what was saved${await wholeOf('crypto', backup, backups)}`,
      )
    const savedKeys = await RecordKeys.read(backup.path, syncKey).catch(() => {
      throw new ClientError(
        `The key ${keyFile === null ? 'of the account' : `in ${keyFile}`} does not decrypt ${backup.path}`,
      )
    })
    const keys = await readPresentKeys(client)
    if (keys.payload !== savedKeys.payload)
      tell('The account has new keys since this backup: records will be encrypted again')
    return new BackupChoice(session, backup, backups, { savedKeys, keys })
  }

  /**
   * The collections to restore, in their order, without those whose file is not what was saved; `isAll` is false if there are any. Checks
   * every file. Rejects with `ClientError` if the backup does not have a named one.
   */
  async collections(named: string[]): Promise<{ whole: string[]; isAll: boolean }> {
    const { backup, others, session } = this
    const saved = backup.state.collections
    const absent = named.find((name) => !saved.has(name) || neverRestored.has(name))
    if (absent !== undefined) throw new ClientError(`${absent} is not in this backup or cannot be restored`)
    const chosen =
      named.length > 0 ? [...new Set(named)] : [...saved.keys()].filter((name) => !unlessNamed.has(name))
    const whole: string[] = []
    for (const name of chosen.toSorted(
      (one, other) => rankOf(one) - rankOf(other) || (one < other ? -1 : 1),
    )) {
      if (await isIntact(backup, name)) whole.push(name)
      else
        session.tell(
          `${name}: damaged in this backup, and not restored${await wholeOf(name, backup, others)}`,
        )
    }
    return { whole, isAll: whole.length === chosen.length }
  }

  /** The ids of a folder in the backup and everything in it. Rejects with `ClientError` unless there is exactly one such folder. */
  async idsOfFolder(wanted: string): Promise<Set<string>> {
    const tree = []
    for await (const records of readRecords(this.backup.path, 'bookmarks')) {
      for (const stored of records) {
        const { kind, clear } = await this.keys.savedKeys.openRecord('bookmarks', stored)
        if (kind === 'living') tree.push({ collection: 'bookmarks', stored, clear, problem: null })
      }
    }
    const found = folderNamed(bookmarkTree(tree), wanted, ' in the backup')
    return new Set(walk([found]).map(({ record }) => record.stored.id))
  }
}

/** The last complete backup of the account, or of the only other one that the folder has. */
function chooseBackup(
  { folder, backups }: Found,
  bucket: string,
  atMs: number | null,
  tell: (text: string) => void,
): Backup {
  const isInTime = ({ name }: Backup) => atMs === null || timeOf(name) <= atMs
  const complete = backups.filter((each) => each.isComplete && isInTime(each))
  const own = complete.filter(({ state }) => state.bucket === bucket)
  const others = complete.filter(({ state }) => state.bucket !== bucket)
  const buckets = new Set(others.map(({ state }) => state.bucket))
  if (own.length === 0 && buckets.size === 1) return others.at(-1)!
  if (others.length > 0)
    tell(
      `${countOf(others.length, 'backup')} of another account, or from before a password reset, not used: ${someOf(others.map(({ name }) => name))}`,
    )
  if (own.length > 0) return own.at(-1)!
  const when = atMs === null ? '' : ' from that time'
  const other = backups.length > 0 ? ': name another one to restore it' : ''
  throw new ClientError(`No complete backup of this account${when} in ${folder}${other}`)
}

/** Where the last whole copy of a collection is. */
async function wholeOf(collection: string, backup: Backup, others: Backup[]): Promise<string> {
  for (const other of others.toReversed()) {
    const isSame = other.state.bucket === backup.state.bucket && other.name !== backup.name
    if (isSame && other.state.collections.get(collection)?.isWhole && (await isIntact(other, collection)))
      return `. The last backup whose copy is whole: ${other.path}`
  }
  return '. No other backup here has a whole copy'
}

function rankOf(collection: string): number {
  if (collection === 'history') return firstCollections.length + 1
  const index = firstCollections.indexOf(collection)
  return index < 0 ? firstCollections.length : index
}

async function readPresentKeys(client: SyncClient): Promise<RecordKeys> {
  let current: StoredRecord | undefined
  for await (const { records } of client.collection('crypto').storedPages())
    current = records.find(({ id }) => id === 'keys') ?? current
  if (!current) throw new ClientError('The storage has no keys for this account: sync a Firefox first')
  return RecordKeys.open(current, client.account.syncKey).catch((error: Error) => {
    throw new ClientError(error.message, { field: 'syncKey' })
  })
}

/** The key of the account for a backup. Throws `ClientError` if it has none. */
function ownKey(account: Account, { state }: Backup): string {
  const key = keyFor(account, state.keyId)
  if (key !== null) return key
  throw new ClientError(
    `The account has no key for this backup, whose key id is ${state.keyId}: name a file that has it with --key FILE`,
  )
}

/** Reads the key of a backup from a file: of an account, or with the key alone; `-` is standard input. Throws `UsageError`. */
function readKeyFile(path: string, { state }: Backup, host: Host): string {
  let text: string
  try {
    text = host.readFile(path === '-' ? '/dev/stdin' : path)
  } catch (error) {
    throw new UsageError(`--key ${path}: cannot be read (${reasonOf(error)})`)
  }
  const account = parseAccount(text)
  try {
    return keyFor(account, state.keyId) ?? readKey(account.syncKey ?? withoutQuotes(text))
  } catch (error) {
    throw new UsageError(`--key ${path}: ${(error as Error).message}`)
  }
}
