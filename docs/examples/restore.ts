/**
 * Puts back what `backup.ts` has saved.
 *
 *   bun docs/examples/restore.ts FOLDER [COLLECTION ...]                what would be written; nothing is
 *   bun docs/examples/restore.ts FOLDER [COLLECTION ...] --write        writes what is missing in the storage, or deleted there
 *   bun docs/examples/restore.ts FOLDER [COLLECTION ...] --overwrite    and what is different there
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN and KEY_ID in the environment or in account.env (see account.ts). FOLDER is one backup, or
 * the folder of all: then the last complete one counts. The operator has to allow writes to the collections
 * (service.record_<collection>_put_enabled). Without names: all but `clients` and `tabs`, which belong to devices.
 *
 * Every write has a condition: what somebody changes meanwhile is left alone. If the account has other keys by now, records
 * are encrypted anew: SYNC_KEY opens the keys of today, BACKUP_SYNC_KEY those of the backup (the same unless the password
 * was reset). What cannot be read then is skipped, counted and named. A deletion is a record, too, whose content says so: without
 * SYNC_KEY it looks like any other record that is different. Into an account that was emptied, let a Firefox sync first:
 * it makes the keys; then restore with --overwrite, because the folders that it made have other children.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readAccount } from './account.ts'
import { backupNames, readRecords, readState } from './backup-folder.ts'
import { ask, batch, list, printable, type BatchRequest, type StoredRecord, type User } from './bridge.js'
import { collectionKeys, decryptRecord, encryptRecord, keyPairFromHex } from './sync-crypto.js'

// The keys and the list of engines are the account's of today: those of a backup would make everything else unreadable.
const never = new Set(['crypto', 'meta'])
const unlessNamed = new Set([...never, 'clients', 'tabs'])
const maxBatchBytes = 1_500_000

const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'))
const [folder, ...named] = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
if (!folder || options.some((option) => option !== '--write' && option !== '--overwrite')) {
  console.error('Usage: bun restore.ts FOLDER [COLLECTION ...] [--write | --overwrite]')
  process.exit(2)
}
try {
  await restore(folder)
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

async function restore(given: string): Promise<void> {
  const user = readAccount()
  const folder = await findBackup(given)
  console.log(`From ${folder}`)
  const root = (await ask(user, `${user.BRIDGE_URL}/v1/`)).body
  const translator = await createTranslator(user, folder)
  for (const collection of await chooseCollections(folder)) {
    const { requests, unreadable, deleted, different } = await plan(user, folder, collection, translator)
    console.log(`${collection}: ${requests.length} to write, ${different} different in the storage`)
    if (deleted > 0) console.log(`  ${deleted} of them were deleted since the backup`)
    if (different > 0 && !user.SYNC_KEY)
      console.log('  Without SYNC_KEY nobody can say which of them were only deleted')
    if (unreadable.length > 0) console.log(`  cannot be read: ${unreadable.map(printable).join(' ')}`)
    if (options.length > 0) await write(user, requests, root.settings.batch_max_requests)
  }
  if (options.length === 0) console.log('Nothing was written. Write with --write.')
}

/** How records of the backup become records of today, and whether one is there already. */
interface Translator {
  payload(collection: string, record: StoredRecord): Promise<string>
  isSame(collection: string, current: StoredRecord, record: StoredRecord): Promise<boolean>
  /** Whether a record of today says that it was deleted; false where its key is not known. */
  isDeleted(collection: string, current: StoredRecord): Promise<boolean>
}

async function findBackup(folder: string): Promise<string> {
  if (existsSync(join(folder, 'state.json'))) return folder
  const last = (await backupNames(folder)).complete.at(-1)
  if (last === undefined)
    throw new Error(`There is no complete backup in ${folder}: an incomplete one is restored by its own name`)
  return join(folder, last)
}

async function chooseCollections(folder: string): Promise<string[]> {
  const saved = [...(await readState(folder)).keys()]
  if (named.length === 0) return saved.filter((name) => !unlessNamed.has(name)).toSorted()
  const absent = named.find((name) => !saved.includes(name) || never.has(name))
  if (absent !== undefined) throw new Error(`${absent} is not in this backup, or is not for restoring`)
  return named
}

