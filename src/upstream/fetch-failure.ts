import { UpstreamError } from '../domain/errors.ts'

/**
 * What a rejection of `fetch`, or of a body it gave, says about the call. Only what happens before the first byte
 * of a request can be sent counts as `unreachable`. What isn't a failure of the network is passed on as it is.
 */
export function toUpstreamError(error: unknown, host: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  const code = codeOf(error)
  if (code === null) throw error
  if (neverSent.test(code)) return new UpstreamError('unreachable', `Cannot reach "${host}": ${code}`)
  return new UpstreamError('connection-lost', `Cannot get an answer of "${host}": ${code}`)
}

const neverSent =
  /^(ECONNREFUSED|ConnectionRefused|FailedToOpenSocket|E(HOST|NET)(UNREACH|DOWN)|ENOTFOUND|EAI_|EDNS|DNS_|.*CERT|.*_ISSUER|ERR_TLS_|HOSTNAME_MISMATCH|CRL_|INVALID_CA|INVALID_PURPOSE)/

function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if ('code' in error && typeof error.code === 'string') return error.code
  // An abort that didn't carry a reason of ours; the runtime's own patience, which is longer than ours.
  return error.name === 'AbortError' || error.name === 'TimeoutError' ? error.name : null
}
