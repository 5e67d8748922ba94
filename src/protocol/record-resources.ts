/**
 * How a resource is declared, and the declarations of one record: path, methods, schemas, what is asked of the storage, and how
 * its outcome is answered.
 */
import type { Static, TObject } from '@sinclair/typebox'
import { Type } from '@sinclair/typebox'
import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import type { Operation, OutcomeOf } from '../domain/operation.ts'
import { noPrecondition } from '../domain/precondition.ts'
import type { Precondition } from '../domain/precondition.ts'
import { isRecordId, toExposedJson } from '../domain/record.ts'
import type { RecordInput, SyncRecord } from '../domain/record.ts'
import { floored, fromEntityTag, zeroTimestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type * as answerSchemas from './answer-schemas.ts'
import { compileBodyCheck, compileRequestCheck } from './check.ts'
import type { RequestParts } from './check.ts'
import { emptyReply, jsonReply, notModifiedReply, versionHeaders } from './reply.ts'
import type { ExposedSettings, Reply } from './reply.ts'
import { DeleteHeaders, PutHeaders, ReadHeaders, RecordBody, RecordPath } from './schemas.ts'
import type { ConditionHeaders } from './schemas.ts'

/** An answer as the API document shows it. */
export interface Answer {
  description: string
  /** The shape of the body by its name in answer-schemas.ts, or the media type of a body that is not JSON. */
  body?: Exclude<keyof typeof answerSchemas, 'answerHeaders'> | `${string}/${string}`
  /** The headers besides those that all answers of its kind have. */
  headers?: AnswerHeader[]
  example?: object
}

export type AnswerHeader = keyof typeof answerSchemas.answerHeaders

/** One method of one resource. HEAD is answered wherever GET is, also where it is not declared. */
export interface Resource {
  /** The name of the operation in the API document. */
  id: string
  summary: string
  description?: string
  /** Its own answers by status; the error answers that all have in common are added. */
  answers: Record<number, Answer>
  /** Its name in logs and metrics, which all methods of its path have. */
  name: string
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Below the version prefix. `:name` is one segment, `*` the rest of the path, as it was sent. */
  path: string
  params: TObject
  query: TObject
  headers: TObject
  /** The body of a request; it is checked when it is read. */
  body?: TObject
  /** All problems of the parts of a request. */
  check(parts: RequestParts): Problem[]
}

/** The address of a request, of which the URL of the next page is made. Path and query are as they came. */
export interface Address {
  host: string | null
  path: string
  /** With the question mark, or empty. */
  query: string
}

/** The parts of a request that have been validated. `body`: the parsed body of a PUT. */
interface Input<Params, Query, Headers> {
  params: Params
  query: Query
  headers: Headers
  body?: unknown
  address: Address
}

/** Every path of such a resource names the bucket; its schema is what the types can't see. */
export type BucketInput = Input<{ bucket_id?: string }, object, object>

/** A resource in a user's bucket. It needs credentials, and becomes an operation on the storage. */
export interface BucketResource extends Resource {
  /**
   * Makes the operation on the storage. Problems that the schemas can't see are added to `problems`; then the operation must
   * not be used. Throws `ServiceError` 400 for problems of the body.
   */
  operation(input: BucketInput, problems: Problem[]): Operation
  /** Answers the outcome of that operation. Throws `ServiceError` for outcomes that are errors. */
  answer(outcome: OutcomeOf[Operation['kind']], input: BucketInput, settings: ExposedSettings): Reply
}

/** The schema of a query or of headers that nothing is read of. */
export const anything = Type.Object({}, { additionalProperties: true })

interface Declaration<
  P extends TObject,
  Q extends TObject,
  H extends TObject,
  K extends Operation['kind'],
> extends Omit<Resource, 'query' | 'check'> {
  params: P
  query?: Q
  headers: H
  operation(
    input: Input<Static<P>, Static<Q>, Static<H>>,
    problems: Problem[],
  ): Extract<Operation, { kind: K }>
  answer(
    outcome: OutcomeOf[K],
    input: Input<Static<P>, Static<Q>, Static<H>>,
    settings: ExposedSettings,
  ): Reply
}

/** A resource in a bucket, with the check that its schemas make. */
export function declare<P extends TObject, Q extends TObject, H extends TObject, K extends Operation['kind']>(
  declaration: Declaration<P, Q, H, K>,
): BucketResource {
  const { params, query = anything, headers } = declaration
  return { ...declaration, query, check: compileRequestCheck({ params, query, headers }) }
}

export const collectionPath = '/buckets/:bucket_id/collections/:collection_id'
const ofRecord = { name: 'record', path: `${collectionPath}/records/*`, params: RecordPath } as const

export const getRecord = declare({
  ...ofRecord,
  method: 'GET',
  headers: ReadHeaders,
  id: 'getRecord',
  summary: 'Read a record',
  answers: { 200: { description: 'The record', body: 'RecordAnswer' } },
  operation: ({ params, headers }, problems) => ({
    kind: 'get',
    collection: collectionOf(params),
    id: readRecordId(params, problems),
    precondition: readPrecondition(headers, problems),
  }),
  answer(outcome) {
    switch (outcome.outcome) {
      case 'found':
        return recordReply(outcome.record, outcome.json)
      case 'not-modified':
        return notModifiedReply(outcome.timestamp)
      case 'precondition-failed':
        throw preconditionFailed(outcome.existing)
      case 'missing':
        throw unknownRecord()
      default:
        return outcome satisfies never
    }
  },
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
  answers: { 200: { description: 'The record as it is stored now', body: 'RecordAnswer' } },
  operation: ({ params, headers, body }, problems) => ({
    kind: 'put',
    collection: collectionOf(params),
    id: readRecordId(params, problems),
    precondition: readPrecondition(headers, problems),
    // The body comes last: its problems are reported when there are no others.
    input: problems.length === 0 ? readRecordInput(body) : {},
  }),
  answer(outcome, { headers }) {
    switch (outcome.outcome) {
      case 'stored':
        return recordReply(outcome.record)
      case 'precondition-failed':
        throw preconditionFailed(outcome.existing, null, headers['if-none-match'] !== undefined)
      case 'rejected':
        throw rejected(outcome.reason)
      default:
        return outcome satisfies never
    }
  },
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
    200: {
      description: 'It is gone, and this is its tombstone: what `Prefer: return=representation` asks for',
      body: 'TombstoneAnswer',
      headers: ['Preference-Applied'],
    },
    204: { description: 'It is gone' },
  },
  operation: ({ params, headers }, problems) => ({
    kind: 'delete',
    collection: collectionOf(params),
    id: readRecordId(params, problems),
    precondition: readPrecondition(headers, problems),
  }),
  answer(outcome, { headers }) {
    switch (outcome.outcome) {
      case 'deleted':
        return deletedReply(outcome, headers.prefer ?? '')
      case 'precondition-failed':
        throw preconditionFailed(outcome.existing)
      case 'missing':
        throw unknownRecord()
      default:
        return outcome satisfies never
    }
  },
})

