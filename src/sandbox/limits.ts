/** The limits of `info/configuration`, under their original names; see Sync 1.5 API, "info/configuration". */
export interface Limits {
  max_request_bytes: number
  max_post_bytes: number
  max_post_records: number
  max_record_payload_bytes: number
  max_total_bytes: number
  max_total_records: number
  /** Absent on some servers. */
  max_quota_limit?: number
  /** Overrides by collection name. */
  collections?: Record<string, CollectionLimits>
}

/** The limits that a collection may override. */
type CollectionLimits = Partial<
  Pick<Limits, 'max_request_bytes' | 'max_post_bytes' | 'max_record_payload_bytes'>
>

/** The limits in force for one collection. */
export function limitsFor(limits: Limits, collection: string): Limits {
  return { ...limits, ...limits.collections?.[collection] }
}
