import type { RecordWrite, StorageLimits } from '../domain/record-storage.ts'
import type { Change } from './simulate.ts'

/** What has still to be done to one collection, in this order. */
export interface CollectionPlan {
  /** Records to delete before they are written anew, each with the operation that made the old one go. */
  resets: Map<string, number>
  puts: RecordWrite[]
  /** Last, for a deletion is the hardest thing to take back. */
  deletes: string[]
}

/** Sorts changes into the order in which they are carried out. */
export function planChanges(changes: Map<string, Change>): CollectionPlan {
  const plan: CollectionPlan = { resets: new Map(), puts: [], deletes: [] }
  for (const [id, change] of changes) {
    if (change.kind === 'delete') {
      plan.deletes.push(id)
      continue
    }
    plan.puts.push(change.write)
    if (change.resetAt !== null) plan.resets.set(id, change.resetAt)
  }
  return plan
}

/** What every storage takes in one upload, also those that never say what they take. */
export const smallestLimits: StorageLimits = {
  maxRequestBytes: 1_048_576,
  maxPostBytes: 1_000_000,
  maxPostRecords: 100,
  maxRecordPayloadBytes: 262_144,
  batch: null,
}

/** Whether any storage takes the records in one upload, so that its limits needn't be asked for: one short record. */
export function fitsAnyStorage(records: { payload?: string }[]): boolean {
  return (
    records.length <= 1 &&
    records.every(({ payload = '' }) => Buffer.byteLength(payload) <= smallestLimits.maxRecordPayloadBytes)
  )
}

/** Splits records into uploads that the storage takes. A record that is too long by itself gets its own. */
export function splitIntoUploads(records: RecordWrite[], limits: StorageLimits): RecordWrite[][] {
  const uploads: RecordWrite[][] = []
  let postBytes = 0
  let requestBytes = 0
  for (const record of records) {
    const payloadBytes = Buffer.byteLength(record.payload ?? '')
    // An upload names the ttl more briefly than we do, so this is no less than what is sent.
    const textBytes = Buffer.byteLength(JSON.stringify(record)) + 2
    const current = uploads.at(-1)
    const fits =
      current &&
      current.length < limits.maxPostRecords &&
      postBytes + payloadBytes <= limits.maxPostBytes &&
      requestBytes + textBytes <= limits.maxRequestBytes
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

/** Whether the storage stages, and one staged batch can hold the records. */
export function fitsOneBatch(records: RecordWrite[], { batch }: StorageLimits): boolean {
  if (!batch) return false
  const bytes = sum(records.map(({ payload = '' }) => Buffer.byteLength(payload)))
  return records.length <= batch.maxTotalRecords && bytes <= batch.maxTotalBytes
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
