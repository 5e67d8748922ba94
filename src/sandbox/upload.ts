import { code, Refusal } from './http.ts'
import type { Limits, Quirks } from './options.ts'
import { formatSeconds } from './timestamps.ts'

const largestUint32 = 4_294_967_295

/** The records of an upload, parted into those that may be stored and the reasons why others may not. */
export interface Upload {
  valid: Bso[]
  failed: Record<string, string>
}

/** The rules that bodies are read by. */
interface UploadRules {
  collection: string
  limits: Limits
  quirks: Quirks
}

/** The media types that a body may have; `text/plain` is read as JSON. */
type BodyType = 'application/json' | 'text/plain' | 'application/newlines'

/**
 * The type of a body; throws 415 for an unknown or, except on the Python server, a missing one. A PUT of `text/plain`
 * with a parameter is accepted here and then not recognised as JSON, which makes it a bad record.
 */
export function readBodyType(request: Request, quirks: Quirks): BodyType {
  const header = request.headers.get('Content-Type') ?? (quirks.isPython ? 'application/json' : '')
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim().toLowerCase())
  if (type !== 'application/json' && type !== 'text/plain' && type !== 'application/newlines') {
    throw new Refusal(415)
  }
  const isLost = type === 'application/newlines' || (type === 'text/plain' && parameters.length > 0)
  if (request.method === 'PUT' && isLost && !quirks.isPython) throw new Refusal(400, code.invalidRecord)
  return type
}

/** The body as text; throws 413 when it is longer than a request may be. */
export async function readBody(request: Request, { max_request_bytes: most }: Limits): Promise<string> {
  if (Number(request.headers.get('Content-Length') ?? 0) > most) throw new Refusal(413, code.tooLarge)
  const bytes = await request.arrayBuffer()
  if (bytes.byteLength > most) throw new Refusal(413, code.tooLarge)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid()
  }
}

/** The body of a PUT; throws 400. Its id, if any, only has to look like one: the path names the record. */
export function readItemBody(text: string, rules: UploadRules): BsoFields {
  if (hasRepeatedField(text)) throw invalid()
  const value = parseJson(text, rules.quirks)
  const fields = readBsoFields(value, rules.quirks)
  if (typeof fields === 'string' || !isObject(value) || !isIdOrAbsent(value['id'])) throw invalid()
  if (payloadBytes(fields) > rules.limits.max_record_payload_bytes) throw invalid()
  refuseZeroIv(fields, rules.collection)
  return fields
}

/** The body of a POST. Throws 400 when it isn't a list of identified objects; other faults concern one record only. */
export function readUpload(text: string, type: BodyType, rules: UploadRules): Upload {
  const values =
    type === 'application/newlines' ? parseLines(text, rules.quirks) : parseJson(text, rules.quirks)
  if (!Array.isArray(values)) throw invalid()
  const upload: Upload = { valid: [], failed: {} }
  const seen = new Set<string>()
  let totalBytes = 0
  for (const value of values as unknown[]) {
    const id = isObject(value) ? value['id'] : undefined
    if (typeof id !== 'string' || seen.has(id)) throw invalid()
    seen.add(id)
    const fields = idPattern.test(id) ? readBsoFields(value, rules.quirks) : 'invalid bso: id'
    if (typeof fields === 'string') {
      upload.failed[id] = fields
      continue
    }
    refuseZeroIv(fields, rules.collection)
    const bytes = payloadBytes(fields)
    totalBytes += bytes
    const fits = bytes <= rules.limits.max_record_payload_bytes && totalBytes <= rules.limits.max_post_bytes
    if (fits) upload.valid.push({ id, ...fields })
    else upload.failed[id] = 'retry bytes'
  }
  for (const { id } of upload.valid.splice(rules.limits.max_post_records)) upload.failed[id] = 'retry bso'
  return upload
}

/** Checks the sizes that a client announces in X-Weave headers, those of batches on any upload; throws 400. */
export function checkAnnounced(headers: Headers, limits: Limits): void {
  const announced: [name: string, most: number][] = [
    ['X-Weave-Records', limits.max_post_records],
    ['X-Weave-Bytes', limits.max_post_bytes],
    ['X-Weave-Total-Records', limits.max_total_records],
    ['X-Weave-Total-Bytes', limits.max_total_bytes],
  ]
  for (const [name, most] of announced) {
    const text = headers.get(name)
    if (text === null) continue
    if (!/^\+?\d{1,10}$/.test(text) || Number(text) > largestUint32) throw new Refusal(400)
    if (Number(text) > most) throw new Refusal(400, code.tooLarge)
  }
}

