import { rejectedRecord, type ServiceError } from '../domain/errors.ts'
import type { SyncRecord } from '../domain/record.ts'
import { timestamp, type Timestamp } from '../domain/timestamp.ts'
import { parseJson, textOf, unusable, type UpstreamResponse } from './response.ts'
import type { RecordWrite } from '../domain/record-storage.ts'
import type { StorageRead } from './signed-call.ts'

const maxRecordBytes = 16 * 1024 * 1024

/** Reads a Basic Storage Object from its parsed JSON; null if invalid. See Sync 1.5 API. */
export function readBso(value: unknown): SyncRecord | null {
  if (typeof value !== 'object' || value === null) return null
  const { id, modified, payload, sortindex } = value as Record<string, unknown>
  const lastModified = readModified(modified)
  if (typeof id !== 'string' || id === '' || lastModified === null) return null
  if (payload !== undefined && payload !== null && typeof payload !== 'string') return null
  const record: SyncRecord = { id, lastModified, payload: payload ?? '' }
  if (sortindex === undefined || sortindex === null) return record
  if (!Number.isSafeInteger(sortindex)) return null
  record.sortindex = sortindex as number
  return record
}

/** The request for one record. */
export function recordRequest(collection: string, id: string): StorageRead {
  return {
    path: ['storage', collection, id],
    subject: 'record',
    mayBeMissing: true,
    maxBytes: maxRecordBytes,
  }
}

/** Reads the record from a response, with its exposed JSON if that is at hand; null if no record has exactly this id. */
export function readRecordResponse(
  response: UpstreamResponse,
  id: string,
): { record: SyncRecord; json: string | null } | null {
  if (response.status === 404) return null
  const text = textOf(response)
  const value = text === undefined ? undefined : parseJson(text)
  const record = readBso(value)
  if (text === undefined || !record) throw unusable('the body is not a record')
  if (record.id === id) return { record, json: toExposedText(text, value as object) }
  if (fold(record.id) !== fold(id)) throw unusable('the body is a different record')
  return null
}

/** Some storages treat such ids as equal and return the record in the spelling of its last writer. */
function fold(id: string): string {
  return id.trimEnd().toLowerCase()
}

const modifiedToken = '"modified":'
const secondsPattern = /[1-9]\d{0,10}\.\d\d[,}]/y

/**
 * Converts the text of a Basic Storage Object into exposed JSON by replacing its timestamp, at a tenth of the cost of serializing `value`.
 * Null if more than the timestamp differs. `value` is the parsed text, valid for `readBso`.
 */
export function toExposedText(text: string, value: object): string | null {
  const { payload, sortindex }: { payload?: unknown; sortindex?: unknown } = value
  if (typeof payload !== 'string' || sortindex === null) return null
  // The other two fields are `id` and `modified`; no further field may be exposed.
  if (Object.keys(value).length !== (sortindex === undefined ? 3 : 4)) return null
  // The token can't occur inside a JSON string, where quotes are escaped.
  const tokenAt = text.indexOf(modifiedToken)
  if (tokenAt === -1 || text.indexOf(modifiedToken, tokenAt + 1) !== -1) return null
  const from = tokenAt + modifiedToken.length
  secondsPattern.lastIndex = from
  if (!secondsPattern.test(text)) return null
  const to = secondsPattern.lastIndex - 1
  const milliseconds = `${text.slice(from, to - 3)}${text.slice(to - 2, to)}0`
  return `${text.slice(0, tokenAt)}"last_modified":${milliseconds}${text.slice(to)}`
}

const maxModifiedSeconds = 99_999_999_999

/** Converts seconds from a JSON number, exact for two decimals; null if invalid. */
export function readModified(value: unknown): Timestamp | null {
  if (typeof value !== 'number' || !(value >= 0 && value <= maxModifiedSeconds)) return null
  return timestamp(Math.round(value * 1000))
}

/** Formats records as a JSON array of Basic Storage Objects, without the fields that keep their stored value. */
export function writeBsos(records: RecordWrite[]): string {
  return JSON.stringify(
    records.map(({ id, payload, sortindex, ttlSeconds: ttl }) => ({ id, payload, sortindex, ttl })),
  )
}

/** The result of an upload of several records. */
export interface UploadResult {
  timestamp: Timestamp | null
  batch: string | null
  rejected: Map<string, ServiceError>
  /** Whether the storage's database failed, which it reports for every record. */
  hasDatabaseFailed: boolean
}

/**
 * Reads the response to an upload. An id listed neither as success nor as failure counts as failed; see Sync 1.5 API,
 * `POST storage/<collection>`.
 */
export function readUploadResult(value: unknown, records: { id: string }[]): UploadResult {
  const { modified, batch, success, failed = {} } = (value ?? {}) as Record<string, unknown>
  if (!Array.isArray(success) || typeof failed !== 'object' || failed === null)
    throw unusable('the result of the upload is missing or invalid')
  const stored = new Set<unknown>(success)
  const rejected: UploadResult['rejected'] = new Map()
  for (const { id } of records) if (!stored.has(id)) rejected.set(id, rejectedRecord(400))
  let hasDatabaseFailed = false
  for (const [id, reason] of Object.entries(failed)) {
    hasDatabaseFailed ||= reason === 'db error'
    rejected.set(id, rejectedRecord(JSON.stringify(reason).includes('bytes') ? 413 : 400))
  }
  const name = typeof batch === 'string' || typeof batch === 'number' ? String(batch) : null
  return { timestamp: readModified(modified), batch: name, rejected, hasDatabaseFailed }
}
