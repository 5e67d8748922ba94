import type { BatchRequest, Batches } from './batches.ts'
import type { BsoFields } from './bso.ts'
import type { Limits } from './limits.ts'
import type { ListFormat } from './listing.ts'
import type { ListQuery } from './list-query.ts'
import type { Quirks } from './quirks.ts'
import { Refusal, code } from './reply.ts'
import type { Storage } from './storage.ts'
import type { Switches } from './switches.ts'
import type { Upload } from './upload.ts'

/** What a handler of the storage works with: one request, understood, inside its transaction. */
export interface Operation {
  storage: Storage
  batches: Batches
  switches: Switches
  quirks: Quirks
  limits: Limits
  uid: number
  /** Empty for requests that name no collection. */
  collection: string
  /** Empty for requests that name no record. */
  id: string
  /** The instant of the transaction in milliseconds, exactly and as the timestamp that writes get. */
  nowMs: number
  timestamp: number
  /** The timestamp of what the path names, before anything is written. */
  resource: number
  query: ListQuery
  format: ListFormat
  batch: BatchRequest
  /** The record of a PUT. */
  fields: BsoFields
  /** The records of a POST. */
  upload: Upload
}

/** Throws 403 when the store holds as much as it may. */
export function checkQuota(operation: Operation): void {
  const { quotaKilobytes } = operation.switches
  if (quotaKilobytes !== null && usedKilobytes(operation) >= quotaKilobytes) {
    throw new Refusal(403, code.overQuota)
  }
}

/** The size of all unexpired payloads of the store. */
export function usedKilobytes({ storage, uid, nowMs }: Operation): number {
  return storage.usage(uid, nowMs).reduce((sum, { bytes }) => sum + bytes, 0) / 1024
}

/** The header by which the Python server warns when less than 1 MB is left. */
export function quotaHeaders(operation: Operation): Record<string, string> {
  const { quotaKilobytes } = operation.switches
  if (quotaKilobytes === null || !operation.quirks.isPython) return {}
  const left = Math.max(0, Math.floor(quotaKilobytes - usedKilobytes(operation)))
  return left < 1024 ? { 'X-Weave-Quota-Remaining': String(left) } : {}
}
