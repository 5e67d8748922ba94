import { canonicalCollection, judgeGet } from '../domain/record.ts'
import { runBounded } from '../domain/bounded.ts'
import { jsonOf, lastModifiedOf, parseJson, textOf, unusable } from './answer.ts'
import { readBso, readModified, toExposedText } from './bso.ts'
import { unmodifiedSinceHeader } from './request.ts'
import type { GetOutcome, Precondition, SyncRecord, Timestamp } from '../domain/record.ts'
import type { CollectionTimestamps } from '../domain/record-storage.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { StorageCalls, StorageRead } from './call.ts'

const maxRecordBytes = 16 * 1024 * 1024
const maxInfoBytes = 1024 * 1024

/**
 * Reads one record and judges the precondition here. The storage would judge expired records as well, and after a failed
 * precondition the record would have to be read anyway.
 */
export async function getRecord(
  calls: StorageCalls,
  collection: string,
  id: string,
  precondition: Precondition,
): Promise<GetOutcome> {
  const found = printedRecord(await calls.read(recordRequest(collection, id)), id)
  if (!found) return { outcome: 'missing' }
  const { record, json } = found
  const outcome = judgeGet(precondition, record)
  if (json !== null && outcome.outcome === 'found') outcome.json = json
  return outcome
}

export function recordRequest(collection: string, id: string): StorageRead {
  return {
    path: ['storage', collection, id],
    subject: 'record',
    mayBeMissing: true,
    maxBytes: maxRecordBytes,
  }
}

/** The record of exactly that id in the answer to a request for it; null when there is none. */
export function recordOf(answer: UpstreamAnswer, id: string): SyncRecord | null {
  return printedRecord(answer, id)?.record ?? null
}

function printedRecord(
  answer: UpstreamAnswer,
  id: string,
): { record: SyncRecord; json: string | null } | null {
  if (answer.status === 404) return null
  const text = textOf(answer)
  const value = text === undefined ? undefined : parseJson(text)
  const record = readBso(value)
  if (text === undefined || !record) throw unusable('no record')
  if (record.id === id) return { record, json: toExposedText(text, value as object) }
  if (fold(record.id) !== fold(id)) throw unusable('another record')
  return null
}

/** Some storages take ids that differ in these ways for one; the record has the spelling of its last writer. */
function fold(id: string): string {
  return id.trimEnd().toLowerCase()
}

/**
 * Those of the ids under which somebody has written after that moment. The storage judges the condition by the row, also where it has
 * expired and is shown to nobody.
 */
export async function readRewritten(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  since: Timestamp,
): Promise<string[]> {
  const rewritten: string[] = []
  const headers = unmodifiedSinceHeader(since)
  const tasks = ids.map((id) => async () => {
    const { status } = await calls.read({ ...recordRequest(collection, id), headers })
    if (status === 412) rewritten.push(id)
  })
  await runBounded(tasks)
  return rewritten
}

/** The timestamps of all collections. Names that are not canonical can't be requested, and are left out. */
export async function readCollectionTimestamps(calls: StorageCalls): Promise<CollectionTimestamps> {
  const answer = await calls.read({
    path: ['info', 'collections'],
    subject: 'account',
    maxBytes: maxInfoBytes,
  })
  const timestamp = lastModifiedOf(answer.headers)
  const collections = new Map<string, Timestamp>()
  for (const [name, seconds] of entriesOf(jsonOf(answer))) {
    const lastModified = readModified(seconds)
    if (lastModified === null) throw unusable('a timestamp that is none')
    if (canonicalCollection(name) === name) collections.set(name, lastModified)
  }
  return { timestamp, collections }
}

/** The number of records in a collection. */
export async function readCount(calls: StorageCalls, collection: string): Promise<number> {
  const path = ['info', 'collection_counts']
  const answer = await calls.read({ path, subject: 'account', maxBytes: maxInfoBytes })
  const count = new Map(entriesOf(jsonOf(answer))).get(collection) ?? 0
  if (!Number.isSafeInteger(count) || (count as number) < 0) throw unusable('a count that is none')
  return count as number
}

function entriesOf(value: unknown): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw unusable('no object')
  return Object.entries(value)
}
