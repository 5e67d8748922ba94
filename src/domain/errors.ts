/** Error numbers of the exposed protocol, by what happened. */
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

/** One thing that is wrong with a request; `description` never quotes a value that could be secret. */
export interface Problem {
  location: 'body' | 'querystring' | 'path' | 'header'
  name: string
  description: string
}

/** What an error answer may tell besides its status and message. */
interface ServiceErrorExtras {
  /** All problems found; the message describes the first. */
  problems?: Problem[]
  details?: Record<string, unknown>
  headers?: Record<string, string>
  retryAfterSeconds?: number
  cause?: unknown
}

/** An error answer in our own words: its status, its error number and a message for the client. */
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

/**
 * An error answer that names everything wrong with the request, sorted once by location and name: a 400, unless
 * another status is asked for.
 */
export function invalidRequest(
  problems: Problem[],
  { status = 400, headers }: { status?: number; headers?: Record<string, string> } = {},
): ServiceError {
  const placeOf = (problem: Problem) => `${problem.location} ${problem.name}`
  const sorted = problems.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
  const { location, name, description } = sorted[0]!
  const number = location === 'header' ? errno.invalidHeader : errno.invalidParameters
  const place = name === location ? name : `${name} in ${location}`
  return new ServiceError(status, number, `${place}: ${description}`, { problems: sorted, headers })
}

/** The same where one thing is wrong. */
export function invalid(
  location: Problem['location'],
  name: string,
  description: string,
  extras?: Parameters<typeof invalidRequest>[1],
): ServiceError {
  return invalidRequest([{ location, name, description }], extras)
}

/**
 * Whether an error is a definite refusal by the storage: nothing was written, a retry would not help, and the other
 * operations are not concerned.
 */
export function isRefusal(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.status < 500
}

/** How a call to the token server or the storage broke. */
export type UpstreamFailure =
  /** Nothing was sent (refused, unknown host, TLS); certainly not applied. */
  | 'unreachable'
  /** Sent, but no usable answer came (reset, truncated); may have been applied. */
  | 'connection-lost'
  /** No answer in time; may have been applied. */
  | 'timeout'
  /**
   * It answered that it can't now (5xx, 429), or is left alone for a while because it kept failing or asked for that;
   * `applied` says what this means for a write.
   */
  | 'refused'
  /** It answered something that the protocol does not know. */
  | 'bad-response'
  /** It answered that another write got in the way; certainly not applied. */
  | 'conflict'
  /** A read was given up, because its client has hung up. */
  | 'abandoned'
  /** We did not even send, because too many calls to that host are in flight, or there is no memory for the answer. */
  | 'overload'

const neverApplied = new Set<UpstreamFailure>(['unreachable', 'conflict', 'overload'])

/** The token server or the storage broke. Always answered 503; what upstream wrote is never shown. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** Seconds that upstream asked to wait, if it did. */
  readonly retryAfterSeconds: number | null
  /** The HTTP status that upstream answered, or null when there was none. */
  readonly status: number | null
  /** For a write: whether the storage may have carried it out. */
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

/** Whether a write that ended with this error was certainly not carried out. */
export function isWithoutEffect(error: unknown): boolean {
  return error instanceof ServiceError || (error instanceof UpstreamError && error.applied === 'no')
}

/** Whether a write ended because another one got in its way; then it was not carried out. */
export function isWriteConflict(error: unknown): error is UpstreamError {
  return error instanceof UpstreamError && error.failure === 'conflict'
}
