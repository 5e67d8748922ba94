import { ClientError } from '../errors.ts'
import type { ReadOptions, StoredRecord, SyncRecord } from '../collection.ts'
import type { ClearRecord, KeyPair } from '../crypto.ts'
import type { TransactionResponse } from '../answers.ts'
import { conditionOn, type TransactionRequest } from '../transaction.ts'
import type { Edit, Problem, RecordEdit } from './edit.ts'
import type { RecordWrite } from './edit-requests.ts'
import { modelOf, type Model } from './models.ts'
import { Savings, undoing, type Saved } from './saved.ts'
import { readTree, type Tree } from './tree.ts'

/** What saving needs of a client. */
export interface EditClient {
  readonly account: { keyId: string; bucket: string }
  collection(name: string): {
    records(options?: ReadOptions): AsyncIterable<SyncRecord>
    storedPages(options?: ReadOptions): AsyncIterable<{ records: StoredRecord[] }>
  }
  keysOf(collection: string): Promise<KeyPair>
  encrypt(collection: string, record: ClearRecord): Promise<string>
  strictTransaction(
    requests: TransactionRequest[],
  ): Promise<{ responses: TransactionResponse[]; isStrict: boolean }>
  info(): Promise<{ maxRequests: number }>
}

/** How to save edits. */
export interface SaveOptions {
  /** @default bookmarks */
  collection?: string
  /** The records that the edits were made for, if they were read before. */
  shown?: Iterable<SyncRecord>
  /**
   * Called before each write, with what undoes everything so far, and the number of records that were written before; nothing more is written
   * if it throws.
   */
  onWrite?(saved: Saved, written: number): Promise<void> | void
  /**
   * Whether the edits go back to what was stored before, as those of an undo: it is not checked as new input. What can't be applied is a
   * problem, and does not refuse the rest; what does not fit into one transaction is written in several, each of which leaves a valid tree.
   */
  wasStored?: boolean
  signal?: AbortSignal
}

/** The result of saving edits. */
export interface SaveResult {
  /** The edits, or their parts, that were not applied because another device changed the same. */
  problems: Problem[]
  /** The number of records that were written. */
  written: number
  /** Pass it to `undo` to take the edits back; null if nothing was written. */
  saved: Saved | null
  /** The records that were read, as they are afterwards. */
  records: SyncRecord[]
}

/** How often edits are applied to what others have changed meanwhile. */
const maxAttempts = 5
/** A transaction of this many requests fits into every bridge. */
const alwaysFits = 10
/** Firefox itself uploads at most 2 MB at once. */
const maxBytes = 1_500_000

/** Edits, or how to decide on them from the bookmarks that there are; what they add must always have the same ids then. */
export type Edits = readonly (Edit | RecordEdit)[] | ((tree: Tree) => Edit[])

/**
 * Applies edits to what is stored now, and writes the result in one transaction. If a record has changed meanwhile, reads again and applies
 * the same edits to that, five times at most. Rejects with `ClientError`: nothing was written then, unless its message says so.
 */
export async function save(
  client: EditClient,
  given: Edits,
  { collection = 'bookmarks', shown, onWrite, wasStored = false, signal }: SaveOptions = {},
): Promise<SaveResult> {
  const model = modelOf(collection)
  const fixed = typeof given === 'function' ? null : model.complete(given)
  const savings = new Savings(client, collection)
  let base = shown && model.read(shown)
  let records: Map<string, SyncRecord> | null = null
  let written = 0
  let lost: unknown = null
  /** The number of records that fits into the storage's transaction, once it has refused more. */
  let limit = Infinity
  for (let attempts = 0; attempts < maxAttempts;) {
    // A lost response is followed by a look at what is there: the edits are applied to that.
    records ??= await model.load(client, fixed ?? [], signal).catch((error: unknown) => {
      throw lost ?? error
    })
    savings.settle(records)
    const state = model.read(records.values())
    base ??= state
    const edits = fixed ?? model.complete((given as (state: Tree) => Edit[])(state))
    const { problems, writes } = model.plan(state, edits, base, wasStored)
    if (!wasStored) refuseInvalid(problems)
    const isDivisible = wasStored || model.isDivisible(edits)
    const divide = () => model.divided(edits, state, base!)
    const fit = { state, base, wasStored, writes, limit, effect: effectOf(written) }
    const part = await fitting(client, model, isDivisible ? divide : null, fit)
    const result = () => ({ problems, written, saved: savings.saved, records: [...records!.values()] })
    if (part.length === 0) return result()
    signal?.throwIfAborted()
    const requests = await Promise.all(part.map((write) => requestOf(client, collection, write)))
    const saved = await savings.add(requests, records)
    await onWrite?.(saved, written)
    let answer: Awaited<ReturnType<EditClient['strictTransaction']>>
    try {
      answer = await client.strictTransaction(requests)
    } catch (error) {
      if (!(error instanceof ClientError && error.mayBeApplied)) throw explained(error, requests, written)
      lost = error
      attempts += 1
      records = null
      continue
    }
    const { responses, isStrict } = answer
    const accepted = responses.filter(({ status }) => status === 200).length
    // A strict transaction that was refused has written nothing, whatever it answers for each request.
    if (accepted < responses.length) {
      if (!isStrict) written += accepted
      const isTooLarge = part.length > 1 && responses.every(({ status }) => status === 413)
      // A part that is larger can't be divided further.
      if (isDivisible && isTooLarge && part.length <= limit) {
        limit = part.length >> 1
        continue
      }
      refuseOthers(responses, part, written > 0, collection)
      attempts += 1
      records = null
      continue
    }
    lost = null
    attempts = 0
    written += part.length
    for (const [index, { id, record }] of part.entries()) {
      const stored = { ...responses[index]!.body.data!, id, payload: requests[index]!.data!.payload }
      records.set(id, { collection, stored, clear: record, problem: null })
    }
    savings.settle(records)
    if (part.length === writes.length) return result()
  }
  if (lost) throw lost
  throw new ClientError(
    `${effectOf(written)}: other devices changed the same records ${maxAttempts} times meanwhile. Run it again`,
    { status: 412, mayBeApplied: written > 0 },
  )
}

