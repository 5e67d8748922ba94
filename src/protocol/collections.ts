/** Buckets and collections: names and timestamps. */
import type { Problem } from '../domain/errors.ts'
import { zeroTimestamp, type Timestamp } from '../domain/timestamp.ts'
import { CollectionsResponse, MetadataResponse, versioned } from './responses.ts'
import { jsonReply, type Reply } from './reply.ts'
import { declare, type Input, type RequestHeaders } from './resource.ts'
import { BucketPath, CollectionPath, ReadHeaders } from './schemas.ts'
import { collectionConditionReply, readPrecondition, versionHeaders } from './versions.ts'

const ofTimestamps = {
  method: 'GET',
  tag: 'Collections',
  headers: ReadHeaders,
  operation({ headers }: Input, problems: Problem[]): { kind: 'timestamps' } {
    readPrecondition(headers, problems)
    return { kind: 'timestamps' }
  },
  errorStatuses: [304],
} as const

export const getBucket = declare({
  ...ofTimestamps,
  name: 'bucket',
  path: '/buckets/:bucket_id',
  params: BucketPath,
  id: 'getBucket',
  summary: 'Get the timestamp of a bucket',
  description: 'A bucket contains everything that one user has encrypted with one key.',
  responses: { 200: versioned('The bucket', MetadataResponse) },
  reply: ({ timestamp }, { params, headers }) => metadataReply(params.bucket_id, timestamp, headers),
})

export const listCollections = declare({
  ...ofTimestamps,
  name: 'collections',
  path: '/buckets/:bucket_id/collections',
  params: BucketPath,
  id: 'listCollections',
  summary: 'List the collections of a bucket',
  description: 'Includes the timestamp of each: the cheapest way to check for changes.',
  responses: { 200: versioned('The collections', CollectionsResponse, 'Total-Records?') },
  reply({ timestamp, collections }, { headers: conditions }, { readableCollections }) {
    const data = Array.from(collections, ([id, last_modified]) => ({ id, last_modified })).filter(
      ({ id }) => readableCollections?.has(id) !== false,
    )
    const headers = { ...versionHeaders(timestamp), 'Total-Records': String(data.length) }
    return collectionConditionReply(conditions, timestamp) ?? jsonReply({ data }, headers)
  },
})

export const getCollection = declare({
  ...ofTimestamps,
  name: 'collection',
  path: '/buckets/:bucket_id/collections/:collection_id',
  params: CollectionPath,
  id: 'getCollection',
  summary: 'Get the timestamp of a collection',
  description: 'A collection that was never used has the timestamp 0.',
  responses: { 200: versioned('The collection', MetadataResponse) },
  errorStatuses: [304, 404],
  reply({ collections }, { params, headers }) {
    const collection = params.collection_id.toLowerCase()
    return metadataReply(collection, collections.get(collection) ?? zeroTimestamp, headers)
  },
})

function metadataReply(id: string, timestamp: Timestamp, conditions: RequestHeaders): Reply {
  const metadata = { data: { id, last_modified: timestamp } }
  return collectionConditionReply(conditions, timestamp) ?? jsonReply(metadata, versionHeaders(timestamp))
}
