/** Where the token server saw the fault, as its error documents name it. */
export type ErrorLocation = 'body' | 'header' | 'url' | 'internal'

/** A refusal of the token server; see token server API, "Response". */
export class TokenError extends Error {
  constructor(
    readonly httpStatus: number,
    /** The machine-readable word, such as "invalid-credentials". */
    readonly status: string,
    readonly location: ErrorLocation,
    readonly field: string,
    description: string,
  ) {
    super(description)
  }

  /** The error document. */
  toJSON(): object {
    return {
      status: this.status,
      errors: [{ location: this.location, name: this.field, description: this.message }],
    }
  }
}

/** 401 with a status word, the commonest refusal. */
export function unauthorized(status: string, description = 'Unauthorized'): TokenError {
  return new TokenError(401, status, 'body', '', description)
}

/** 401 for a client state that may not be used now. */
export function invalidClientState(description: string): TokenError {
  return new TokenError(401, 'invalid-client-state', 'header', 'X-Client-State', description)
}