function parseJson(text: string, quirks: Quirks): unknown {
  const unreadable = new Refusal(400, quirks.isPython ? code.json : code.invalidRecord)
  if (!quirks.isPython && hasLoneSurrogate(text)) throw unreadable
  try {
    return JSON.parse(text, quirks.isPython ? undefined : readNumber)
  } catch {
    throw unreadable
  }
}

// What is written as 1.0 or as -0 is no integer for the server.
function readNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number') return value
  return /^(0|-?[1-9]\d*)$/.test(context?.source ?? '') ? value : Number.NaN
}

// A name that is repeated refuses a PUT; in an upload of several records the last one counts.
function hasRepeatedField(text: string): boolean {
  const names = text.match(/"(?:id|payload|sortindex|ttl)"\s*:/g) ?? []
  return new Set(names.map((name) => name.slice(0, name.lastIndexOf('"')))).size < names.length
}

// Half a surrogate pair can be written as an escape only. Escaped backslashes are skipped pairwise.
function hasLoneSurrogate(text: string): boolean {
  if (!/\\u[dD][89a-fA-F]/.test(text)) return false
  const escapes = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F]|\\./g
  return (text.match(escapes) ?? []).some((escape) => escape.length === 4)
}

function parseLines(text: string, quirks: Quirks): unknown[] {
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n')
  return lines.map((line) => parseJson(line, quirks))
}

function isIdOrAbsent(id: unknown): boolean {
  return id === undefined || id === null || (typeof id === 'string' && idPattern.test(id))
}

function refuseZeroIv({ payload = '' }: BsoFields, collection: string): void {
  if (collection === 'crypto' && hasZeroIv(payload)) throw invalid()
}

function invalid(): Refusal {
  return new Refusal(400, code.invalidRecord)
}

/** The fields of a record that a client may set; an absent one keeps its stored value. */
export interface BsoFields {
  payload?: string
  sortindex?: number
  /** Seconds. */
  ttl?: number
}

/** A record on its way in. */
export interface Bso extends BsoFields {
  id: string
}

/** A record as stored. */
export interface StoredRecord {
  id: string
  /** Milliseconds, a multiple of 10. */
  modified: number
  payload: string
  sortindex: number | null
  /** Milliseconds; null when it never expires. */
  expiry: number | null
}

/** Printable ASCII, 1 to 64 characters. */
export const idPattern = /^[ -~]{1,64}$/

const largestInteger = 999_999_999
const pythonLongestTtlSeconds = 31_536_000
const knownFields = new Set(['id', 'collection', 'modified', 'payload', 'sortindex', 'ttl'])

/** The settable fields of a JSON object, or why they can't be set; see Sync 1.5 API, "Basic Storage Object". */
function readBsoFields(value: unknown, quirks: Quirks): BsoFields | string {
  if (!isObject(value)) return 'invalid json'
  const unknown = Object.keys(value).find((name) => !knownFields.has(name))
  if (unknown !== undefined) return `unknown field ${unknown}`
  const fields: BsoFields = {}
  const { payload, sortindex, ttl } = value
  if (isGiven(payload)) {
    if (typeof payload !== 'string') return 'invalid json'
    fields.payload = payload
  }
  if (isGiven(sortindex)) {
    const index =
      quirks.isPython && typeof sortindex === 'string' ? Number(sortindex || Number.NaN) : sortindex
    if (!isInteger(index)) return 'invalid json'
    if (Math.abs(index) > largestInteger) return 'invalid bso: sortindex'
    fields.sortindex = index
  }
  if (isGiven(ttl)) {
    if (!isInteger(ttl) || ttl < 0) return 'invalid json'
    if (ttl > largestInteger && !quirks.isPython) return 'invalid bso: ttl'
    // The Python server has no use for lives of more than a year and keeps silent about it.
    if (!quirks.isPython || ttl <= pythonLongestTtlSeconds) fields.ttl = ttl
  }
  return fields
}

/** True for JSON objects, not for arrays and null. */
function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * True for a payload encrypted with an initialisation vector of zeros, which a broken client once uploaded into the
 * crypto collection, locking its user out.
 */
function hasZeroIv(payload: string): boolean {
  return /IV":\s*"AAAAAAAAAAAAAAAAAAAAAA=="/.test(payload)
}

/** A record as JSON. The expiry isn't told, and neither is a sortindex that was never set. */
export function formatRecord(
  { id, modified, sortindex }: Pick<StoredRecord, 'id' | 'modified' | 'sortindex'>,
  quotedPayload: string,
): string {
  const index = sortindex === null ? '' : `,"sortindex":${sortindex}`
  return `{"id":${JSON.stringify(id)},"modified":${formatSeconds(modified)},"payload":${quotedPayload}${index}}`
}

/** The size that limits and quotas count: bytes in UTF-8. */
export function payloadBytes({ payload }: BsoFields): number {
  return payload === undefined ? 0 : Buffer.byteLength(payload)
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value)
}
