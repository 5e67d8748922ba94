/** What a handler answers; `envelope.ts` makes a message of it. */
import type { Errno } from '../domain/errors.ts'
import type { ByteSource } from '../domain/record-storage.ts'

/** An answer before it becomes a message: `toResponse` adds what every answer carries. */
export interface Reply {
  status: number
  headers: Record<string, string>
  /** JSON text or bytes; null for an answer without a body. */
  body: string | Uint8Array | ByteSource | null
  /** The body that a batch shows for an answer without a body. */
  tombstone?: object
  /** Called when the last byte was handed on, or when the client has left. */
  ended?: () => void
  /** What the body of an error answer says, for logs. */
  errno?: Errno
}

/** A plain JSON answer. */
export function jsonReply(value: unknown, headers: Record<string, string> = {}, status = 200): Reply {
  return { status, headers, body: JSON.stringify(value) }
}

/** An answer with a status and nothing else. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null }
}
