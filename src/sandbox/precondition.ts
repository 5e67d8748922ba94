import { Refusal, type Reply } from './reply.ts'
import { parseSeconds } from './timestamps.ts'

/** The X-If headers of a request, in milliseconds. */
export interface Precondition {
  modifiedSince: number | null
  unmodifiedSince: number | null
}

/** Always holds. */
export const noPrecondition: Precondition = { modifiedSince: null, unmodifiedSince: null }

/** Reads the X-If headers; throws 400 when both are there or one isn't a timestamp. */
export function readPrecondition(headers: Headers): Precondition {
  const modifiedSince = readHeader(headers, 'X-If-Modified-Since')
  const unmodifiedSince = readHeader(headers, 'X-If-Unmodified-Since')
  if (modifiedSince !== null && unmodifiedSince !== null) throw new Refusal(400)
  return { modifiedSince, unmodifiedSince }
}

/**
 * The answer when the precondition fails, else null. A missing resource has the timestamp 0, so nothing fails on it
 * but X-If-Modified-Since, which is looked at for writes, too; see Sync 1.5 API, "X-If-Unmodified-Since".
 */
export function failedPrecondition(
  { modifiedSince, unmodifiedSince }: Precondition,
  resource: number,
): Reply | null {
  if (modifiedSince !== null && resource <= modifiedSince) {
    return { status: 304, body: null, lastModified: resource }
  }
  if (unmodifiedSince !== null && resource > unmodifiedSince) {
    return { status: 412, body: null, lastModified: resource }
  }
  return null
}

function readHeader(headers: Headers, name: string): number | null {
  const text = headers.get(name)
  if (text === null) return null
  const timestamp = parseSeconds(text.trim())
  if (timestamp === null) throw new Refusal(400)
  return timestamp
}
