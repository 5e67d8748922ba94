import { ServiceError } from '../domain/errors.ts'

/**
 * Whether an error is the storage's definite answer to what was asked: nothing was done, trying again would not
 * help, and the other operations are not concerned.
 */
export function isRefusal(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.status < 500
}
