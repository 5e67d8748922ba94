/** What the API document says of each operation. The schemas are those that requests are checked against. */
import type { TSchema } from '@sinclair/typebox'
import type { DocumentDecoration } from 'elysia'
import {
  BatchAnswer,
  BatchBody,
  CollectionsAnswer,
  ErrorAnswer,
  HeartbeatAnswer,
  ListAnswer,
  MetadataAnswer,
  RecordAnswer,
  RecordBody,
  RootAnswer,
  Tombstone,
  VersionAnswer,
} from '../protocol/schemas.ts'
import { toOpenApiSchema } from './openapi-schema.ts'

type Json = Record<string, unknown>
type Parameter = NonNullable<DocumentDecoration['parameters']>[number]

const exampleBucket = '0123456789abcdef0123456789abcdef'
const credentials: DocumentDecoration['security'] = [{ bearer: [], keyId: [] }, { browserid: [] }]

const errorTexts: Record<number, string> = {
  304: 'Not changed since that version',
  400: 'Something is wrong with the request; `details` lists all of it',
  401: 'Credentials are missing, unusable or refused',
  403: 'The storage refuses it: the quota is used up',
  404: 'There is no such record',
  405: 'The operator has not enabled this write',
  412: 'The stored version is another one; `details.existing` is the record',
  413: 'Larger than this service or the storage takes',
  415: 'The body is not JSON',
  503: 'The token server or the storage can not answer; see `Retry-After`',
}

const bucketId = pathParameter('bucket_id', 'The client state: 32 characters', exampleBucket)
const collectionId = pathParameter('collection_id', 'The name of the collection', 'bookmarks')
const recordId = pathParameter('record_id', 'The id of the record', 'dsIy9rXpTVQb')

const ifMatch = headerParameter(
  'If-Match',
  'Only if the stored version is not newer than this ETag; `*`: if there is one',
)
const ifNoneMatch = headerParameter(
  'If-None-Match',
  'Reads: only if changed since this ETag. PUT: `*` creates only',
)
const prefer = headerParameter('Prefer', '`return=representation` answers 200 with the tombstone')

const listParameters = [
  queryParameter('_since', 'Changed after this timestamp (ms), plain or quoted', 'string'),
  queryParameter('gt_last_modified', 'The same as `_since`', 'string'),
  queryParameter('_before', 'Changed before this timestamp (ms), plain or quoted', 'string'),
  queryParameter('lt_last_modified', 'The same as `_before`', 'string'),
  queryParameter('_sort', 'The order, newest first when left out', 'string', [
    'newest',
    'oldest',
    'index',
    '-last_modified',
    'last_modified',
    '-sortindex',
  ]),
  queryParameter('_limit', 'At most so many records; `Next-Page` leads to the others', 'integer'),
  queryParameter('_token', 'Where to go on; part of a `Next-Page` URL', 'string'),
  queryParameter('in_ids', 'Only these ids, separated by commas', 'string'),
  queryParameter('in_id', 'The same as `in_ids`', 'string'),
  queryParameter('exclude_id', 'Not these ids, separated by commas', 'string'),
]

export const rootDescription: DocumentDecoration = {
  tags: ['Service'],
  summary: 'What this service is',
  description: 'With credentials that the token server accepts, `user` names the user.',
  security: [{}, ...(credentials ?? [])],
  responses: answers([[200, 'The root view', RootAnswer]]),
}

export const versionDescription: DocumentDecoration = {
  tags: ['Service'],
  summary: 'Which build this is',
  responses: answers([[200, 'The version', VersionAnswer]]),
}

export const heartbeatDescription: DocumentDecoration = {
  tags: ['Service'],
  summary: 'Whether the token server and the cache answer',
  responses: answers([
    [200, 'All well', HeartbeatAnswer],
    [503, 'Something is down', HeartbeatAnswer],
  ]),
}

export const lbheartbeatDescription: DocumentDecoration = {
  tags: ['Service'],
  summary: 'Whether this process answers',
  responses: answers([[200, 'It does; the body is empty']]),
}

export const bucketDescription: DocumentDecoration = {
  tags: ['Collections'],
  summary: 'A bucket: all that was encrypted with one key',
  security: credentials,
  parameters: [bucketId, ifMatch, ifNoneMatch],
  responses: answers([[200, 'Its name and when it last changed', MetadataAnswer]], [304, 400, 401, 412, 503]),
}

export const collectionsDescription: DocumentDecoration = {
  tags: ['Collections'],
  summary: 'The collections of a bucket',
  description: 'The cheapest way to see what has changed.',
  security: credentials,
  parameters: [bucketId, ifMatch, ifNoneMatch],
  responses: answers(
    [[200, 'Their names and when each last changed', CollectionsAnswer]],
    [304, 400, 401, 412, 503],
  ),
}

export const collectionDescription: DocumentDecoration = {
  tags: ['Collections'],
  summary: 'A collection: its name and when it last changed',
  description: 'Also for a collection that was never used: its timestamp is 0.',
  security: credentials,
  parameters: [bucketId, collectionId, ifMatch, ifNoneMatch],
  responses: answers([[200, 'The collection', MetadataAnswer]], [304, 400, 401, 412, 503]),
}

