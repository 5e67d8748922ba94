import { Elysia } from 'elysia'
import { bucketDescription, collectionDescription, collectionsDescription } from './descriptions.ts'
import type { Services } from './services.ts'
import { askBucket } from './session.ts'

/** A bucket, its collections, and a collection: names and timestamps. */
export function collectionRoutes(services: Services) {
  return new Elysia({ prefix: '/buckets/:bucket_id' })
    .get('', ({ request }) => askBucket(request, services), { detail: bucketDescription })
    .get('/collections', ({ request }) => askBucket(request, services), { detail: collectionsDescription })
    .get('/collections/:collection_id', ({ request }) => askBucket(request, services), {
      detail: collectionDescription,
    })
}
