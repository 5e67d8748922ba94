/** An answer of the storage before the headers that every answer gets. */
export interface Reply {
  status: number
  /** JSON text unless contentType says otherwise; null for no body. */
  body: string | ReadableStream<Uint8Array> | null
  contentType?: string
  /** Milliseconds; what becomes X-Last-Modified. Filled in with the resource's timestamp when a handler gives none. */
  lastModified?: number
  headers?: Record<string, string>
}

/** The integers that error bodies consist of; see Sync 1.5 API, "Response codes". */
export const code = { unspecified: 0, json: 6, invalidRecord: 8, overQuota: 14, tooLarge: 17 } as const

/** Any refusal of the storage: a status and a body that is one integer. Undoes the transaction it is thrown in. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: number | null = 0,
    readonly headers: Record<string, string> = {},
  ) {
    super(`refused with ${status}`)
  }
}

/** 200 with a JSON text. */
export function jsonReply(body: string, lastModified?: number): Reply {
  return lastModified === undefined ? { status: 200, body } : { status: 200, body, lastModified }
}
