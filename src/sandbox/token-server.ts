import { createHash, createHmac, randomBytes } from 'node:crypto'
import type { AccountRow, Accounts, Claimed } from './accounts.ts'
import type { Dialect } from './dialect.ts'
import type { Tokens } from './hawk.ts'
import { dockerflow, type RequestTarget } from './http.ts'
import {
  formatKeyId,
  readKeyId,
  TokenError,
  unauthorized,
  verifyAssertion,
  verifyBearerToken,
} from './identities.ts'
import type { Switches } from './options.ts'
import type { SandboxClock } from './timestamps.ts'

/** What the token server depends on. */
interface TokenServerParts {
  accounts: Accounts
  tokens: Tokens
  clock: SandboxClock
  switches: Switches
  dialect: Dialect
  secret: string
}

/** Answers requests to the token server; see token server API. */
export function createTokenServer(
  parts: TokenServerParts,
): (request: Request, target: RequestTarget) => Promise<Response> {
  return async (request, target) => {
    try {
      return await answer(parts, request, target)
    } catch (error) {
      if (!(error instanceof TokenError)) throw error
      return Response.json(error.toJSON(), { status: error.httpStatus })
    }
  }
}

async function answer(parts: TokenServerParts, request: Request, target: RequestTarget): Promise<Response> {
  if (target.path.startsWith('/__')) return dockerflow(parts.switches, target.path)
  if (target.path === '/') return new Response(null, { status: 302, headers: { Location: '/__version__' } })
  const route = /^\/1\.0\/([^/]+)\/([^/]+)$/.exec(target.path)
  if (route === null) return new Response(target.path.startsWith('/1.0/') ? null : '0', { status: 404 })
  if (request.method !== 'GET') return new Response(null, { status: 405, headers: { Allow: 'GET' } })
  const claimed = identify(parts, request.headers)
  // The real server checks application and version only after authentication.
  const [, application = '', version = ''] = route
  if (application !== 'sync') throw unsupported('application', 'Unsupported application')
  if (version !== '1.5') throw unsupported(version, 'Unsupported application version')
  const row = parts.accounts.resolve(claimed)
  return grant(parts, row, new URLSearchParams(target.query).get('duration'))
}

function identify(parts: TokenServerParts, headers: Headers): Claimed {
  const { switches, clock } = parts
  const [scheme = '', credential = '', ...rest] = headers.get('Authorization')?.trim().split(/ +/) ?? []
  if (scheme === '' || credential === '' || rest.length > 0) throw unauthorized('error')
  const kind = scheme.toLowerCase()
  if (kind !== 'browserid' && kind !== 'bearer') throw unauthorized('error', 'Unsupported')
  const header = headers.get('X-Client-State')
  if (header !== null && header !== '' && !/^[a-zA-Z0-9._-]{1,32}$/.test(header)) {
    throw new TokenError(400, 'error', 'header', 'X-Client-State', 'Invalid client state value')
  }
  if (kind === 'browserid') {
    const asserted = verifyAssertion(credential, switches.audiences, clock.nowMs())
    return { ...asserted, clientState: header ?? '' }
  }
  const verified = verifyBearerToken(credential, clock.nowMs())
  const keyId = readKeyId(headers.get('X-KeyID'))
  if (header && header !== keyId.clientState) {
    throw new TokenError(401, 'invalid-client-state', 'body', '', 'Unauthorized')
  }
  return { ...verified, ...keyId }
}

function grant(parts: TokenServerParts, row: AccountRow, requested: string | null): Response {
  const { switches, clock, tokens, dialect } = parts
  const duration = grantedDuration(requested, switches.tokenDurationSeconds)
  const nowSeconds = Math.floor(clock.nowMs() / 1000)
  const account = row.email.slice(0, row.email.indexOf('@'))
  const hashed = createHmac('sha256', parts.secret).update(account).digest('hex').slice(0, 32)
  const salt = randomBytes(3).toString('hex')
  const id = tokens.seal({
    uid: row.uid,
    node: switches.nodeUrl,
    expires: nowSeconds + duration,
    salt,
    fxa_uid: account,
    fxa_kid: formatKeyId(row.keysChangedAt ?? 0, row.clientState),
    hashed_fxa_uid: hashed,
    hashed_device_id: createHash('sha256').update(`${hashed}none`).digest('hex').slice(0, 32),
    tokenserver_origin: 'rust',
  })
  const granted = {
    id,
    key: tokens.keyOf(id, salt),
    uid: row.uid,
    api_endpoint: `${switches.nodeUrl}/1.5/${row.uid}`,
    duration,
    hashalg: 'sha256',
    hashed_fxa_uid: hashed,
    node_type: dialect.nodeType,
  }
  return Response.json(granted, {
    headers: { 'X-Timestamp': String(nowSeconds), 'X-Content-Type-Options': 'nosniff' },
  })
}

// A client may only shorten the lifetime of its token; invalid values are ignored.
function grantedDuration(requested: string | null, maxSeconds: number): number {
  if (requested === null || !/^\d{1,15}$/.test(requested)) return maxSeconds
  const seconds = Number(requested)
  return Math.min(seconds, maxSeconds)
}

function unsupported(name: string, description: string): TokenError {
  return new TokenError(404, 'error', 'url', name, description)
}