export const listDescription: DocumentDecoration = {
  tags: ['Records'],
  summary: 'The records of a collection',
  description: 'All of them unless `_limit` is given, streamed as they come.',
  security: credentials,
  parameters: [bucketId, collectionId, ...listParameters, ifMatch, ifNoneMatch],
  responses: answers([[200, 'The records', ListAnswer]], [304, 400, 401, 412, 503]),
}

export const countDescription: DocumentDecoration = {
  tags: ['Records'],
  summary: 'How many records a collection has',
  description: 'The answer is in the headers `Total-Records` and `ETag`.',
  security: credentials,
  parameters: [bucketId, collectionId, ifMatch, ifNoneMatch],
  responses: answers([[200, 'The size and the timestamp, as headers']], [304, 400, 401, 412, 503]),
}

export const getDescription: DocumentDecoration = {
  tags: ['Records'],
  summary: 'One record',
  security: credentials,
  parameters: [bucketId, collectionId, recordId, ifMatch, ifNoneMatch],
  responses: answers([[200, 'The record', RecordAnswer]], [304, 400, 401, 404, 412, 503]),
}

export const putDescription: DocumentDecoration = {
  tags: ['Records'],
  summary: 'Write a record',
  description: 'Fields that are left out keep their stored value. Where the operator has enabled it.',
  security: credentials,
  parameters: [bucketId, collectionId, recordId, ifMatch, ifNoneMatch],
  requestBody: body(RecordBody, {
    data: { payload: '{"ciphertext":"…","IV":"…","hmac":"…"}', sortindex: 100 },
  }),
  responses: answers(
    [[200, 'The record as it is stored now', RecordAnswer]],
    [400, 401, 403, 405, 412, 413, 415, 503],
  ),
}

export const deleteDescription: DocumentDecoration = {
  tags: ['Records'],
  summary: 'Delete a record',
  description: 'Other devices do not notice: to delete for them too, PUT an encrypted tombstone instead.',
  security: credentials,
  parameters: [bucketId, collectionId, recordId, ifMatch, prefer],
  responses: answers(
    [
      [204, 'It is gone'],
      [200, 'It is gone; its tombstone', Tombstone],
    ],
    [400, 401, 404, 405, 412, 503],
  ),
}

export const batchDescription: DocumentDecoration = {
  tags: ['Batch'],
  summary: 'Many requests as one transaction',
  description:
    'Sub-requests see what earlier ones did. If the storage breaks, none of them has had any effect and the answer is 503.',
  security: credentials,
  requestBody: body(BatchBody, {
    defaults: { method: 'GET' },
    requests: [
      { path: `/buckets/${exampleBucket}/collections` },
      { path: `/buckets/${exampleBucket}/collections/bookmarks/records?_limit=2` },
    ],
  }),
  responses: answers(
    [[200, 'An answer to each sub-request, in order', BatchAnswer]],
    [400, 401, 413, 415, 503],
  ),
}

export const documentDescription: DocumentDecoration = {
  tags: ['Service'],
  summary: 'This document',
  responses: answers([[200, 'An OpenAPI 3 document']]),
}

/** What the document says of the service as a whole. */
export function documentHead(title: string, version: string, serverPath: string) {
  return {
    info: {
      title,
      version,
      description:
        'The collections of a Firefox Sync storage as records, encrypted as they are. Authorize with an access token and its ' +
        'key id, or with an identity assertion.',
    },
    servers: [{ url: serverPath }],
    tags: [{ name: 'Records' }, { name: 'Collections' }, { name: 'Batch' }, { name: 'Service' }],
    components: {
      schemas: { Error: toOpenApiSchema(ErrorAnswer) as object },
      securitySchemes: {
        bearer: { type: 'http' as const, scheme: 'bearer', description: 'An OAuth access token for Sync' },
        keyId: {
          type: 'apiKey' as const,
          in: 'header',
          name: 'X-KeyID',
          description: 'Goes with the access token: `<keys_changed_at>-<base64url client state>`',
        },
        browserid: {
          type: 'apiKey' as const,
          in: 'header',
          name: 'Authorization',
          description: 'An identity assertion: `BrowserID <assertion>`',
        },
      },
    },
  }
}

function answers(
  successes: [number, string, TSchema?][],
  failures: number[] = [],
): DocumentDecoration['responses'] {
  const responses: Json = {}
  for (const [status, description, schema] of successes) {
    responses[status] = schema ? { description, ...content(toOpenApiSchema(schema)) } : { description }
  }
  for (const status of failures) {
    const description = errorTexts[status]!
    const isError = status >= 400
    responses[status] = { description, ...(isError && content({ $ref: '#/components/schemas/Error' })) }
  }
  return responses as DocumentDecoration['responses']
}

function body(schema: TSchema, example: Json): DocumentDecoration['requestBody'] {
  return { required: true, content: { 'application/json': { schema: toOpenApiSchema(schema), example } } }
}

function content(schema: Json): Json {
  return { content: { 'application/json': { schema } } }
}

function pathParameter(name: string, description: string, example: string): Parameter {
  return { in: 'path', name, required: true, description, schema: { type: 'string' }, example }
}

function queryParameter(name: string, description: string, type: string, choices?: string[]): Parameter {
  return {
    in: 'query',
    name,
    description,
    schema: { type: type as 'string', ...(choices && { enum: choices }) },
  }
}

function headerParameter(name: string, description: string): Parameter {
  return { in: 'header', name, description, schema: { type: 'string' } }
}
