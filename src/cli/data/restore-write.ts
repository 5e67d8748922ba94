import { ClientError } from '../../client/errors.ts'
import { stopSignals } from '../signals.ts'
import { Progress } from './progress.ts'
import { contentOf, type Source, type Write } from './restore-plan.ts'
import { someOf } from './phrases.ts'
import { digestOf, type ClearRecord } from '../../client/crypto.ts'
import { conditionOn } from '../../client/transaction.ts'
import { maxNamedRecords, type Saved, type SavedRecord } from '../../client/edit/saved.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { Session } from './session.ts'
import type { UndoLog } from './undo-log.ts'
import type { SyncClient, TransactionRequest, TransactionResponse } from '../../client/sync-client.ts'

/** Of a transaction; of bookmarks, which belong together, as much as every bridge takes. */
const maxBatchBytes = 1_500_000
const maxTreeBytes = 6_000_000
/** What is kept of a record that was added. */
const digestBytes = 60
/** Of a request besides its payload, with its quotes escaped. */
const overheadBytes = 300

/** Aborts at the first signal, so that a restore ends between two batches and says what it has written; a second one exits at once. */
export function stopBetweenBatches({ host, tell }: Session): AbortSignal {
  const stopping = new AbortController()
  const { stop, abort } = stopSignals(host, 0)
  void stop.then(() => {
    stopping.abort(new ClientError('Interrupted: run it again to write the rest'))
    tell('Stopping after this batch. Press Ctrl+C again to stop at once')
  })
  void abort.then((code) => process.exit(code))
  return stopping.signal
}

/**
 * Writes the planned records, each on the condition that it has not changed meanwhile. Bookmarks are written in strict transactions; one that
 * another device is faster than is `changed`, and ends the writing. `log` keeps what is overwritten.
 */
export async function writePlan(
  { client, host, tell }: Session,
  source: Source,
  writes: readonly Write[],
  { stopping, log, onWritten }: WriteOptions,
): Promise<'written' | 'refused' | 'changed'> {
  if (writes.length === 0) return 'written'
  log.expect(keptBytes(source, writes), source.collection)
  const progress = new Progress(host)
  const { maxRequests } = await client.info()
  const isTree = source.collection === 'bookmarks'
  /** Ids by the reason. */
  const refused = new Map<string, string[]>()
  let [written, changed, notAllowed] = [0, 0, 0]
  try {
    for await (const part of partsOf(source, writes, maxRequests)) {
      stopping.throwIfAborted()
      log.keep(await savedOf(source, part))
      for await (const [{ id }, { status, body }] of send(client, part.requests, isTree)) {
        if (status === 200) written += 1
        else if (status === 412) changed += 1
        else if (status === 405) notAllowed += 1
        else refused.getOrInsertComputed(`${status} ${body.message ?? ''}`, () => []).push(id)
      }
      progress.show(`${written} of ${writes.length} written`)
      if (isTree && changed > 0) break
    }
  } finally {
    onWritten(written)
    progress.clear()
    tell(`  ${written} written${changed > 0 ? `, ${changed} skipped: changed meanwhile` : ''}`)
  }
  if (notAllowed > 0) tell(`  ${notAllowed} rejected: this bridge has not enabled writes to this collection`)
  for (const [reason, ids] of refused) tell(`  ${ids.length} rejected (${reason}): ${someOf(ids)}`)
  if (isTree && changed > 0 && notAllowed === 0) return 'changed'
  return notAllowed === 0 && refused.size === 0 && changed === 0 ? 'written' : 'refused'
}

interface WriteOptions {
  stopping: AbortSignal
  log: UndoLog
  /** Receives the number of records that were written, also if it rejects. */
  onWritten(count: number): void
}

/** Records to write together. */
interface Part {
  requests: TransactionRequest[]
  /** The ids of the records that exist. */
  overwritten: string[]
}

/** About how much is kept of what a restore overwrites: each record before and after. */
function keptBytes({ collection, file }: Source, writes: readonly Write[]): number {
  const bytesOf = ({ id, savedId, kind }: Write) => {
    const bytes = Math.max(file.bytesOf(id), file.bytesOf(savedId))
    if (isOverwritten(kind)) return 2 * bytes
    return collection === 'bookmarks' ? bytes : digestBytes
  }
  return writes.reduce((bytes, write) => bytes + bytesOf(write), 0)
}

function isOverwritten(kind: Write['kind']): boolean {
  return kind === 'differs' || kind === 'repaired'
}

