/** Buckets and collections: names and timestamps. */
import type { Problem } from './problems.ts'
import type { Operation } from '../domain/operation.ts'
import type { Precondition } from '../domain/precondition.ts'
import { zeroTimestamp, type Timestamp } from '../domain/timestamp.ts'
import { CollectionsResponse, MetadataResponse, versioned } from './responses.ts'
import { jsonReply, type Reply } from './reply.ts'
import { declare, type Input } from './resource.ts'
import { BucketPath, CollectionPath, ReadHeaders } from './schemas.ts'
import { collectionConditionReply, readPrecondition, versionHeaders } from './versions.ts'

type Timestamps = Extract<Operation, { kind: 'timestamps' }>

const ofTimestamps = {
  method: 'GET',
  tag: 'Collections',
  headers: ReadHeaders,
  operation: ({ headers }: Input, problems: Problem[]): Timestamps => ({
    kind: 'timestamps',
    precondition: readPrecondition(headers, problems),
  }),
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
  reply: ({ timestamp }, { precondition }, { params }) =>
    metadataReply(params.bucket_id, timestamp, precondition),
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
  reply({ timestamp, collections }, { precondition }, _, { readableCollections }) {
    const data = Array.from(collections, ([id, last_modified]) => ({ id, last_modified })).filter(
      ({ id }) => readableCollections?.has(id) !== false,
    )
    const headers = { ...versionHeaders(timestamp), 'Total-Records': String(data.length) }
    return collectionConditionReply(precondition, timestamp) ?? jsonReply({ data }, headers)
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
  reply({ collections }, { precondition }, { params }) {
    const collection = params.collection_id.toLowerCase()
    return metadataReply(collection, collections.get(collection) ?? zeroTimestamp, precondition)
  },
})

function metadataReply(id: string, timestamp: Timestamp, precondition: Precondition): Reply {
  const metadata = { data: { id, last_modified: timestamp } }
  return collectionConditionReply(precondition, timestamp) ?? jsonReply(metadata, versionHeaders(timestamp))
}
