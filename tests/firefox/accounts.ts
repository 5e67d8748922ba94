import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import hawk from 'hawk'

/**
 * An account server on loopback with one account. Its token endpoint validates requests like Mozilla's, according to its public source: the
 * members of a body and their formats, the errors, and that a refresh token for Sync belongs to the device of its session. Also verifies
 * signatures of the session token, which Mozilla's server no longer does. Serves a page to visit at /page.
 */
export interface Accounts {
  readonly url: string
  readonly email: string
  /** What Firefox signs with: hexadecimal digits. */
  readonly sessionToken: string
  /** Method and path of every request so far. */
  readonly requests: readonly string[]
  /** The lifetime of the access tokens that it issues, whatever was requested; null for the requested one. */
  lifeSeconds: number | null
  /** A refresh token like those issued with a session. */
  grantRefreshToken(): string
  /** Imitates "Sign out" next to this Firefox on the account page. */
  signOutDevice(): void
  stop(): Promise<void>
}

interface AccountOptions {
  email: string
  /** The devices besides this Firefox. */
  devices: { id: string; name: string }[]
  mintAccessToken(lifeSeconds: number): string
}

/** An error response. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly errno: number,
    message: string,
  ) {
    super(message)
  }
}

const refused = {
  parameter: () => new Refusal(400, 107, 'Invalid parameter in request body'),
  token: () => new Refusal(401, 110, 'Invalid authentication token in request signature'),
  client: () => new Refusal(400, 162, 'Unknown client_id'),
  scope: () => new Refusal(400, 163, 'Requested scopes are not allowed'),
}

// Firefox's own client: public, and allowed to issue itself tokens.
const firefoxClient = '5882386c6d801776'
const allowedScopes = ['profile', 'profile:write', 'https://identity.mozilla.com/apps/oldsync']
const longestLifeSeconds = 6 * 3600

const hex = (digits: number) => (value: unknown) =>
  typeof value === 'string' && value.length === digits && /^[0-9a-f]+$/i.test(value)
const scope = (value: unknown) => typeof value === 'string' && /^[\w /.:-]{0,256}$/.test(value)
const ttl = (value: unknown) => typeof value === 'number' && value > 0

/** The members of a body by grant type, each with its format; those that end in `?` are optional. */
const grants: Record<string, Record<string, (value: unknown) => boolean>> = {
  'fxa-credentials': {
    'grant_type?': (value) => value === 'fxa-credentials',
    client_id: hex(16),
    'scope?': scope,
    'access_type?': (value) => value === 'online' || value === 'offline',
    'ttl?': ttl,
  },
  refresh_token: {
    grant_type: (value) => value === 'refresh_token',
    client_id: hex(16),
    refresh_token: hex(64),
    'scope?': scope,
    'ttl?': ttl,
  },
}
const destruction = {
  client_id: hex(16),
  'token?': hex(64),
  'token_type_hint?': (value: unknown) => typeof value === 'string' && value.length <= 64,
}

type Body = Record<string, unknown>

