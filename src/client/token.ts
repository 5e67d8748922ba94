import { ClientError } from './errors.ts'
import type { Renewal } from './account.ts'

export { isRenewable } from './account.ts'

const scope = 'https://identity.mozilla.com/apps/oldsync'
// A response has a few hundred characters, and takes less than a second.
const maxAnswerLength = 65_536
const timeoutMs = 20_000
const newValues = 'get new values from Firefox with the recipe'

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/**
 * Gets a new access token, valid for an hour. Throws `ClientError`; if the refresh token is no longer valid, the message says what to do.
 */
export async function renewToken(account: Renewal, fetch: Fetch): Promise<string> {
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
export async function revokeRefreshToken(account: Renewal, fetch: Fetch): Promise<void> {
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
  if (!URL.canParse(url) || isClearText(url))
    throw new ClientError(`${failure}: TOKEN_ENDPOINT must begin with https://, unless it is on this machine`)
  const noAnswer = (cause: unknown) =>
    new ClientError(`${failure}: no response from ${new URL(url).origin}`, { cause })
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    // A redirect could send the refresh token to another server.
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((error: unknown) => {
    throw noAnswer(error)
  })
  const text = await boundedText(answer).catch((error: unknown) => {
    throw noAnswer(error)
  })
  return { answer, body: parsed(text) }
}

/** The body as text. Rejects if it does not end within the deadline of its request, or is too large for what these servers send. */
async function boundedText({ body }: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  const reader = body?.getReader()
  for (let part = await reader?.read(); part && !part.done; part = await reader!.read()) {
    text += decoder.decode(part.value, { stream: true })
    if (text.length <= maxAnswerLength) continue
    await reader!.cancel()
    throw new Error('The response is too large')
  }
  return text
}

function parsed(text: string): Body {
  try {
    return JSON.parse(text) as Body
  } catch {
    return null
  }
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

/** Whether others on the way can read requests to this address: plain HTTP to another machine. */
export function isClearText(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol !== 'https:' && !/^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}
