import { createHash } from 'node:crypto'
import type { Accounts } from './accounts.ts'
import { clientStateOf, syncKeyOf } from './crypto.ts'
import { formatKeyId, issuer, mintAssertion, mintBearerToken, syncScope } from './identities.ts'
import type { SandboxClock } from './timestamps.ts'

/** Properties of a new identity. */
export interface UserOptions {
  /** When the account's keys last changed, in milliseconds. The keys are derived from it. @default 2017-07-14 */
  keysChangedAt?: number
  /** When its password last changed, in milliseconds. @default keysChangedAt */
  generation?: number
  /** False: the token server hasn't seen the account yet. @default true */
  registered?: boolean
}

/** Overrides for a BrowserID assertion. */
interface AssertionOptions {
  /** @default 3600 */
  expiresInSeconds?: number
  /** @default a day longer than the assertion */
  certificateExpiresInSeconds?: number
  /** @default the token server */
  audience?: string
  issuer?: string
  /** Null leaves the claim out. */
  generation?: number | null
  /** Null leaves the claim out. */
  keysChangedAt?: number | null
}

/** Overrides for an access token. */
interface BearerOptions {
  /** @default 3600 */
  expiresInSeconds?: number
  scope?: string
  /** Null leaves the claim out. */
  generation?: number | null
}

interface UserParts {
  accounts: Accounts
  clock: SandboxClock
  tokenServerUrl: string
}

const defaultKeysChangedAt = 1_500_000_000_000
const daySeconds = 24 * 3600

/** A user: an account with its keys. */
export class SandboxUser {
  readonly email: string
  /** 32 hex digits. */
  readonly clientState: string
  /** The value of X-KeyID. */
  readonly keyId: string
  /** 64 bytes: the encryption key and the HMAC key of crypto/keys. */
  readonly syncKey: Buffer
  readonly keysChangedAt: number
  readonly generation: number
  readonly #parts: UserParts

  constructor(
    readonly name: string,
    parts: UserParts,
    { keysChangedAt = defaultKeysChangedAt, generation = keysChangedAt, registered = true }: UserOptions = {},
  ) {
    const masterKey = createHash('sha256').update(`sandbox key ${name} ${keysChangedAt}`).digest()
    this.#parts = parts
    this.email = `${createHash('sha256').update(name).digest('hex').slice(0, 32)}@${issuer}`
    this.clientState = clientStateOf(masterKey)
    this.syncKey = syncKeyOf(masterKey)
    this.keyId = formatKeyId(keysChangedAt, this.clientState)
    this.keysChangedAt = keysChangedAt
    this.generation = generation
    if (registered && parts.accounts.find(this.email) === undefined) parts.accounts.register(this)
  }

  /** The number of the user's store; `reassign` changes it, and it is 0 until the token server has seen these keys. */
  get uid(): number {
    return this.#parts.accounts.find(this.email, this.clientState)?.uid ?? 0
  }

  /** Creates a BrowserID assertion. Send it as `Authorization: BrowserID <this>`, with X-Client-State. */
  assertion(options: AssertionOptions = {}): string {
    const { expiresInSeconds = 3600 } = options
    const { certificateExpiresInSeconds = Math.max(0, expiresInSeconds) + daySeconds } = options
    const nowMs = this.#parts.clock.nowMs()
    return mintAssertion({
      email: this.email,
      audience: this.#parts.tokenServerUrl,
      issuer,
      generation: this.generation,
      keysChangedAt: this.keysChangedAt,
      ...options,
      expiresAtMs: nowMs + expiresInSeconds * 1000,
      certificateExpiresAtMs: nowMs + certificateExpiresInSeconds * 1000,
    })
  }

  /** Creates an OAuth access token. Send it as `Authorization: Bearer <this>`, with X-KeyID. */
  bearerToken({ expiresInSeconds = 3600, ...options }: BearerOptions = {}): string {
    return mintBearerToken({
      account: this.email.slice(0, this.email.indexOf('@')),
      scope: syncScope,
      generation: this.generation,
      ...options,
      expiresAt: Math.floor(this.#parts.clock.nowMs() / 1000) + expiresInSeconds,
    })
  }
}