/** For a message. */
function effectOf(written: number): string {
  return written > 0 ? 'Only a part was written' : 'Nothing was written'
}

/**
 * Takes back saved edits, except for what was changed since; in several transactions if they do not fit into one, as the edits may have been.
 * Rejects with `ClientError`.
 */
export async function undo(
  client: EditClient,
  saved: Saved,
  options: Omit<SaveOptions, 'collection' | 'shown'> = {},
): Promise<SaveResult> {
  const { edits, shown } = await undoing(client, saved, options.signal)
  return save(client, edits, { ...options, collection: saved.collection, shown, wasStored: true })
}

/** Reads all bookmarks as a tree. */
export async function loadTree(client: EditClient, signal?: AbortSignal): Promise<Tree> {
  const records: SyncRecord[] = []
  for await (const record of client.collection('bookmarks').records({ signal })) records.push(record)
  return readTree(records)
}

function refuseInvalid(problems: Problem[]): void {
  const invalid = problems.filter(({ code }) => code === 'invalid')
  if (invalid.length > 0) throw new ClientError(invalid.map(({ message }) => message).join('\n'))
}

/**
 * The writes that one transaction takes: all of them, or as many as belong to the first edits of `divide`. Rejects with `ClientError` if they
 * must not be divided.
 */
async function fitting<State>(
  client: EditClient,
  model: Model<State>,
  divide: (() => readonly (Edit | RecordEdit)[]) | null,
  { state, base, wasStored, writes, limit, effect }: Fitting<State>,
): Promise<RecordWrite[]> {
  if (writes.length <= Math.min(alwaysFits, limit)) return writes
  const { maxRequests } = await client.info()
  const most = Math.min(maxRequests, limit)
  const fits = (some: RecordWrite[]) => some.length <= most && bytesOf(some) <= maxBytes
  const planOf = (edits: readonly (Edit | RecordEdit)[]) => model.plan(state, edits, base, wasStored).writes
  if (fits(writes)) return writes
  let part = writes
  if (divide !== null) {
    const divided = divide()
    let [low, high] = [1, divided.length]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (fits(planOf(divided.slice(0, middle)))) low = middle
      else high = middle - 1
    }
    // Edits that change nothing may come before one that does.
    for (part = []; part.length === 0; low += 1) part = planOf(divided.slice(0, low))
  }
  if (part.length <= maxRequests) return part
  throw new ClientError(
    `${effect}: this takes ${part.length} requests in one transaction, and the bridge allows ${maxRequests} (service.batch_max_requests). Change fewer items at once`,
    { status: 413 },
  )
}

interface Fitting<State> {
  state: State
  base: State
  wasStored: boolean
  writes: RecordWrite[]
  limit: number
  /** What was written before, for a message. */
  effect: string
}

/** The size of the encrypted records, roughly. */
function bytesOf(writes: RecordWrite[]): number {
  return writes.reduce((bytes, { record }) => bytes + 300 + 1.4 * JSON.stringify(record).length, 0)
}

async function requestOf(
  client: EditClient,
  collection: string,
  { id, record, version }: RecordWrite,
): Promise<TransactionRequest> {
  return {
    method: 'PUT',
    collection,
    id,
    headers: conditionOn(version),
    data: { payload: await client.encrypt(collection, record) },
  }
}

/** Throws `ClientError` for a refusal that applying the edits again can't help. */
function refuseOthers(
  responses: TransactionResponse[],
  part: RecordWrite[],
  isPartly: boolean,
  collection: string,
): void {
  const effect = isPartly ? 'Only a part was written' : 'Nothing was written'
  if (responses.length > alwaysFits && responses.every(({ status }) => status === 413))
    throw new ClientError(
      `${effect}: the storage does not take ${responses.length} records at once. Change fewer items at once`,
      { status: 413, mayBeApplied: isPartly },
    )
  const index = responses.findIndex(({ status }) => status !== 200 && status !== 412)
  if (index < 0) return
  const { status, body } = responses[index]!
  const { id, record } = part[index]!
  const what =
    status === 405
      ? `writes to ${collection} are not enabled on this bridge`
      : reasonOf(status, id, record, body)
  throw new ClientError(`${effect}: ${what}`, { status, mayBeApplied: isPartly })
}

function reasonOf(
  status: number,
  id: string,
  record: ClearRecord,
  { message = '' }: { message?: string },
): string {
  if (status === 413 && Array.isArray(record.children))
    return `the folder ${JSON.stringify(record.title ?? id)} is too large for the storage with ${record.children.length} entries. Choose another one`
  return `${JSON.stringify(id)} was refused: ${status} ${message}`.trimEnd()
}

/** Says how large a refused transaction was, and whether earlier ones were written. */
function explained(error: unknown, requests: TransactionRequest[], written: number): unknown {
  if (!(error instanceof ClientError)) return error
  const { status, errno, field } = error
  const mayBeApplied = written > 0
  const size = `${requests.length} records of ${JSON.stringify(requests).length} bytes are too large for one transaction of this bridge`
  const reason =
    status === 413 ? `${size} (service.max_request_bytes). Change fewer items at once` : error.message
  return new ClientError(`${effectOf(written)}: ${reason}`, {
    status,
    errno,
    field,
    mayBeApplied,
    cause: error,
  })
}
