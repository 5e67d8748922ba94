/** What a client proves itself with. Secret in every part, never logged. */
export interface Identity {
  scheme: 'BrowserID' | 'Bearer'
  /** The identity assertion or the OAuth access token. */
  assertion: string
  /** Hex text that names the user's encryption key: the bucket id, and what the token server is told. */
  clientState: string
  /** The X-KeyID header that goes with an access token: `<keys_changed_at>-<base64url client state>`. */
  keyId?: string
  /** All of these as one text, different for different identities. */
  key: string
}

/** What the token server exchanges an identity for; enough to read and write one user's storage. */
export interface SyncCredentials {
  hawkId: string
  hawkKey: string
  /** Base address of the user's storage, without a trailing slash. */
  endpoint: string
  uid: number
  /** Wall clock, ms since 1970, after which the storage refuses them. */
  expiresAtMs: number
}

export function createIdentity(parts: Omit<Identity, 'key'>): Identity {
  const { scheme, assertion, clientState, keyId } = parts
  return { ...parts, key: joinFields(scheme, assertion, clientState, keyId) }
}

/** The length precedes each field, so that no text can move from one field into the next. */
export function joinFields(...fields: (string | undefined)[]): string {
  let text = ''
  for (const field of fields) text += field === undefined ? '-' : `${field.length}:${field}`
  return text
}
