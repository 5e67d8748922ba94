import { errno } from '../domain/errors.ts'
import type { ClientError } from '../client/errors.ts'

/** The names of the values that decide about the token server and certificates, as a user knows them. */
export interface Places {
  tokenServer: string
  /** What to do about an unknown authority. */
  authority: string
}

/** What to do about a failure of the token server or the storage, by its message; empty if nothing is known. */
export function adviceOn(message: string, { tokenServer, authority }: Places): string {
  const advice = advices.find(([pattern]) => pattern.test(message))?.[1] ?? ''
  return advice.replace('AUTHORITY', authority).replace('TOKEN_SERVER', tokenServer)
}

const advices: [pattern: RegExp, advice: string][] = [
  [/SELF_SIGNED|UNABLE_TO_|_ISSUER/, ': its certificate is from an unknown authority; AUTHORITY'],
  [/ALTNAME|HOSTNAME_MISMATCH/, ': its certificate is for another host'],
  [
    /CERT_(HAS_EXPIRED|NOT_YET_VALID)/,
    ": its certificate is not valid today; renew it, or correct this machine's clock",
  ],
  [/ECONNREFUSED/, ': nothing listens there; check TOKEN_SERVER'],
  [/EPROTO/, ': no TLS there, or the handshake failed; check TOKEN_SERVER'],
  [/Lost the connection|No response|Unusable response|is not JSON|too long/, ': check TOKEN_SERVER'],
  [/ENOTFOUND|EAI_|DNS_/, ': the host is unknown; check TOKEN_SERVER'],
]

/** What to do about an error that a bridge returned; empty if nothing is known. */
export function adviceFor({ field, errno: number }: ClientError): string {
  if (number === errno.unknownPath)
    return ': the bridge does not expose this collection, or its address has a wrong path'
  return field === null || field === 'bridgeUrl' ? '' : '\nGet new values with "sync-bridge connect".'
}
