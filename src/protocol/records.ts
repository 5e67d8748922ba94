/** A single record: get, put and delete. */
import { errno, ServiceError } from '../domain/errors.ts'
import { invalid, type Problem } from './problems.ts'
import type { OutcomeOf } from '../domain/operation.ts'
import type { Precondition } from '../domain/precondition.ts'
import {
  canonicalCollection,
  isRecordId,
  toExposedJson,
  type RecordInput,
  type SyncRecord,
} from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { Settings } from '../settings/settings.ts'
import { describeResponse, noticeHeaders, RecordResponse, TombstoneResponse, versioned } from './responses.ts'
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
  responses: { 200: versioned('The record', RecordResponse) },
  errorStatuses: [304, 404],
  operation: (input, problems) => ({ kind: 'get', ...readTarget(input, problems) }),
  reply: (outcome, { precondition }) =>
    outcome.outcome === 'found'
      ? recordReply(outcome.record, outcome.json)
      : withoutRecord(outcome, precondition),
})

export const putRecord = declare({
  ...ofRecord,
  method: 'PUT',
  headers: PutHeaders,
  body: RecordBody,
  id: 'putRecord',
  summary: 'Create or change a record',
  description:
    'Omitted fields keep their stored value. With `If-Match`, the write applies only if the record has not changed. ' +
    'Only in collections where the operator has enabled it.',
  responses: { 200: versioned('The stored record', RecordResponse) },
  errorStatuses: [404, 405, 415],
  operation: (input, problems) => ({
    kind: 'put',
    ...readTarget(input, problems),
    // Reads the body last: its problems are only reported if there are no others.
    input: problems.length === 0 ? readRecordInput(input.body) : {},
  }),
  reply: (outcome, { precondition }) =>
    outcome.outcome === 'stored' ? recordReply(outcome.record) : withoutRecord(outcome, precondition),
})

export const deleteRecord = declare({
  ...ofRecord,
  method: 'DELETE',
  headers: DeleteHeaders,
  id: 'deleteRecord',
  summary: 'Delete a record',
  description:
    "The user's devices do not see this deletion: to delete there too, PUT an encrypted tombstone. Only in collections " +
    'where the operator has enabled it.',
  responses: {
    200: versioned('Deleted: the tombstone that `Prefer` requests', TombstoneResponse, 'Preference-Applied'),
    204: describeResponse('Deleted', null, noticeHeaders),
  },
  errorStatuses: [404, 405],
  operation: (input, problems) => ({ kind: 'delete', ...readTarget(input, problems) }),
  reply: (outcome, { precondition }, { headers }) =>
    outcome.outcome === 'deleted' ? deletedReply(outcome, headers) : withoutRecord(outcome, precondition),
})

/** The setting that disables this write on the collection in the path; null if it is enabled. */
export function disabledBy({ method }: Resource, params: object, settings: Settings): string | null {
  if (method !== 'PUT' && method !== 'DELETE') return null
  if (settings.readonly) return 'readonly is on'
  const collection = canonicalCollection((params as { collection_id?: string }).collection_id ?? '')
  const gate = method === 'PUT' ? 'put' : 'delete'
  if (collection !== null && settings.writable[gate].has(collection)) return null
  return `record_${collection ?? '<collection>'}_${gate}_enabled is off`
}

/** The record of a request, and its precondition. */
function readTarget({ params, headers }: Input<RecordPath>, problems: Problem[]) {
  const id = decodeSegment(params['*']) ?? ''
  if (!isRecordId(id)) {
    const { description } = RecordPath.properties['*']
    problems.push({ location: 'path', name: 'record_id', description: description! })
  }
  const precondition = readPrecondition(headers, problems)
  return { collection: params.collection_id.toLowerCase(), id, precondition }
}

/** Decodes the percent-escapes of a part of a path or query; null if they are invalid or not UTF-8. */
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
    throw invalidPayload('must not contain half a surrogate pair, which UTF-8 cannot encode')
  }
  if (payload?.includes('\0'))
    throw invalidPayload('must not contain a NUL character, which the storage cannot store')
  return ttl === undefined ? fields : { ...fields, ttlSeconds: ttl }
}

const invalidPayload = (description: string) => invalid('body', 'data.payload', description)

/** The reply to GET and PUT of a record. */
function recordReply(record: SyncRecord, json = toExposedJson(record)): Reply {
  return { status: 200, headers: versionHeaders(record.lastModified), body: `{"data":${json}}` }
}

const wantsRepresentation = /(?:^|[,; ])return=representation(?:$|[,; ])/

/** Includes the tombstone if `Prefer` requests it, or in a batch. */
function deletedReply(
  { id, timestamp }: { id: string; timestamp: Timestamp },
  { prefer = '' }: RequestHeaders,
): Reply {
  const tombstone = { data: { id, last_modified: timestamp, deleted: true } }
  if (!wantsRepresentation.test(prefer)) return { ...emptyReply(204), tombstone }
  const headers = { ...versionHeaders(timestamp), 'Preference-Applied': 'return=representation' }
  return jsonReply(tombstone, headers)
}

/** 304 for an unchanged record. Throws `ServiceError` for outcomes that are errors. */
function withoutRecord(
  outcome: Exclude<OutcomeOf['get' | 'put' | 'delete'], { outcome: 'found' | 'stored' | 'deleted' }>,
  precondition: Precondition,
): Reply {
  switch (outcome.outcome) {
    case 'not-modified':
      return notModifiedReply(outcome.timestamp)
    case 'missing':
      throw new ServiceError(404, errno.unknownRecord, 'Record not found')
    case 'precondition-failed':
      throw recordChanged(outcome.existing, precondition.kind === 'absent')
    default:
      return outcome satisfies never
  }
}