/** What is to be written, each request with the condition that the storage is still as it was seen. */
async function plan(user: User, folder: string, collection: string, translator: Translator) {
  const { records } = await list(user, `/collections/${collection}/records`)
  const stored = new Map(records.map((record) => [record.id, record]))
  const requests: BatchRequest[] = []
  const unreadable: string[] = []
  let [deleted, different] = [0, 0]
  for (const record of await readRecords(join(folder, `${collection}.jsonl`))) {
    const current = stored.get(record.id)
    try {
      if (current && (await translator.isSame(collection, current, record))) continue
      const isDeleted = current !== undefined && (await translator.isDeleted(collection, current))
      if (current && !isDeleted) different += 1
      if (current && !isDeleted && !options.includes('--overwrite')) continue
      const payload = await translator.payload(collection, record)
      const { sortindex } = record
      requests.push({
        method: 'PUT',
        path: `/collections/${collection}/records/${encodeURIComponent(record.id)}`,
        headers: current ? { 'If-Match': `"${current.last_modified}"` } : { 'If-None-Match': '*' },
        body: { data: { payload, ...(sortindex !== undefined && { sortindex }) } },
      })
      if (isDeleted) deleted += 1
    } catch {
      unreadable.push(record.id)
    }
  }
  return { requests, unreadable, deleted, different }
}

/** Records stay as they are, unless the account has got new keys. */
async function createTranslator(user: User, folder: string): Promise<Translator> {
  const [saved] = await readRecords(join(folder, 'crypto.jsonl'))
  const [current] = (await list(user, '/collections/crypto/records?in_ids=keys')).records
  if (!saved || !current) {
    throw new Error(
      `There are no keys in the ${saved ? 'account: let a Firefox sync first, it makes them' : 'backup'}`,
    )
  }
  const { SYNC_KEY } = user
  const keysOf = SYNC_KEY ? await collectionKeys(keyPairFromHex(SYNC_KEY), current) : null
  const read = async (collection: string, record: StoredRecord) =>
    keysOf && (await decryptRecord(keysOf(collection), record).catch(() => null))
  const isDeleted = async (collection: string, record: StoredRecord) =>
    (await read(collection, record))?.deleted === true
  const isUnchanged = (there: StoredRecord, record: StoredRecord) => there.payload === record.payload
  if (isUnchanged(current, saved)) {
    return {
      payload: async (_, record) => record.payload,
      isSame: async (_, there, record) => isUnchanged(there, record),
      isDeleted,
    }
  }
  const backupKey = process.env.BACKUP_SYNC_KEY || user.BACKUP_SYNC_KEY || SYNC_KEY
  if (!keysOf || !backupKey) {
    throw new Error(
      'The account has new keys since this backup: set SYNC_KEY, so that records are encrypted anew',
    )
  }
  console.log('The account has new keys since this backup: records are encrypted anew')
  const oldKeysOf = await collectionKeys(keyPairFromHex(backupKey), saved)
  const open = (collection: string, record: StoredRecord) => decryptRecord(oldKeysOf(collection), record)
  return {
    payload: async (collection, record) => encryptRecord(keysOf(collection), await open(collection, record)),
    async isSame(collection, there, record) {
      return JSON.stringify(await read(collection, there)) === JSON.stringify(await open(collection, record))
    },
    isDeleted,
  }
}

async function write(user: User, requests: BatchRequest[], maxRequests: number): Promise<void> {
  const outcomes = { written: 0, changedMeanwhile: 0, notAllowed: 0 }
  try {
    for (const part of parts(requests, maxRequests)) {
      for (const { status, body, path } of await batch(user, part)) {
        if (status === 200) outcomes.written += 1
        else if (status === 412) outcomes.changedMeanwhile += 1
        else if (status === 405) outcomes.notAllowed += 1
        else throw new Error(`Cannot write ${path}: ${status} ${body.message}`)
      }
    }
  } finally {
    console.log(`  ${outcomes.written} written, ${outcomes.changedMeanwhile} left alone: changed meanwhile`)
  }
  if (outcomes.notAllowed === 0) return
  console.error(`  ${outcomes.notAllowed} refused: writes to this collection are not enabled`)
  process.exitCode = 1
}

/** As many requests as a batch may have, and no more than fits into a request. */
function* parts(requests: BatchRequest[], maxRequests: number): Generator<BatchRequest[]> {
  let part: BatchRequest[] = []
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
