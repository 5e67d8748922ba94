import { Elysia } from 'elysia'
import type * as Descriptions from './data-descriptions.ts'
import type { Services } from './services.ts'
import { askBucket } from './session.ts'

/** The records of a collection. */
export function recordRoutes(services: Services, descriptions?: typeof Descriptions) {
  return new Elysia({ prefix: '/buckets/:bucket_id/collections/:collection_id/records' })
    .get('', ({ request }) => askBucket(request, services), { detail: descriptions?.listDescription })
    .head('', ({ request }) => askBucket(request, services), { detail: descriptions?.countDescription })
    .get('/:record_id', ({ request }) => askBucket(request, services), {
      detail: descriptions?.getDescription,
    })
    .put('/:record_id', ({ request }) => askBucket(request, services), {
      parse: 'none',
      detail: descriptions?.putDescription,
    })
    .delete('/:record_id', ({ request }) => askBucket(request, services), {
      parse: 'none',
      detail: descriptions?.deleteDescription,
    })
}
