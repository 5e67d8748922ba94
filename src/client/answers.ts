/** Reads what a bridge answers. Another server may answer anything: what does not have the documented form is a `ClientError`. */
import { ClientError } from './errors.ts'
import { fieldsOf, isFields, numberOf, textOf } from './fields.ts'

/** A record as the bridge returns it. */
export interface StoredRecord {
  id: string
  /** In ms since 1970. */
  last_modified: number
  payload?: string
  sortindex?: number
}

/** A collection and its timestamp. */
export interface CollectionInfo {
  name: string
  /** In ms since 1970. */
  lastModified: number
}

/** The error for an answer that is not one of a bridge. */
export function unexpected(what = '', cause?: unknown): ClientError {
  const detail = what === '' ? 'is this its address?' : `it has ${what}`
  return new ClientError(`The bridge sent an unexpected response: ${detail}`, { cause })
}

/** Reads the records of a list. */
export function readRecords(body: unknown): StoredRecord[] {
  const { data } = fieldsOf(body)
  if (!Array.isArray(data)) throw unexpected('no list of records')
  if (!data.every(isStoredRecord)) throw unexpected('a record without id or timestamp')
  return data
}

/** Reads a single record. */
export function readRecord(body: unknown): StoredRecord {
  const { data } = fieldsOf(body)
  if (isStoredRecord(data)) return data
  throw unexpected('a record without id or timestamp')
}

function isStoredRecord(value: unknown): value is StoredRecord {
  if (!isFields(value)) return false
  const { id, last_modified, payload = '', sortindex = 0 } = value
  return (
    typeof id === 'string' &&
    isTimestamp(last_modified) &&
    typeof payload === 'string' &&
    typeof sortindex === 'number'
  )
}

/** The end of what a `Date` can represent. */
const endOfTimeMs = 8.64e15

function isTimestamp(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= endOfTimeMs
}

/** Reads the collections of an account. */
export function readCollections(body: unknown, headers: Headers): CollectionInfo[] {
  const infos = readRecords(body)
  requireAll(headers, infos.length)
  return infos.map(({ id, last_modified }) => ({ name: id, lastModified: last_modified }))
}

/** Reads the number of records. */
export function readTotal(headers: Headers): number {
  const total = headers.get('Total-Records') ?? ''
  if (/^\d{1,15}$/.test(total)) return Number(total)
  throw unexpected('no number of records')
}

/** Throws `ClientError` if a list has fewer records than its headers say. */
export function requireAll(headers: Headers, count: number): void {
  if (headers.has('Total-Records') && count < readTotal(headers))
    throw unexpected('fewer records than it says')
}

/** Reads the ETag, which has a number of ms; proxies that compress add `W/` or `-gzip`. 0 if a proxy removed it. */
export function readTimestamp(headers: Headers): number {
  const timestamp = Number(/\d+/.exec(headers.get('ETag') ?? '')?.[0] ?? 0)
  if (isTimestamp(timestamp)) return timestamp
  throw unexpected('no valid ETag')
}

/** Reads the query of the next page, or null at the end. The rest of the URL is not used, so the token is sent only to this bridge. */
export function readNextQuery(headers: Headers): string | null {
  const next = headers.get('Next-Page')
  if (next === null) return null
  if (URL.canParse(next) && new URL(next).search !== '') return new URL(next).search
  throw unexpected('a Next-Page that is not an address')
}

/** What the root view says about the bridge. */
export interface BridgeInfo {
  version: string
  /** Maximum requests in a transaction. */
  maxRequests: number
}

/** Reads the root view. */
export function readInfo(body: unknown): BridgeInfo {
  const { project_version, settings } = fieldsOf(body)
  const maxRequests = numberOf(fieldsOf(settings).batch_max_requests)
  return {
    version: textOf(project_version),
    maxRequests: Number.isSafeInteger(maxRequests) && maxRequests > 0 ? maxRequests : 25,
  }
}

/** The response to one request of a transaction. */
export interface TransactionResponse {
  status: number
  path: string
  headers: Record<string, string>
  body: { data?: StoredRecord; message?: string; details?: unknown }
}

/** What the response to one request of a transaction must fit. */
interface Requested {
  method: string
  /** Without the version of the protocol. */
  path: string
  id: string
}

/** The statuses of a request that succeeded. */
const successes: Record<string, number[]> = { GET: [200, 304], PUT: [200], DELETE: [200, 204] }

/** Reads the responses of a transaction; null unless there is one for each of its requests, in the same order. */
export function readResponses(body: unknown, requested: readonly Requested[]): TransactionResponse[] | null {
  const { responses } = fieldsOf(body)
  if (!Array.isArray(responses) || responses.length !== requested.length) return null
  return responses.every((each, index) => isResponseTo(each, requested[index]!)) ? responses : null
}

function isResponseTo(value: unknown, { method, path, id }: Requested): value is TransactionResponse {
  if (!isResponse(value) || value.path.replace(/^\/v\d+/, '') !== path) return false
  const { status, body } = value
  // A transaction with a request that failed with 5xx fails as a whole.
  if (status >= 400 && status < 500) return true
  return successes[method]!.includes(status) && (body.data === undefined || body.data.id === id)
}

function isResponse(value: unknown): value is TransactionResponse {
  const { status, path, headers, body } = fieldsOf(value)
  if (!Number.isInteger(status) || typeof path !== 'string' || !isFields(headers) || !isFields(body))
    return false
  const { data, message } = body
  return (
    Object.values(headers).every((text) => typeof text === 'string') &&
    ((data === undefined && status !== 200) || isStoredRecord(data)) &&
    (message === undefined || typeof message === 'string')
  )
}
