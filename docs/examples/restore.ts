/**
 * Puts back what `backup.ts` has saved.
 *
 *   bun docs/examples/restore.ts FOLDER [COLLECTION ...]                what would be written; nothing is
 *   bun docs/examples/restore.ts FOLDER [COLLECTION ...] --write        writes what is missing in the storage
 *   bun docs/examples/restore.ts FOLDER [COLLECTION ...] --overwrite    and what is different there
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN and KEY_ID in the environment. The operator has to allow writes to the collections
 * (service.record_<collection>_put_enabled). Without names: all but `clients` and `tabs`, which belong to devices.
 *
 * Every write has a condition: what somebody changes meanwhile is left alone. If the account has other keys by now, records
 * are encrypted anew: SYNC_KEY opens the keys of today, BACKUP_SYNC_KEY those of the backup (the same unless the password
 * was reset). What cannot be read then is skipped, counted and named.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ask, batch, list, printable, readUser } from './bridge.js'
import type { BatchRequest, StoredRecord, User } from './bridge.js'
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

async function restore(folder: string): Promise<void> {
  const user = readUser(process.env)
  const root = (await ask(user, `${user.BRIDGE_URL}/v1/`)).body
  const translate = await createTranslator(user, folder)
  for (const collection of await chooseCollections(folder)) {
    const { requests, unreadable, different } = await plan(user, folder, collection, translate)
    console.log(`${collection}: ${requests.length} to write, ${different} different in the storage`)
    if (unreadable.length > 0) console.log(`  cannot be read: ${unreadable.map(printable).join(' ')}`)
    if (options.length > 0) await write(user, requests, root.settings.batch_max_requests)
  }
  if (options.length === 0) console.log('Nothing was written. Write with --write.')
}

async function chooseCollections(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const saved = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  if (named.length === 0) return saved.filter((name) => !unlessNamed.has(name)).toSorted()
  const absent = named.find((name) => !saved.includes(name) || never.has(name))
  if (absent !== undefined) throw new Error(`${absent} is not in this backup, or is not for restoring`)
  return named
}

/** What is to be written, each request with the condition that the storage is still as it was seen. */
async function plan(
  user: User,
  folder: string,
  collection: string,
  translate: (collection: string, record: StoredRecord) => Promise<string>,
) {
  const { records } = await list(user, `/collections/${collection}/records`)
  const stored = new Map(records.map((record) => [record.id, record]))
  const requests: BatchRequest[] = []
  const unreadable: string[] = []
  let different = 0
  for (const file of (await readdir(join(folder, collection))).filter((name) => name.endsWith('.json'))) {
    const record = JSON.parse(await readFile(join(folder, collection, file), 'utf8')) as StoredRecord
    const current = stored.get(record.id)
    if (current?.payload === record.payload) continue
    if (current) different += 1
    if (current && !options.includes('--overwrite')) continue
    try {
      const payload = await translate(collection, record)
      const { sortindex } = record
      requests.push({
        method: 'PUT',
        path: `/collections/${collection}/records/${encodeURIComponent(record.id)}`,
        headers: current ? { 'If-Match': `"${current.last_modified}"` } : { 'If-None-Match': '*' },
        body: { data: { payload, ...(sortindex !== undefined && { sortindex }) } },
      })
    } catch {
      unreadable.push(record.id)
    }
  }
  return { requests, unreadable, different }
}

/** How a payload of the backup becomes one of today: as it is, unless the account has got new keys. */
async function createTranslator(user: User, folder: string) {
  const saved = JSON.parse(await readFile(join(folder, 'crypto', 'keys.json'), 'utf8')) as StoredRecord
  const [current] = (await list(user, '/collections/crypto/records/keys')).records
  if (current!.payload === saved.payload) return async (_: string, { payload }: StoredRecord) => payload
  const { SYNC_KEY, BACKUP_SYNC_KEY = SYNC_KEY } = user
  if (!SYNC_KEY || !BACKUP_SYNC_KEY) {
    throw new Error(
      'The account has new keys since this backup: set SYNC_KEY, so that records are encrypted anew',
    )
  }
  console.log('The account has new keys since this backup: records are encrypted anew')
  const [oldKeysOf, keysOf] = await Promise.all([
    collectionKeys(keyPairFromHex(BACKUP_SYNC_KEY), saved),
    collectionKeys(keyPairFromHex(SYNC_KEY), current!),
  ])
  return async (collection: string, record: StoredRecord) =>
    encryptRecord(keysOf(collection), await decryptRecord(oldKeysOf(collection), record))
}

async function write(user: User, requests: BatchRequest[], maxRequests: number): Promise<void> {
  const outcomes = { written: 0, changedMeanwhile: 0 }
  for (const part of parts(requests, maxRequests)) {
    for (const { status, body, path } of await batch(user, part)) {
      if (status === 200) outcomes.written += 1
      else if (status === 412) outcomes.changedMeanwhile += 1
      else throw new Error(`Cannot write ${path}: ${status} ${body.message}`)
    }
  }
  console.log(`  ${outcomes.written} written, ${outcomes.changedMeanwhile} left alone: changed meanwhile`)
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
