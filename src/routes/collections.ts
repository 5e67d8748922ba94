import { Elysia } from 'elysia'
import type * as Descriptions from './data-descriptions.ts'
import type { Services } from './services.ts'
import { askBucket } from './session.ts'

/** A bucket, its collections, and a collection: names and timestamps. */
export function collectionRoutes(services: Services, descriptions?: typeof Descriptions) {
  return new Elysia({ prefix: '/buckets/:bucket_id' })
    .get('', ({ request }) => askBucket(request, services), { detail: descriptions?.bucketDescription })
    .get('/collections', ({ request }) => askBucket(request, services), {
      detail: descriptions?.collectionsDescription,
    })
    .get('/collections/:collection_id', ({ request }) => askBucket(request, services), {
      detail: descriptions?.collectionDescription,
    })
}
