/** One record: read, and written and deleted where the operator has enabled that. */
import { errno, invalid, ServiceError, type Problem } from '../domain/errors.ts'
import type { OutcomeOf, Rejection } from '../domain/operation.ts'
import {
  canonicalCollection,
  isRecordId,
  toExposedJson,
  type RecordInput,
  type SyncRecord,
  type Timestamp,
} from '../domain/record.ts'
import type { Settings } from '../settings/settings.ts'
import { answered, noticeHeaders, RecordAnswer, TombstoneAnswer, versioned } from './answers.ts'
import { compileBodyCheck } from './check.ts'
import { emptyReply, jsonReply, type Reply } from './reply.ts'
import { declare, type Input, type RequestHeaders, type Resource } from './resource.ts'
import { DeleteHeaders, PutHeaders, ReadHeaders, RecordBody, RecordPath } from './schemas.ts'
import { notModifiedReply, readPrecondition, recordChanged, versionHeaders } from './versions.ts'

const ofRecord = {
  name: 'record',
  path: '/buckets/:bucket_id/collections/:collection_id/records/*',
  params: RecordPath,
  tag: 'Records',
} as const

export const getRecord = declare({
  ...ofRecord,
  method: 'GET',
  headers: ReadHeaders,
  id: 'getRecord',
  summary: 'Read a record',
  answers: { 200: versioned('The record', RecordAnswer) },
  errorStatuses: [304, 404],
  operation: (input, problems) => ({ kind: 'get', ...readTarget(input, problems) }),
  answer: (outcome, { headers }) =>
    outcome.outcome === 'found' ? recordReply(outcome.record, outcome.json) : withoutRecord(outcome, headers),
})

export const putRecord = declare({
  ...ofRecord,
  method: 'PUT',
  headers: PutHeaders,
  body: RecordBody,
  id: 'putRecord',
  summary: 'Create or change a record',
  description:
    'Fields that are left out keep their stored value. With `If-Match` it counts only while nobody else has changed the ' +
    'record. Only in collections where the operator has enabled it.',
  answers: { 200: versioned('The record as it is stored now', RecordAnswer) },
  errorStatuses: [405, 409, 413, 415],
  operation: (input, problems) => ({
    kind: 'put',
    ...readTarget(input, problems),
    // The body comes last: its problems are reported when there are no others.
    input: problems.length === 0 ? readRecordInput(input.body) : {},
  }),
  answer: (outcome, { headers }) =>
    outcome.outcome === 'stored' ? recordReply(outcome.record) : withoutRecord(outcome, headers),
})

export const deleteRecord = declare({
  ...ofRecord,
  method: 'DELETE',
  headers: DeleteHeaders,
  id: 'deleteRecord',
  summary: 'Delete a record',
  description:
    'The devices of the user do not notice: to delete there too, PUT an encrypted tombstone instead. Only in collections ' +
    'where the operator has enabled it.',
  answers: {
    200: versioned('It is gone: the tombstone that `Prefer` asks for', TombstoneAnswer, 'Preference-Applied'),
    204: answered('It is gone', null, noticeHeaders),
  },
  errorStatuses: [404, 405, 409],
  operation: (input, problems) => ({ kind: 'delete', ...readTarget(input, problems) }),
  answer: (outcome, { headers }) =>
    outcome.outcome === 'deleted' ? deletedReply(outcome, headers) : withoutRecord(outcome, headers),
})

/** The setting that closes this method, for writes on the collection in the path; null when it is open. */
export function disabledBy({ method }: Resource, params: object, settings: Settings): string | null {
  if (method !== 'PUT' && method !== 'DELETE') return null
  if (settings.readonly) return 'readonly is on'
  const collection = canonicalCollection((params as { collection_id?: string }).collection_id ?? '')
  const gate = method === 'PUT' ? 'put' : 'delete'
  if (collection !== null && settings.writable[gate].has(collection)) return null
  return `record_${collection ?? '<collection>'}_${gate}_enabled is off`
}

/** Which record is meant, and on which version of it the request may act. */
function readTarget({ params, headers }: Input<RecordPath>, problems: Problem[]) {
  const id = decodeSegment(params['*']) ?? ''
  if (!isRecordId(id)) {
    const { description } = RecordPath.properties['*']
    problems.push({ location: 'path', name: 'record_id', description: description! })
  }
  const precondition = readPrecondition(headers, problems)
  return { collection: params.collection_id.toLowerCase(), id, precondition }
}

/** Decodes the percent-escapes of a part of a path or query once; null when they are broken or not UTF-8. */
export function decodeSegment(raw: string): string | null {
  if (!raw.includes('%')) return raw
  try {
    return decodeURIComponent(raw)
  } catch {
    return null
  }
}

const checkRecordBody = compileBodyCheck(RecordBody)

function readRecordInput(body: unknown): RecordInput {
  const { id: _, last_modified: __, ttl, ...fields } = checkRecordBody(body).data
  const { payload } = fields
  if (payload !== undefined && !payload.isWellFormed()) {
    throw invalidPayload('holds half a surrogate pair, which UTF-8 can not carry')
  }
  if (payload?.includes('\0')) throw invalidPayload('holds a NUL character, which the storage can not keep')
  return ttl === undefined ? fields : { ...fields, ttlSeconds: ttl }
}

const invalidPayload = (description: string) => invalid('body', 'data.payload', description)

/** One record, also as stored by a PUT. */
function recordReply(record: SyncRecord, json = toExposedJson(record)): Reply {
  return { status: 200, headers: versionHeaders(record.lastModified), body: `{"data":${json}}` }
}

const wantsRepresentation = /(?:^|[,; ])return=representation(?:$|[,; ])/

/** The tombstone is the body for clients that asked for a representation, and inside batches. */
function deletedReply(
  { id, timestamp }: { id: string; timestamp: Timestamp },
  { prefer = '' }: RequestHeaders,
): Reply {
  const tombstone = { data: { id, last_modified: timestamp, deleted: true } }
  if (!wantsRepresentation.test(prefer)) return { ...emptyReply(204), tombstone }
  const headers = { ...versionHeaders(timestamp), 'Preference-Applied': 'return=representation' }
  return jsonReply(tombstone, headers)
}

/** 304 for a record that is unchanged. Throws `ServiceError` for the outcomes that are errors. */
function withoutRecord(
  outcome: Exclude<OutcomeOf['get' | 'put' | 'delete'], { outcome: 'found' | 'stored' | 'deleted' }>,
  headers: RequestHeaders,
): Reply {
  switch (outcome.outcome) {
    case 'not-modified':
      return notModifiedReply(outcome.timestamp)
    case 'missing':
      throw new ServiceError(404, errno.unknownRecord, 'There is no record of this id')
    case 'precondition-failed':
      throw recordChanged(outcome.existing, headers['if-none-match'] !== undefined)
    case 'rejected':
      throw rejections[outcome.reason]()
    default:
      return outcome satisfies never
  }
}

const rejections: Record<Rejection, () => ServiceError> = {
  'too-large': () =>
    new ServiceError(413, errno.requestTooLarge, 'The record is larger than the storage accepts'),
  invalid: () => invalid('path', 'record_id', 'was rejected by the storage'),
}
