/** What the API document says of each operation, besides what its declaration says. */
import type { TSchema } from '@sinclair/typebox'
import type { DocumentDecoration } from 'elysia'
import {
  ApiDocumentAnswer,
  BatchAnswer,
  CollectionsAnswer,
  HeartbeatAnswer,
  ListAnswer,
  MetadataAnswer,
  RecordAnswer,
  RootAnswer,
  TombstoneAnswer,
  VersionAnswer,
} from '../protocol/answer-schemas.ts'
import { BatchBody, RecordBody } from '../protocol/schemas.ts'
import { answers, bucketHeaders, plainHeaders } from './api-answers.ts'
import type { FailureStatus } from './api-answers.ts'
import { schemaOrReference } from './openapi-schema.ts'
import type { Json } from './openapi-schema.ts'

const readFailures: FailureStatus[] = [304, 400, 401, 403, 410, 412, 429, 500, 503]
const writeFailures: FailureStatus[] = [400, 401, 403, 405, 409, 410, 412, 429, 500, 503]
const serviceFailures: FailureStatus[] = [400, 410]

const examplePayload = '{"ciphertext":"c2VjcmV0","IV":"dmVjdG9y","hmac":"6d6163"}'
/** A bucket id that looks like one. */
const exampleBucket = '0123456789abcdef0123456789abcdef'

/** How a client says who it is. An access token needs its key id beside it; an assertion stands alone. */
const credentials: NonNullable<DocumentDecoration['security']> = [
  { bearer: [], keyId: [] },
  { browserid: [] },
]

const fileAnswers = answers(
  [{ status: 200, description: 'The file', headers: plainHeaders, type: '*/*' }],
  [...serviceFailures, 404],
)

