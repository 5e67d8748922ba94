/** Why a client cannot go on, in words for the person in front of it. */
export class ClientError extends Error {
  /** The value that would have to be another one, or null. */
  readonly field: AccountField | null
  /** The status of the bridge's answer, or null where there was none. */
  readonly status: number | null
  /** The bridge's `errno`, or null. */
  readonly errno: number | null

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.name = 'ClientError'
    this.field = details.field ?? null
    this.status = details.status ?? null
    this.errno = details.errno ?? null
  }
}

/** The values of an account that a person may have to correct. */
export type AccountField = 'token' | 'keyId' | 'bucket' | 'syncKey' | 'bridgeUrl'

interface ErrorDetails {
  field?: AccountField | null
  status?: number | null
  errno?: number | null
  cause?: unknown
}