/** What undoes the writing of a part. If one of the records changes before that, it is not written. */
async function savedOf({ client, collection, keys }: Source, part: Part): Promise<Saved> {
  const before: SavedRecord[] = []
  // Only bookmarks depend on others.
  const asOfMs = collection === 'bookmarks' ? (await client.collection(collection).count()).lastModified : 0
  for (let from = 0; from < part.overwritten.length; from += maxNamedRecords) {
    const ids = part.overwritten.slice(from, from + maxNamedRecords)
    for await (const { records } of client.collection(collection).storedPages({ ids }))
      for (const { id, payload = '' } of records) before.push({ id, payload })
  }
  const known = new Set(part.overwritten)
  const after = part.requests.map(async ({ id, data }) => {
    const payload = data!.payload ?? ''
    // Bookmarks depend on each other: taking one back needs what all were.
    const isWhole = collection === 'bookmarks' || known.has(id)
    return isWhole ? { id, payload } : { id, digest: await digestOf(payload) }
  })
  const { keyId } = client.account
  return {
    keyId,
    collection,
    keys: { id: 'keys', payload: keys.payload },
    asOfMs,
    before,
    after: await Promise.all(after),
  }
}

type Answered = [TransactionRequest, TransactionResponse]

/**
 * Sends requests as one transaction, and yields each with its response. Those that the storage refuses together are sent as two, until a
 * single record is refused. In a strict one, what would have been written is sent again without the others.
 */
async function* send(
  client: SyncClient,
  requests: TransactionRequest[],
  isStrictWanted: boolean,
): AsyncGenerator<Answered> {
  const { responses, isStrict } = await transact(client, requests, isStrictWanted)
  const answered = requests.map((request, index): Answered => [request, responses[index]!])
  const isRefused = ([, { status }]: Answered) => status === 400 || status === 413
  const refused = answered.filter(isRefused)
  const isWritten = !isStrict || responses.every(({ status }) => status === 200)
  const others = answered.filter((each) => !isRefused(each))
  const isAgain = !isWritten && others.every(([, { status }]) => status === 200)
  // What another device has changed is reported, and decides what is written at all.
  if (isWritten || !isAgain) yield* isWritten ? others : others.filter(([, { status }]) => status !== 200)
  else if (others.length > 0)
    yield* send(
      client,
      others.map(([request]) => request),
      isStrictWanted,
    )
  if (refused.length < 2) return yield* refused
  const half = refused.length >> 1
  for (const part of [refused.slice(0, half), refused.slice(half)])
    yield* send(
      client,
      part.map(([request]) => request),
      isStrictWanted,
    )
}

/** Sends a transaction; one that is too large as a whole is refused for each of its requests. */
async function transact(
  client: SyncClient,
  requests: TransactionRequest[],
  isStrictWanted: boolean,
): Promise<{ responses: TransactionResponse[]; isStrict: boolean }> {
  try {
    if (isStrictWanted) return await client.strictTransaction(requests)
    return { responses: await client.transaction(requests), isStrict: false }
  } catch (error) {
    if (!(error instanceof ClientError) || error.status !== 413) throw error
    const { status, message } = error
    const responses = requests.map(() => ({ status, path: '', headers: {}, body: { message } }))
    return { responses, isStrict: true }
  }
}

/** Reads and encrypts records when they are written, in batches within the limits of number and size. */
async function* partsOf(source: Source, writes: readonly Write[], maxRequests: number): AsyncGenerator<Part> {
  const maxBytes = source.collection === 'bookmarks' ? maxTreeBytes : maxBatchBytes
  let part: Part = { requests: [], overwritten: [] }
  let bytes = 0
  for (const write of writes) {
    const request = await requestOf(source, write)
    const size = (request.data!.payload?.length ?? 0) + overheadBytes
    const { length } = part.requests
    if (length > 0 && (length === maxRequests || bytes + size > maxBytes)) {
      yield part
      part = { requests: [], overwritten: [] }
      bytes = 0
    }
    part.requests.push(request)
    if (isOverwritten(write.kind)) part.overwritten.push(write.id)
    bytes += size
  }
  if (part.requests.length > 0) yield part
}

/** The record in the backup, and what to encrypt instead of its payload; null to write it as it was saved. */
async function toWrite(
  source: Source,
  write: Write,
): Promise<{ saved: StoredRecord; clear: ClearRecord | null }> {
  const { file, savedKeys, keys } = source
  const isAsSaved = !write.clear && !write.changes && savedKeys.payload === keys.payload
  return isAsSaved ? { saved: await file.read(write.savedId), clear: null } : contentOf(source, write)
}

async function requestOf(source: Source, write: Write): Promise<TransactionRequest> {
  const { collection, keys } = source
  const { id, version } = write
  const { saved, clear } = await toWrite(source, write)
  const payload = clear ? await keys.seal(collection, { ...clear, id }) : saved.payload
  const { sortindex } = saved
  return {
    method: 'PUT',
    collection,
    id,
    headers: conditionOn(version),
    data: { payload, ...(sortindex !== undefined && { sortindex }) },
  }
}
