/** What the API document says of each operation on data. The schemas are those that requests are checked against. */
import type { TSchema } from '@sinclair/typebox'
import type { DocumentDecoration } from 'elysia'
import {
  BatchAnswer,
  CollectionsAnswer,
  ListAnswer,
  MetadataAnswer,
  RecordAnswer,
  TombstoneAnswer,
} from '../protocol/answer-schemas.ts'
import { BatchBody, RecordBody } from '../protocol/schemas.ts'
import { answers, bucketHeaders } from './api-answers.ts'
import type { FailureStatus } from './api-answers.ts'
import {
  bucketId,
  clientState,
  collectionId,
  createOnly,
  credentials,
  exampleBucket,
  ifMatch,
  ifNoneMatch,
  listParameters,
  prefer,
  recordId,
} from './api-parameters.ts'
import { schemaOrReference } from './openapi-schema.ts'
import type { Json } from './openapi-schema.ts'

const readFailures: FailureStatus[] = [304, 400, 401, 403, 410, 412, 429, 500, 503]
const writeFailures: FailureStatus[] = [400, 401, 403, 405, 409, 410, 412, 429, 500, 503]

const examplePayload = '{"ciphertext":"c2VjcmV0","IV":"dmVjdG9y","hmac":"6d6163"}'

export const listDescription: DocumentDecoration = {
  operationId: 'listRecords',
  tags: ['Records'],
  summary: 'List the records of a collection',
  description:
    'All of them in one answer, streamed as they come. With `_limit` in pages, where every page has the ETag of the first: ' +
    'follow `Next-Page` until it is absent, then ask again with that ETag as `_since` for what has changed meanwhile.',
  security: credentials,
  parameters: [bucketId, collectionId, ...listParameters, ifMatch, ifNoneMatch, clientState],
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
}

export const countDescription: DocumentDecoration = {
  operationId: 'countRecords',
  tags: ['Records'],
  summary: 'Count the records of a collection',
  description: 'The answer is in the headers; parameters of the list do not count here.',
  security: credentials,
  parameters: [bucketId, collectionId, ifMatch, ifNoneMatch, clientState],
  responses: answers(
    [
      {
        status: 200,
        description: 'The size and the timestamp, as headers',
        headers: ['Total-Records?', 'Total-Objects', ...bucketHeaders],
      },
    ],
    readFailures,
  ),
}

export const getDescription: DocumentDecoration = {
  operationId: 'getRecord',
  tags: ['Records'],
  summary: 'Read a record',
  security: credentials,
  parameters: [bucketId, collectionId, recordId, ifMatch, ifNoneMatch, clientState],
  responses: answers(
    [{ status: 200, description: 'The record', headers: bucketHeaders, schema: RecordAnswer }],
    [...readFailures, 404],
  ),
}

export const putDescription: DocumentDecoration = {
  operationId: 'putRecord',
  tags: ['Records'],
  summary: 'Create or change a record',
  description:
    'Fields that are left out keep their stored value. With `If-Match` it counts only while nobody else has changed the ' +
    'record. Only in collections where the operator has enabled it.',
  security: credentials,
  parameters: [bucketId, collectionId, recordId, ifMatch, createOnly, clientState],
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
}

export const deleteDescription: DocumentDecoration = {
  operationId: 'deleteRecord',
  tags: ['Records'],
  summary: 'Delete a record',
  description:
    'The devices of the user do not notice: to delete there too, PUT an encrypted tombstone instead. Only in collections ' +
    'where the operator has enabled it.',
  security: credentials,
  parameters: [bucketId, collectionId, recordId, ifMatch, prefer, clientState],
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
}

export const bucketDescription: DocumentDecoration = {
  operationId: 'getBucket',
  tags: ['Collections'],
  summary: 'See when a bucket last changed',
  description: 'A bucket is all that one user has encrypted with one key.',
  security: credentials,
  parameters: [bucketId, ifMatch, ifNoneMatch, clientState],
  responses: answers(
    [{ status: 200, description: 'The bucket', headers: bucketHeaders, schema: MetadataAnswer }],
    readFailures,
  ),
}

export const collectionsDescription: DocumentDecoration = {
  operationId: 'listCollections',
  tags: ['Collections'],
  summary: 'List the collections of a bucket',
  description: 'With when each of them last changed: the cheapest way to see whether anything has.',
  security: credentials,
  parameters: [bucketId, ifMatch, ifNoneMatch, clientState],
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
}

export const collectionDescription: DocumentDecoration = {
  operationId: 'getCollection',
  tags: ['Collections'],
  summary: 'See when a collection last changed',
  description: 'One that was never used is there too, with the timestamp 0.',
  security: credentials,
  parameters: [bucketId, collectionId, ifMatch, ifNoneMatch, clientState],
  responses: answers(
    [{ status: 200, description: 'The collection', headers: bucketHeaders, schema: MetadataAnswer }],
    readFailures,
  ),
}

export const batchDescription: DocumentDecoration = {
  operationId: 'batch',
  tags: ['Batch'],
  summary: 'Send many requests as one transaction',
  description:
    'Each sub-request sees what the earlier ones did, and one that is refused leaves the others standing. If the storage ' +
    'breaks, the answer is 503 and none of them has had any effect. `defaults` are merged under each of them, and the ' +
    'conditional headers of the batch itself count for those that have none.',
  security: credentials,
  parameters: [ifMatch, ifNoneMatch, prefer, clientState],
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
}

function body(schema: TSchema, examples: Record<string, Json>): DocumentDecoration['requestBody'] {
  return { required: true, content: { 'application/json': { schema: schemaOrReference(schema), examples } } }
}
