/** The settings that shape what the exposed protocol says. */
export interface ExposedSettings {
  projectName: string
  /** Null: the service's own pages. */
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
  /** Seconds of the pause that clients are asked for. */
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
  /** Whether an empty list of changes has the moment of `_since` as its ETag, instead of the collection's. */
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
