/** Error numbers of the exposed protocol. */
export const errno = {
  missingCredentials: 104,
  invalidCredentials: 105,
  invalidHeader: 107,
  invalidParameters: 109,
  unknownRecord: 110,
  unknownPath: 111,
  requestTooLarge: 113,
  preconditionFailed: 114,
  methodNotAllowed: 115,
  unknownVersion: 116,
  tooManyRequests: 117,
  forbidden: 121,
  conflict: 122,
  backend: 201,
  serviceEnded: 202,
  undefined: 999,
} as const

export type Errno = (typeof errno)[keyof typeof errno]

/**
 * What of a client's request is invalid, in the words of this model: the position of a page, the bounds of a list, the id of a record, what is
 * uploaded, the media type or the coding of a body, or its arrival. Where in a request it is, `protocol/problems.ts` knows.
 */
export type InvalidPart = 'page' | 'list' | 'record' | 'upload' | 'media-type' | 'coding' | 'body'

/** Optional parts of an error response. */
interface ServiceErrorExtras {
  /** The message says what is wrong with this part. */
  invalid?: InvalidPart
  details?: object
  headers?: Record<string, string>
  retryAfterSeconds?: number | null
  cause?: unknown
}

/** An error response: status, error number and message for the client. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'

  constructor(
    readonly status: number,
    readonly errno: Errno,
    message: string,
    readonly extras: ServiceErrorExtras = {},
  ) {
    super(message, { cause: extras.cause })
  }
}

/** The error for an invalid part of a request, with 400 unless `status` says otherwise. The message never quotes what could be secret. */
export function invalidPart(
  invalid: InvalidPart,
  message: string,
  { status = 400, headers }: { status?: number; headers?: Record<string, string> } = {},
): ServiceError {
  return new ServiceError(status, errno.invalidParameters, message, { invalid, headers })
}

/** The error for a record that the storage rejects, with 413 if it is too large, otherwise as invalid. */
export function rejectedRecord(status: number): ServiceError {
  if (status !== 413) return invalidPart('record', 'was rejected by the storage')
  return new ServiceError(413, errno.requestTooLarge, 'The record is larger than the storage accepts')
}

/**
 * Whether the storage definitely rejected the operation: nothing was written, a retry would not help, and other operations are not affected.
 */
export function isRefusal(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.status < 500
}

/** How a call to the token server or the storage failed. */
export type UpstreamFailure =
  /** Nothing was sent (connection refused, unknown host, TLS); certainly not applied. */
  | 'unreachable'
  /** Sent, but no usable response arrived (reset, truncated); may have been applied. */
  | 'connection-lost'
  /** Timed out; may have been applied. */
  | 'timeout'
  /** It returned 5xx, or was not called because a `Retry-After` still applies; `applied` says whether a write may have been applied. */
  | 'refused'
  /** The response does not follow the protocol. */
  | 'bad-response'
  /** A concurrent write caused a conflict; certainly not applied. */
  | 'conflict'
  /** A read was aborted because its client disconnected. */
  | 'abandoned'
  /** Not sent: too many calls to that host are in flight, or there is no memory for the response. */
  | 'overload'

const neverApplied = new Set<UpstreamFailure>(['unreachable', 'conflict', 'overload'])

/** The token server or the storage failed. The client gets 503, and never upstream text. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** Seconds to wait, as upstream asked; null if it did not ask. */
  readonly retryAfterSeconds: number | null
  /** The HTTP status of upstream's response; null if there was none. */
  readonly status: number | null
  /** For a write: whether it may have been applied. */
  readonly applied: 'no' | 'unknown'

  constructor(
    readonly failure: UpstreamFailure,
    message: string,
    options: Partial<Pick<UpstreamError, 'retryAfterSeconds' | 'status' | 'applied' | 'cause'>> = {},
  ) {
    super(message, { cause: options.cause })
    this.retryAfterSeconds = options.retryAfterSeconds ?? null
    this.status = options.status ?? null
    this.applied = options.applied ?? (neverApplied.has(failure) ? 'no' : 'unknown')
  }
}

/** Whether a write that failed with this error was certainly not applied. */
export function isWithoutEffect(error: unknown): boolean {
  return error instanceof ServiceError || (error instanceof UpstreamError && error.applied === 'no')
}

/** Whether a write failed because of a concurrent write; then it was not applied. */
export function isWriteConflict(error: unknown): error is UpstreamError {
  return error instanceof UpstreamError && error.failure === 'conflict'
}
