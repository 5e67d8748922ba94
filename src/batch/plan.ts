import type { RecordWrite, StorageLimits } from '../domain/record-storage.ts'

/** What one collection still needs: one upload, or one deletion. */
export interface CollectionPlan {
  /** What is written, records to be deleted included: a write with a ttl of 0 is a deletion that commits together with the others. */
  writes: RecordWrite[]
  /** The writes in portions that the storage accepts. */
  uploads: RecordWrite[][]
  /** The records to be deleted. */
  deletes: string[]
}

/** Limits are null while they are not known. */
export function planChanges(
  changes: Map<string, RecordWrite | null>,
  limits: StorageLimits | null,
): CollectionPlan {
  const deletes: string[] = []
  const writes: RecordWrite[] = []
  for (const [id, change] of changes) {
    if (change === null) deletes.push(id)
    else writes.push(change)
  }
  for (const id of deletes) writes.push(deletionOf(id))
  return { writes, uploads: splitIntoUploads(writes, limits), deletes }
}

/** The write that deletes a record. Its row stays, expired, until it is removed. */
export function deletionOf(id: string): RecordWrite {
  return { id, ttlSeconds: 0 }
}

/** What every storage accepts in one upload, those included that announce no limits. */
const smallestLimits: StorageLimits = {
  maxRequestBytes: 1_048_576,
  maxPostBytes: 1_000_000,
  maxPostRecords: 100,
  maxRecordPayloadBytes: 262_144,
  batch: null,
}

/**
 * Whether every storage accepts the records in one upload, so that its limits need not be fetched: true for one short
 * record.
 */
export function fitsAnyStorage(records: { payload?: string }[]): boolean {
  const [{ payload = '' } = {}] = records
  return records.length <= 1 && Buffer.byteLength(payload) <= smallestLimits.maxRecordPayloadBytes
}

/** Splits records into uploads that the storage accepts. A record that is too long gets an upload of its own. */
export function splitIntoUploads(records: RecordWrite[], limits: StorageLimits | null): RecordWrite[][] {
  const { maxRequestBytes, maxPostBytes, maxPostRecords } = limits ?? smallestLimits
  // Printing every record would cost as much as the upload, so those that fit in any case are not measured.
  const mostBytes = sum(records.map(mostTextBytes))
  const fitsOne = records.length <= maxPostRecords && mostBytes <= Math.min(maxRequestBytes, maxPostBytes)
  if (fitsOne) return records.length === 0 ? [] : [records]
  const uploads: RecordWrite[][] = []
  let postBytes = 0
  let requestBytes = 0
  for (const record of records) {
    const payloadBytes = Buffer.byteLength(record.payload ?? '')
    // The upload's name for the ttl is shorter than ours, so this is no less than what is sent.
    const textBytes = Buffer.byteLength(JSON.stringify(record)) + 2
    const current = uploads.at(-1)
    const fits =
      current &&
      current.length < maxPostRecords &&
      postBytes + payloadBytes <= maxPostBytes &&
      requestBytes + textBytes <= maxRequestBytes
    if (fits) {
      current.push(record)
      postBytes += payloadBytes
      requestBytes += textBytes
    } else {
      uploads.push([record])
      postBytes = payloadBytes
      requestBytes = textBytes + 2
    }
  }
  return uploads
}

/** No record takes more: names and numbers have 100 bytes at most, and a character that JSON escapes has 6. */
function mostTextBytes({ id, payload = '' }: RecordWrite): number {
  return 100 + 6 * (id.length + payload.length)
}

/** Whether the storage stages, and one staged batch can hold the records. */
export function fitsOneBatch(records: RecordWrite[], { batch }: StorageLimits): boolean {
  if (!batch) return false
  const bytes = sum(records.map(({ payload = '' }) => Buffer.byteLength(payload)))
  return records.length <= batch.maxTotalRecords && bytes <= batch.maxTotalBytes
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
