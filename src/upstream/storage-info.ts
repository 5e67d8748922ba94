import { canonicalCollection } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { jsonOf, lastModifiedOf, unusable } from './response.ts'
import { readModified } from './bso.ts'
import type { CollectionTimestamps, StorageLimits } from '../domain/record-storage.ts'
import type { StorageCalls, StorageRead } from './signed-call.ts'

const maxInfoBytes = 1024 * 1024
/** How long the limits of a node are cached. */
const ttlMs = 600_000

/** Reads the timestamps of all collections. Names that are not canonical are left out, because they can't be requested. */
export async function readCollectionTimestamps(calls: StorageCalls): Promise<CollectionTimestamps> {
  const response = await calls.read(infoRequest('collections'))
  const timestamp = lastModifiedOf(response.headers)
  const collections = new Map<string, Timestamp>()
  for (const [name, seconds] of entriesOf(jsonOf(response))) {
    const lastModified = readModified(seconds)
    if (lastModified === null) throw unusable('an invalid timestamp')
    if (canonicalCollection(name) === name) collections.set(name, lastModified)
  }
  return { timestamp, collections }
}

/** Reads the number of records in a collection. */
export async function readCount(calls: StorageCalls, collection: string): Promise<number> {
  const response = await calls.read(infoRequest('collection_counts'))
  const count = new Map(entriesOf(jsonOf(response))).get(collection) ?? 0
  if (!Number.isSafeInteger(count) || (count as number) < 0) throw unusable('an invalid record count')
  return count as number
}

function infoRequest(name: string): StorageRead {
  return { path: ['info', name], subject: 'account', maxBytes: maxInfoBytes }
}

function entriesOf(value: unknown): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw unusable('not a JSON object')
  return Object.entries(value)
}

/** Reads the limits of the user's storage node; see Sync 1.5 API, `info/configuration`. */
export async function readLimits(calls: StorageCalls): Promise<StorageLimits> {
  const { limitsByNode, monotonicNow } = calls.context
  // All users of a node share its limits; the last segment of an endpoint is the user id.
  const node = calls.endpoint.slice(0, calls.endpoint.lastIndexOf('/'))
  const known = limitsByNode.get(node)
  if (known && known.untilMs > monotonicNow()) return known.limits
  const response = await calls.read({ ...infoRequest('configuration'), mayBeMissing: true })
  const values = response.status === 404 ? {} : Object.fromEntries(entriesOf(jsonOf(response)))
  const own = Object.entries(values.collections ?? {}).map(
    ([name, overrides]) => [name, toLimits({ ...values, ...overrides })] as const,
  )
  const limits = { ...toLimits(values), collections: new Map(own) }
  limitsByNode.set(node, { limits, untilMs: monotonicNow() + ttlMs })
  return limits
}

/** Fills absent limits with those of servers that lack this resource. */
function toLimits(values: Record<string, unknown>): StorageLimits {
  const maxRequestBytes = readLimit(values.max_request_bytes) ?? 266_240
  const maxTotalBytes = readLimit(values.max_total_bytes)
  const maxTotalRecords = readLimit(values.max_total_records)
  return {
    maxRequestBytes,
    maxPostBytes: readLimit(values.max_post_bytes) ?? maxRequestBytes,
    maxPostRecords: readLimit(values.max_post_records) ?? 100,
    maxRecordPayloadBytes: readLimit(values.max_record_payload_bytes) ?? 262_144,
    batch: maxTotalBytes === null || maxTotalRecords === null ? null : { maxTotalBytes, maxTotalRecords },
  }
}

function readLimit(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : null
}