/** Starts the server. */
export function startAccounts({ email, devices, mintAccessToken }: AccountOptions): Accounts {
  const requests: string[] = []
  const sessionToken = randomBytes(32).toString('hex')
  const uid = createHash('sha256').update(email).digest('hex').slice(0, 32)
  const isSigned = signatureCheck(sessionToken)
  /** Scopes of the refresh tokens that have not been revoked. */
  const refreshTokens = new Map<string, string>()
  let deviceToken: string | null = null
  const own = { id: 'ab'.repeat(16), name: 'Firefox under test', type: 'desktop', isCurrentDevice: true }
  const others = devices.map((device) => ({ ...device, type: 'desktop', isCurrentDevice: false }))
  const answers: Record<string, unknown> = {
    'POST /v1/account/device': own,
    'GET /v1/account/devices': [own, ...others],
    'GET /v1/account/device/commands': { index: 0, last: true, messages: [] },
    'GET /v1/recovery_email/status': { email, verified: true, sessionVerified: true },
    'GET /v1/session/status': { state: 'verified', uid },
    'GET /v1/account/status': { exists: true },
    'GET /v1/account/attached_clients': [],
    'GET /v1/profile': { uid, email },
  }

  function tokenFor({ scope: scopes = '', ttl: lifeSeconds = longestLifeSeconds }: Body) {
    const expires_in = accounts.lifeSeconds ?? Math.min(Number(lifeSeconds), longestLifeSeconds)
    return { access_token: mintAccessToken(expires_in), token_type: 'bearer', scope: scopes, expires_in }
  }

  function grant(body: Body, hasSession: boolean) {
    const grantType = String(body.grant_type ?? 'fxa-credentials')
    check(body, grants[grantType])
    if (body.client_id !== firefoxClient) throw refused.client()
    const scopes = String(body.scope ?? '').split(' ')
    if (grantType === 'refresh_token') {
      const granted = refreshTokens.get(String(body.refresh_token))
      if (granted === undefined) throw refused.token()
      if (scopes.some((each) => each !== '' && !granted.split(' ').includes(each))) throw refused.scope()
      return tokenFor({ ...body, scope: body.scope ?? granted })
    }
    if (!hasSession) throw refused.token()
    if (!scopes.every((each) => allowedScopes.includes(each))) throw refused.scope()
    const token = { ...tokenFor(body), auth_at: Math.floor(Date.now() / 1000) }
    if (body.access_type !== 'offline') return token
    return { ...token, refresh_token: grantRefreshToken(String(body.scope)) }
  }

  function grantRefreshToken(scopes: string): string {
    deviceToken = randomBytes(32).toString('hex')
    refreshTokens.set(deviceToken, scopes)
    return deviceToken
  }

  // The OAuth service of the same server has its own error numbers.
  function grantAsService(body: Body) {
    try {
      return grant(body, false)
    } catch (error) {
      throw (error as Refusal).errno === 110 ? new Refusal(400, 108, 'Invalid token') : error
    }
  }

  function destroy(body: Body) {
    check(body, destruction)
    if (body.client_id !== firefoxClient) throw refused.client()
    // An unknown token counts as revoked.
    refreshTokens.delete(String(body.token))
    return {}
  }

  async function answer(request: Request, asked: string): Promise<unknown> {
    const text = await request.text()
    const authorization = request.headers.get('Authorization')
    const hasSession = authorization?.startsWith('Hawk ') ?? false
    if (hasSession && !(await isSigned(request, text))) throw refused.token()
    if (asked === 'POST /v1/oauth/token') return grant(JSON.parse(text), hasSession)
    if (asked === 'POST /v1/token') return grantAsService(JSON.parse(text))
    if (asked === 'POST /v1/oauth/destroy') return destroy(JSON.parse(text))
    return answers[asked] ?? {}
  }

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const asked = `${request.method} ${new URL(request.url).pathname}`
      requests.push(asked)
      if (asked === 'GET /page')
        return new Response('<title>A page</title>', { headers: { 'Content-Type': 'text/html' } })
      const headers = { Timestamp: String(Math.floor(Date.now() / 1000)) }
      try {
        return Response.json(await answer(request, asked), { headers })
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const { status, errno, message } = error
        return Response.json({ code: status, errno, error: 'Refused', message }, { status, headers })
      }
    },
  })
  const accounts: Accounts = {
    url: server.url.origin,
    email,
    sessionToken,
    requests,
    lifeSeconds: null,
    grantRefreshToken: () => grantRefreshToken(allowedScopes.at(-1)!),
    signOutDevice() {
      if (deviceToken !== null) refreshTokens.delete(deviceToken)
    },
    stop: () => server.stop(true),
  }
  return accounts
}

/** Throws unless a body has the required members, each in its format. Ignores others. */
function check(body: Body, members: Record<string, (value: unknown) => boolean> | undefined): void {
  if (members === undefined) throw refused.parameter()
  const isWell = Object.entries(members).every(([name, isForm]) => {
    const value = body[name.replace('?', '')]
    return value === undefined ? name.endsWith('?') : isForm(value)
  })
  if (!isWell) throw refused.parameter()
}

/** Whether a request with its body is signed with the session token, by Hawk. */
function signatureCheck(sessionToken: string): (request: Request, body: string) => Promise<boolean> {
  const name = 'identity.mozilla.com/picl/v1/sessionToken'
  const derived = Buffer.from(hkdfSync('sha256', Buffer.from(sessionToken, 'hex'), '', name, 64))
  const id = derived.subarray(0, 32).toString('hex')
  const credentials = { id, key: derived.subarray(32), algorithm: 'sha256' as const, user: '' }
  return async ({ method, url, headers }, payload) => {
    const { hostname: host, port, pathname, search } = new URL(url)
    const authorization = headers.get('Authorization')!
    const contentType = headers.get('Content-Type')!
    const line = { method, url: pathname + search, host, port: Number(port), authorization, contentType }
    const lookUp = async (asked: string) => (asked === id ? credentials : null)
    const isSound = hawk.server.authenticate(line, lookUp, payload === '' ? {} : { payload })
    return isSound.then(
      () => true,
      () => false,
    )
  }
}