/** By method and resource. */
export const operations: Record<string, DocumentDecoration> = {
  'GET records': {
    operationId: 'listRecords',
    tags: ['Records'],
    summary: 'List the records of a collection',
    description:
      'All of them in one answer, streamed as they come. With `_limit` in pages, where every page has the ETag of the first: ' +
      'follow `Next-Page` until it is absent, then ask again with that ETag as `_since` for what has changed meanwhile.',
    security: credentials,
    responses: answers(
      [
        {
          status: 200,
          description: 'The records',
          headers: ['Next-Page?', 'Total-Records?', ...bucketHeaders],
          schema: ListAnswer,
        },
      ],
      readFailures,
    ),
  },
  'HEAD records': {
    operationId: 'countRecords',
    tags: ['Records'],
    summary: 'Count the records of a collection',
    description:
      'What GET would list, filters included. With `_limit` or `_token` nothing is counted, and only the timestamp is told.',
    security: credentials,
    responses: answers(
      [
        {
          status: 200,
          description: 'The size and the timestamp, as headers',
          headers: ['Total-Records?', 'Total-Objects?', ...bucketHeaders],
        },
      ],
      readFailures,
    ),
  },
  'GET record': {
    operationId: 'getRecord',
    tags: ['Records'],
    summary: 'Read a record',
    security: credentials,
    responses: answers(
      [{ status: 200, description: 'The record', headers: bucketHeaders, schema: RecordAnswer }],
      [...readFailures, 404],
    ),
  },
  'PUT record': {
    operationId: 'putRecord',
    tags: ['Records'],
    summary: 'Create or change a record',
    description:
      'Fields that are left out keep their stored value. With `If-Match` it counts only while nobody else has changed the ' +
      'record. Only in collections where the operator has enabled it.',
    security: credentials,
    requestBody: body(RecordBody, {
      whole: {
        summary: 'A record',
        value: { data: { payload: examplePayload, sortindex: 100 } },
      },
      weight: {
        summary: 'Another sortindex, the same payload',
        value: { data: { sortindex: 200 } },
      },
      fleeting: {
        summary: 'A record that is gone after a day',
        value: { data: { payload: examplePayload, ttl: 86_400 } },
      },
    }),
    responses: answers(
      [
        {
          status: 200,
          description: 'The record as it is stored now',
          headers: bucketHeaders,
          schema: RecordAnswer,
        },
      ],
      [...writeFailures, 413, 415],
    ),
  },
  'DELETE record': {
    operationId: 'deleteRecord',
    tags: ['Records'],
    summary: 'Delete a record',
    description:
      'The devices of the user do not notice: to delete there too, PUT an encrypted tombstone instead. Only in collections ' +
      'where the operator has enabled it.',
    security: credentials,
    responses: answers(
      [
        {
          status: 200,
          description: 'It is gone, and this is its tombstone: what `Prefer: return=representation` asks for',
          headers: ['Preference-Applied', ...bucketHeaders],
          schema: TombstoneAnswer,
        },
        { status: 204, description: 'It is gone', headers: ['Quota-Remaining?', 'Backoff?', 'Alert?'] },
      ],
      [...writeFailures, 404],
    ),
  },
  'GET bucket': {
    operationId: 'getBucket',
    tags: ['Collections'],
    summary: 'See when a bucket last changed',
    description: 'A bucket is all that one user has encrypted with one key.',
    security: credentials,
    responses: answers(
      [{ status: 200, description: 'The bucket', headers: bucketHeaders, schema: MetadataAnswer }],
      readFailures,
    ),
  },
  'GET collections': {
    operationId: 'listCollections',
    tags: ['Collections'],
    summary: 'List the collections of a bucket',
    description: 'With when each of them last changed: the cheapest way to see whether anything has.',
    security: credentials,
    responses: answers(
      [
        {
          status: 200,
          description: 'The collections',
          headers: ['Total-Records?', ...bucketHeaders],
          schema: CollectionsAnswer,
        },
      ],
      readFailures,
    ),
  },
  'GET collection': {
    operationId: 'getCollection',
    tags: ['Collections'],
    summary: 'See when a collection last changed',
    description: 'One that was never used is there too, with the timestamp 0.',
    security: credentials,
    responses: answers(
      [{ status: 200, description: 'The collection', headers: bucketHeaders, schema: MetadataAnswer }],
      readFailures,
    ),
  },
  'POST batch': {
    operationId: 'batch',
    tags: ['Batch'],
    summary: 'Send many requests as one transaction',
    description:
      'Each sub-request sees what the earlier ones did, and one that is refused leaves the others standing. If the storage ' +
      'breaks, the answer is 503 and none of them has had any effect. `defaults` are merged under each of them, and the ' +
      'conditional headers of the batch itself count for those that have none.',
    security: credentials,
    requestBody: body(BatchBody, {
      read: {
        summary: 'Read two things',
        value: {
          requests: [
            { path: `/buckets/${exampleBucket}/collections` },
            { path: `/buckets/${exampleBucket}/collections/bookmarks/records?_limit=2` },
          ],
        },
      },
      write: {
        summary: 'Create a record, and delete another',
        value: {
          defaults: { headers: { 'If-None-Match': '*' } },
          requests: [
            {
              method: 'PUT',
              path: `/buckets/${exampleBucket}/collections/bookmarks/records/dsIy9rXpTVQb`,
              body: { data: { payload: examplePayload } },
            },
            {
              method: 'DELETE',
              path: `/buckets/${exampleBucket}/collections/bookmarks/records/Yk2xqkmyy5Oa`,
            },
          ],
        },
      },
    }),
    responses: answers(
      [
        {
          status: 200,
          description: 'An answer to each sub-request, in order',
          headers: ['Quota-Remaining?', 'Backoff?', 'Alert?'],
          schema: BatchAnswer,
        },
      ],
      [400, 401, 410, 413, 415, 500, 503],
    ),
  },
  'GET root': {
    operationId: 'getRoot',
    tags: ['Service'],
    summary: 'See what this service is',
    description: 'With credentials that the token server accepts, `user` tells whose they are.',
    security: [{}, ...credentials],
    responses: answers(
      [{ status: 200, description: 'The root view', headers: plainHeaders, schema: RootAnswer }],
      serviceFailures,
    ),
  },
  'GET version': {
    operationId: 'getVersion',
    tags: ['Service'],
    summary: 'See which build this is',
    responses: answers(
      [{ status: 200, description: 'The version', headers: plainHeaders, schema: VersionAnswer }],
      serviceFailures,
    ),
  },
  'GET heartbeat': {
    operationId: 'getHeartbeat',
    tags: ['Service'],
    summary: 'See whether the token server and the cache answer',
    description: 'Also answered without the version prefix.',
    responses: answers(
      [
        { status: 200, description: 'They do', headers: plainHeaders, schema: HeartbeatAnswer },
        {
          status: 503,
          description: 'One of them does not',
          headers: ['Retry-After', 'Alert?'],
          schema: HeartbeatAnswer,
          example: { storage: false, cache: true, permission: true },
        },
      ],
      [400],
    ),
  },
  'GET lbheartbeat': {
    operationId: 'getLbheartbeat',
    tags: ['Service'],
    summary: 'See whether this process answers',
    description: 'For load balancers. Also answered without the version prefix.',
    responses: answers(
      [{ status: 200, description: 'It does; the body is empty', headers: plainHeaders }],
      [400],
    ),
  },
  'GET openapi': {
    operationId: 'getApi',
    tags: ['Service'],
    summary: 'Read this document',
    responses: answers(
      [
        {
          status: 200,
          description: 'An OpenAPI 3 document',
          headers: plainHeaders,
          schema: ApiDocumentAnswer,
        },
      ],
      serviceFailures,
    ),
  },
  'GET docs': {
    operationId: 'getDocs',
    tags: ['Service'],
    summary: 'Open the page of this document',
    responses: answers(
      [{ status: 200, description: 'The page', headers: plainHeaders, type: 'text/html' }],
      serviceFailures,
    ),
  },
  'GET metrics': {
    operationId: 'getMetrics',
    tags: ['Service'],
    summary: 'Read the metrics',
    description:
      'In the text format of Prometheus. No name, label or figure tells of users or their records.',
    responses: answers(
      [{ status: 200, description: 'The metrics', headers: plainHeaders, type: 'text/plain' }],
      [400, 410],
    ),
  },
  'GET docs/:file': {
    operationId: 'getDocsFile',
    tags: ['Service'],
    summary: 'Load a part of that page',
    responses: fileAnswers,
  },
  'GET explore': {
    operationId: 'getExplorer',
    tags: ['Service'],
    summary: 'Open a page to look at your own data',
    responses: answers(
      [{ status: 200, description: 'The page', headers: plainHeaders, type: 'text/html' }],
      serviceFailures,
    ),
  },
  'GET explore/:file': {
    operationId: 'getExplorerFile',
    tags: ['Service'],
    summary: 'Load a part of that page',
    responses: fileAnswers,
  },
}

function body(schema: TSchema, examples: Record<string, Json>): DocumentDecoration['requestBody'] {
  return { required: true, content: { 'application/json': { schema: schemaOrReference(schema), examples } } }
}
