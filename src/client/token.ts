import { ClientError } from './errors.ts'
import type { Account } from './account.ts'

export { isRenewable } from './account.ts'

const scope = 'https://identity.mozilla.com/apps/oldsync'
const newValues = 'get new values from Firefox with the recipe'

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/**
 * Gets a new access token, valid for an hour. Throws `ClientError`; if the refresh token is no longer valid, the message says what to do.
 */
export async function renewToken(account: Account, fetch: Fetch): Promise<string> {
  const { refreshToken, clientId, tokenEndpoint } = account
  const wanted = { grant_type: 'refresh_token', client_id: clientId, refresh_token: refreshToken, scope }
  const failure = 'Cannot renew the access token'
  const { answer, body } = await post(fetch, tokenEndpoint, { ...wanted, ttl: 3600 }, failure)
  // The token is written to a file that shells read.
  const token: unknown = body?.access_token
  if (answer.ok && typeof token === 'string' && /^[\w.~+/=-]+$/.test(token)) return token
  // The account server and its OAuth service use different error numbers.
  if ((answer.status === 401 && body?.errno === 110) || (answer.status === 400 && body?.errno === 108))
    throw new ClientError(`The refresh token was revoked, or the password was changed: ${newValues}`, {
      field: 'token',
    })
  throw refused(failure, answer, body)
}

/** Resolves or rejects with the promise, which several may await; rejects when the signal is aborted first. */
export function unlessAborted(promise: Promise<void>, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) reject(signal.reason)
    const onAbort = () => reject(signal!.reason)
    signal?.addEventListener('abort', onAbort)
    void promise.then(resolve, reject).finally(() => signal?.removeEventListener('abort', onAbort))
  })
}

/** Revokes the refresh token. Throws `ClientError`; an already invalid token counts as revoked. */
export async function revokeRefreshToken(account: Account, fetch: Fetch): Promise<void> {
  const { refreshToken, clientId, tokenEndpoint } = account
  const url = tokenEndpoint.replace(/\/token$/, '/destroy')
  const failure = 'Cannot revoke the refresh token'
  const { answer, body } = await post(fetch, url, { client_id: clientId, token: refreshToken }, failure)
  const isUnknown =
    (answer.status === 400 || answer.status === 401) && [108, 110].includes(Number(body?.errno))
  if (!answer.ok && !isUnknown) throw refused(failure, answer, body)
}

type Body = { access_token?: unknown; errno?: unknown; message?: unknown } | null

async function post(
  fetch: Fetch,
  url: string,
  body: object,
  failure: string,
): Promise<{ answer: Response; body: Body }> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    // A redirect could send the refresh token to another server.
    redirect: 'error',
  }).catch((error: unknown) => {
    const origin = URL.canParse(url) ? new URL(url).origin : 'the address of the account server'
    throw new ClientError(`${failure}: no response from ${origin}`, { cause: error })
  })
  return { answer, body: await answer.json().catch(() => null) }
}

function refused(failure: string, { status }: Response, body: Body): ClientError {
  // Mozilla's bot protection, which only browsers can pass.
  if (status === 406 && body === null) {
    const advice = `Try again later or from another network, or ${newValues}`
    return new ClientError(
      `${failure}: the account server requires a check that only browsers pass (406). ${advice}`,
      { status },
    )
  }
  const message = typeof body?.message === 'string' ? ` ${body.message}` : ''
  return new ClientError(`${failure}: the account server returned ${status}${message}`, { status })
}
