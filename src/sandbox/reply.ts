/** A response of the storage, without the headers that every response gets. */
export interface Reply {
  status: number
  /** JSON text unless contentType says otherwise; null for no body. */
  body: string | ReadableStream<Uint8Array> | null
  contentType?: string
  /** The value of X-Last-Modified in milliseconds. @default the resource's timestamp */
  lastModified?: number
  headers?: Record<string, string>
}

/** The codes in error bodies; see Sync 1.5 API, "Response codes". */
export const code = { unspecified: 0, json: 6, invalidRecord: 8, overQuota: 14, tooLarge: 17 } as const

/** An error response of the storage: a status, and a code as its body. Rolls back the transaction that throws it. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: number | null = 0,
    readonly headers: Record<string, string> = {},
  ) {
    super(`refused with ${status}`)
  }
}

/** A 200 response with JSON text. */
export function jsonReply(body: string, lastModified?: number): Reply {
  return lastModified === undefined ? { status: 200, body } : { status: 200, body, lastModified }
}
