import { Elysia } from 'elysia'
import {
  countDescription,
  deleteDescription,
  getDescription,
  listDescription,
  putDescription,
} from './descriptions.ts'
import type { Services } from './services.ts'
import { askBucket } from './session.ts'

/** The records of a collection. */
export function recordRoutes(services: Services) {
  return new Elysia({ prefix: '/buckets/:bucket_id/collections/:collection_id/records' })
    .get('', ({ request }) => askBucket(request, services), { detail: listDescription })
    .head('', ({ request }) => askBucket(request, services), { detail: countDescription })
    .get('/:record_id', ({ request }) => askBucket(request, services), { detail: getDescription })
    .put('/:record_id', ({ request }) => askBucket(request, services), {
      parse: 'none',
      detail: putDescription,
    })
    .delete('/:record_id', ({ request }) => askBucket(request, services), {
      parse: 'none',
      detail: deleteDescription,
    })
}
