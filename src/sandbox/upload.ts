import { idPattern, payloadBytes, type Bso, type BsoFields } from './bso.ts'
import type { BodyType, Dialect } from './dialect.ts'
import type { Limits } from './limits.ts'
import { code, Refusal } from './reply.ts'

const maxUint32 = 4_294_967_295

/** The records of an upload: the valid ones, and the reasons why others failed, by id. */
export interface Upload {
  valid: Bso[]
  failed: Record<string, string>
}

/** The rules for reading a body. */
interface UploadRules {
  collection: string
  limits: Limits
  dialect: Dialect
}

/**
 * The type of a body; throws 415 if it is unknown or missing. The server accepts `text/plain` with a parameter but
 * does not recognize it as JSON, so such a PUT is an invalid record.
 */
export function readBodyType(request: Request, { missingType }: Dialect): BodyType {
  const header = request.headers.get('Content-Type') ?? missingType ?? ''
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim().toLowerCase())
  if (type !== 'application/json' && type !== 'text/plain' && type !== 'application/newlines') {
    throw new Refusal(415)
  }
  const isUnreadable = type === 'application/newlines' || (type === 'text/plain' && parameters.length > 0)
  if (request.method === 'PUT' && isUnreadable) throw new Refusal(400, code.invalidRecord)
  return type
}

/** The body as text; throws 413 if it exceeds `max_request_bytes`, 400 if it is not UTF-8. */
export async function readBody(request: Request, { max_request_bytes: max }: Limits): Promise<string> {
  if (Number(request.headers.get('Content-Length') ?? 0) > max) throw new Refusal(413, code.tooLarge)
  const bytes = await request.arrayBuffer()
  if (bytes.byteLength > max) throw new Refusal(413, code.tooLarge)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid()
  }
}

/** Parses the body of a PUT; throws 400. Its id may differ from the path, which names the record, but must be valid. */
export function readItemBody(text: string, rules: UploadRules): BsoFields {
  if (hasRepeatedField(text)) throw invalid()
  const value = rules.dialect.parseBody(text)
  const fields = readBsoFields(value)
  if (typeof fields === 'string' || !isObject(value) || !isIdOrAbsent(value['id'])) throw invalid()
  if (payloadBytes(fields) > rules.limits.max_record_payload_bytes) throw invalid()
  refuseZeroIv(fields, rules.collection)
  return fields
}

/** Parses the body of a POST. Throws 400 if it isn't a list of objects with ids; other errors affect single records. */
export function readUpload(text: string, type: BodyType, rules: UploadRules): Upload {
  const values =
    type === 'application/newlines' ? parseLines(text, rules.dialect) : rules.dialect.parseBody(text)
  if (!Array.isArray(values)) throw invalid()
  const upload: Upload = { valid: [], failed: {} }
  const seen = new Set<string>()
  let totalBytes = 0
  for (const value of values as unknown[]) {
    const id = isObject(value) ? value['id'] : undefined
    if (typeof id !== 'string' || seen.has(id)) throw invalid()
    seen.add(id)
    const fields = idPattern.test(id) ? readBsoFields(value) : 'invalid bso: id'
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

/** Checks the sizes in X-Weave headers, including those of batches, on every upload; throws 400. */
export function checkAnnounced(headers: Headers, limits: Limits): void {
  const announced: [name: string, max: number][] = [
    ['X-Weave-Records', limits.max_post_records],
    ['X-Weave-Bytes', limits.max_post_bytes],
    ['X-Weave-Total-Records', limits.max_total_records],
    ['X-Weave-Total-Bytes', limits.max_total_bytes],
  ]
  for (const [name, max] of announced) {
    const text = headers.get(name)
    if (text === null) continue
    if (!/^\+?\d{1,10}$/.test(text) || Number(text) > maxUint32) throw new Refusal(400)
    if (Number(text) > max) throw new Refusal(400, code.tooLarge)
  }
}

// A repeated name makes a PUT invalid; in an upload of several records, the last one applies.
function hasRepeatedField(text: string): boolean {
  const names = text.match(/"(?:id|payload|sortindex|ttl)"\s*:/g) ?? []
  return new Set(names.map((name) => name.slice(0, name.lastIndexOf('"')))).size < names.length
}

function parseLines(text: string, dialect: Dialect): unknown[] {
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n')
  return lines.map((line) => dialect.parseBody(line))
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

const maxInteger = 999_999_999
const knownFields = new Set(['id', 'collection', 'modified', 'payload', 'sortindex', 'ttl'])

/** The settable fields of a JSON object, or the reason why it is invalid; see Sync 1.5 API, "Basic Storage Object". */
function readBsoFields(value: unknown): BsoFields | string {
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
    if (!isInteger(sortindex)) return 'invalid json'
    if (Math.abs(sortindex) > maxInteger) return 'invalid bso: sortindex'
    fields.sortindex = sortindex
  }
  if (isGiven(ttl)) {
    if (!isInteger(ttl) || ttl < 0) return 'invalid json'
    if (ttl > maxInteger) return 'invalid bso: ttl'
    fields.ttl = ttl
  }
  return fields
}

/** True for JSON objects, not for arrays and null. */
function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * True for a payload encrypted with an initialization vector of zeros: a faulty client once uploaded such payloads to the
 * crypto collection, which locked users out.
 */
function hasZeroIv(payload: string): boolean {
  return /IV":\s*"AAAAAAAAAAAAAAAAAAAAAA=="/.test(payload)
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value)
}
