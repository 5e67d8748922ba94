import type { Mode } from './quirks.ts'

/** The sizes that `info/configuration` announces, under the names it uses; see Sync 1.5 API, "info/configuration". */
export interface Limits {
  max_request_bytes: number
  max_post_bytes: number
  max_post_records: number
  max_record_payload_bytes: number
  max_total_bytes: number
  max_total_records: number
  /** Absent on the Python server. */
  max_quota_limit?: number
  /** Different sizes for some collections, by collection name. */
  collections?: Record<string, CollectionLimits>
}

/** The sizes that may differ for one collection. */
export type CollectionLimits = Partial<
  Pick<Limits, 'max_request_bytes' | 'max_post_bytes' | 'max_record_payload_bytes'>
>

const rustLimits: Limits = {
  max_request_bytes: 2_625_536,
  max_post_bytes: 2_621_440,
  max_post_records: 100,
  max_record_payload_bytes: 2_621_440,
  max_total_bytes: 262_144_000,
  max_total_records: 10_000,
  max_quota_limit: 2_097_152_000,
}

const pythonLimits: Limits = {
  max_request_bytes: 2_101_248,
  max_post_bytes: 2_097_152,
  max_post_records: 100,
  max_record_payload_bytes: 2_097_152,
  max_total_bytes: 209_715_200,
  max_total_records: 10_000,
}

/** What an implementation announces unless configured otherwise. */
export function defaultLimits(mode: Mode): Limits {
  if (mode === 'python') return { ...pythonLimits }
  // Spanner refuses larger mutations, so its total is capped whatever is configured.
  return mode === 'spanner' ? { ...rustLimits, max_total_bytes: 100_000_000 } : { ...rustLimits }
}

/** The limits in force for one collection. */
export function limitsFor(limits: Limits, collection: string): Limits {
  return { ...limits, ...limits.collections?.[collection] }
}

/** The `info/configuration` document. Without batching it lacks the four sizes that only batches and posts have. */
export function configurationDocument(limits: Limits, batching: boolean): Partial<Limits> {
  if (batching) return limits
  const { max_request_bytes, max_record_payload_bytes, max_quota_limit, collections } = limits
  return { max_request_bytes, max_record_payload_bytes, max_quota_limit, collections }
}