/**
 * Reads If-Match and If-None-Match. The timestamp of If-Match is rounded down to the storage's 10 ms, so that no change
 * is overlooked; that of If-None-Match is compared as it came. If-Modified-Since and If-Unmodified-Since are ignored.
 */
export function readPrecondition(headers: ConditionHeaders, problems: Problem[]): Precondition {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match === undefined && noneMatch === undefined) return noPrecondition
  if (match !== undefined && noneMatch !== undefined) {
    const description = 'can not be combined with If-Match'
    problems.push({ location: 'header', name: 'If-None-Match', description })
  }
  if (match !== undefined) {
    if (match === '*') return { kind: 'exists' }
    return { kind: 'unmodified-since', timestamp: floored(fromEntityTag(match) ?? zeroTimestamp) }
  }
  if (noneMatch === '*') return { kind: 'absent' }
  return { kind: 'differs', timestamp: fromEntityTag(noneMatch!) ?? zeroTimestamp }
}

export function collectionOf({ collection_id }: { collection_id: string }): string {
  return collection_id.toLowerCase()
}

export function readRecordId(params: RecordPath, problems: Problem[]): string {
  const id = decodeSegment(params['*'])
  if (id === null || !isRecordId(id)) {
    const { description } = RecordPath.properties['*']
    problems.push({ location: 'path', name: 'record_id', description: description! })
  }
  return id ?? ''
}

/** Decodes percent-escapes once; null when they are broken or not UTF-8. */
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
  const { payload, sortindex, ttl } = checkRecordBody(body).data
  if (payload !== undefined && !payload.isWellFormed()) {
    throw invalidPayload('holds half a surrogate pair, which UTF-8 can not carry')
  }
  if (payload?.includes('\0')) throw invalidPayload('holds a NUL character, which the storage can not keep')
  return {
    ...(payload !== undefined && { payload }),
    ...(sortindex !== undefined && { sortindex }),
    ...(ttl !== undefined && { ttlSeconds: ttl }),
  }
}

function invalidPayload(description: string): ServiceError {
  return invalidRequest([{ location: 'body', name: 'data.payload', description }])
}

const wantsRepresentation = /(?:^|[,; ])return=representation(?:$|[,; ])/

function deletedReply({ id, timestamp }: { id: string; timestamp: Timestamp }, prefer: string): Reply {
  if (!wantsRepresentation.test(prefer)) return { ...emptyReply(204), tombstone: tombstone(id, timestamp) }
  const headers = { ...versionHeaders(timestamp), 'Preference-Applied': 'return=representation' }
  return jsonReply(tombstone(id, timestamp), headers)
}

/** One record, also as stored by a PUT. */
function recordReply(record: SyncRecord, json = toExposedJson(record)): Reply {
  return { status: 200, headers: versionHeaders(record.lastModified), body: `{"data":${json}}` }
}

/** The tombstone of a deleted record: for clients that asked for a representation, and inside batches. */
function tombstone(id: string, timestamp: Timestamp): { data: object } {
  return { data: { id, last_modified: timestamp, deleted: true } }
}

function unknownRecord(): ServiceError {
  return new ServiceError(404, errno.unknownRecord, 'There is no record of this id')
}

function rejected(reason: 'invalid' | 'too-large'): ServiceError {
  return reason === 'too-large'
    ? new ServiceError(413, errno.requestTooLarge, 'The record is larger than the storage takes')
    : invalidRequest([{ location: 'path', name: 'record_id', description: 'is refused by the storage' }])
}

/** 412 with the stored record, without which clients can't settle the conflict. */
export function preconditionFailed(
  existing: SyncRecord | null,
  timestamp: Timestamp | null = null,
  isUnwanted = false,
): ServiceError {
  const current = existing?.lastModified ?? timestamp
  const headers = current === null ? {} : versionHeaders(current)
  if (!existing) {
    const message = 'The stored version is not the one that was named'
    return new ServiceError(412, errno.preconditionFailed, message, { headers })
  }
  const message = isUnwanted ? 'The record exists already' : 'The record was changed meanwhile'
  const { id, lastModified: last_modified, payload, sortindex } = existing
  const details = { existing: { id, last_modified, payload, ...(sortindex !== undefined && { sortindex }) } }
  return new ServiceError(412, errno.preconditionFailed, message, { headers, details })
}
