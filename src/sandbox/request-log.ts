const mostEntries = 10_000

/** One request that a server was asked. */
export interface LoggedRequest {
  readonly method: string
  /** Path and query as sent. */
  readonly target: string
  readonly headers: Headers
  /** Zero until it has been answered. */
  status: number
  /** What went wrong inside the sandbox, when it answered 500. */
  failure?: unknown
}

/** What a server was asked, oldest first, at most the last 10 000. */
export interface RequestLog {
  readonly entries: readonly LoggedRequest[]
  clear(): void
}

/** A log and the function that adds to it and fills in the status once it is known. */
export function createRequestLog(): RequestLog & {
  add(request: Omit<LoggedRequest, 'status' | 'failure'>): LoggedRequest
} {
  const entries: LoggedRequest[] = []
  return {
    entries,
    clear: () => entries.splice(0),
    add(request) {
      const entry: LoggedRequest = { ...request, status: 0 }
      entries.push(entry)
      if (entries.length > mostEntries) entries.shift()
      return entry
    },
  }
}
