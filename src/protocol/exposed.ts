/** The settings that shape what the exposed protocol says. */
export interface ExposedSettings {
  projectName: string
  /** Null: the pages that this service has itself. */
  projectDocs: string | null
  projectVersion: string
  errorInfoLink: string | null
  /** As configured, "1.5": the part before the dot is the version in every path. */
  httpApiVersion: string
  httpScheme: string | null
  httpHost: string | null
  batchMaxRequests: number
  readonly: boolean
  writable: { put: ReadonlySet<string>; delete: ReadonlySet<string> }
  retryAfterSeconds: number
  /** Seconds that clients are asked to stay away. */
  backoff: number | null
  /** End of service: as configured, and in ms since 1970. */
  eos: { text: string; atMs: number } | null
  eosMessage: string | null
  eosUrl: string | null
  /** Origins that browsers may call from, or null for all. */
  corsOrigins: ReadonlySet<string> | null
  corsMaxAgeSeconds: number
  maxRequestBytes: number
  docsEnabled: boolean
  explorerEnabled: boolean
  /** Whether an empty list of changes carries the moment it was asked from as its ETag, not the collection's. */
  flushSafeEtag: boolean
}

/** The version that is part of every path: "1" of "1.5". */
export function majorVersion(settings: Pick<ExposedSettings, 'httpApiVersion'>): string {
  return settings.httpApiVersion.split('.')[0]!
}

/** Whether the operator lets clients write records of a collection by this method. */
export function isWritable(settings: ExposedSettings, method: 'PUT' | 'DELETE', collection: string): boolean {
  if (settings.readonly) return false
  return (method === 'PUT' ? settings.writable.put : settings.writable.delete).has(collection)
}
