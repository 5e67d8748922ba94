/** An error of the client; its message is meant for users. */
export class ClientError extends Error {
  /** The account value that has to change, or null. */
  readonly field: AccountField | null
  /** The status of the response; null without one. */
  readonly status: number | null
  /** The `errno` of the response; null without one. */
  readonly errno: number | null
  /** Whether the response to a write was lost, so that it may have been applied. */
  readonly mayBeApplied: boolean

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.name = 'ClientError'
    this.field = details.field ?? null
    this.status = details.status ?? null
    this.errno = details.errno ?? null
    this.mayBeApplied = details.mayBeApplied ?? false
  }
}

/** The account values that a user may have to correct. */
export type AccountField = 'token' | 'keyId' | 'bucket' | 'syncKey' | 'bridgeUrl'

interface ErrorDetails {
  field?: AccountField | null
  status?: number | null
  errno?: number | null
  mayBeApplied?: boolean
  cause?: unknown
}
