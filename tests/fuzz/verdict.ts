import { STATUS_CODES } from 'node:http'

import type { LoggedRequest } from '../support/sandbox.ts'
import type { PlainAnswer } from '../support/keep-alive.ts'
import { collections, type FuzzedRequest } from './requests.ts'

/** Statuses that the runtime returns by itself to invalid HTTP, without a body and closing the connection. */
const ofTheParser = new Set([400, 413, 431, 505])

/** The error in a response; null if none. A null response: the connection was closed without one. */
export function faultOfAnswer(request: FuzzedRequest, answer: PlainAnswer | null): string | null {
  if (answer === null) return request.isWellFormed && !isUnknownMethod(request) ? 'is not answered' : null
  const { status, headers, body } = answer
  if (!request.isWellFormed && ofTheParser.has(status) && body.length === 0) return null
  if (status >= 500 || status < 200) return `is answered ${status} ${body.toString().slice(0, 200)}`
  if (status === 431 && body.length === 0) return null
  const fault = faultOfHeaders(headers, status)
  if (fault) return `is answered ${status} ${fault}`
  if (status < 400 || isHead(request)) return null
  return faultOfError(answer)
}

function isHead({ method, raw }: FuzzedRequest): boolean {
  return raw ? raw.toString('latin1', 0, 4) === 'HEAD' : method === 'HEAD'
}

function isUnknownMethod({ method }: FuzzedRequest): boolean {
  return !['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS', 'PATCH'].includes(method)
}

function faultOfHeaders(headers: Headers, status: number): string | null {
  const wanted: Record<string, RegExp> = {
    'cache-control': /^no-cache(, no-store)?$/,
    vary: /^Authorization, X-Client-State, X-KeyID, Origin$/,
    'x-content-type-options': /^nosniff$/,
    'content-security-policy': /./,
    'x-request-id': /^[\w.-]{1,64}$/,
  }
  for (const [name, form] of Object.entries(wanted)) {
    // Documentation files are cached by name.
    if (name === 'cache-control' && /script|css|png|svg/.test(headers.get('content-type') ?? '')) continue
    if (!form.test(headers.get(name) ?? '')) return `with ${name} ${JSON.stringify(headers.get(name))}`
  }
  if (headers.has('retry-after') && status !== 429) return 'with Retry-After'
  if (headers.has('backoff') && status >= 400) return 'with Backoff'
  if (status === 401 && !headers.has('www-authenticate')) return 'without WWW-Authenticate'
  if (status === 405 && !headers.has('allow')) return 'without Allow'
  const location = headers.get('location')
  if (location && !location.startsWith('/') && !/^https?:\/\/[^/]+\/v1(\/|$|\?)/.test(location)) {
    return `with Location ${location}`
  }
  return location && /^\/[/\\]/.test(location) ? `with Location ${location}` : null
}

function faultOfError({ status, headers, body }: PlainAnswer): string | null {
  if (!headers.get('content-type')?.startsWith('application/json')) return `returns ${status} without JSON`
  let error: Record<string, unknown>
  try {
    error = JSON.parse(body.toString())
  } catch {
    return `returns ${status} with ${body.toString().slice(0, 100)}`
  }
  const isComplete =
    error.code === status &&
    typeof error.errno === 'number' &&
    error.errno !== 999 &&
    error.error === STATUS_CODES[status] &&
    typeof error.message === 'string' &&
    error.message !== ''
  if (!isComplete) return `returns ${status} with ${body.toString().slice(0, 200)}`
  const { details } = error
  if (!Array.isArray(details)) return null
  if (details.length === 0) return 'has no details'
  for (const { location, name, description } of details) {
    if (!['body', 'querystring', 'path', 'header'].includes(location)) return `names the location ${location}`
    if (typeof name !== 'string' || name.length > 64 || typeof description !== 'string')
      return `names ${name}`
  }
  return null
}

/** The error in the storage calls that one request caused. */
export function faultOfCalls(
  request: FuzzedRequest,
  uid: number,
  calls: readonly LoggedRequest[],
): string | null {
  const commits = new Map<string, number>()
  for (const { method, target, status } of calls) {
    const match = /^\/1\.5\/(\d+)\/(info\/[a-z_]+|storage\/([a-z0-9._-]{1,32})(?:\/[^/?]+)?)(\?.*)?$/.exec(
      target,
    )
    if (!match) return `asks ${method} ${target}`
    const [, owner, path, collection, query] = match
    if (Number(owner) !== uid) return `calls the storage of another user: ${method} ${target}`
    if (method === 'GET') continue
    if (request.raw === null && !['PUT', 'POST', 'DELETE'].includes(request.method))
      return `writes: ${method} ${target}`
    if (method === 'DELETE') {
      if (!collections.putAndDelete.includes(collection!))
        return `deletes although deletions are disabled: ${target}`
      if (path === `storage/${collection}` && !query?.includes('ids='))
        return `deletes a collection: ${target}`
    } else if (![...collections.putAndDelete, ...collections.put].includes(collection!)) {
      return `writes although writes are disabled: ${method} ${target}`
    }
    if (status >= 300 || (query?.includes('batch=') && !query.includes('commit='))) continue
    // Deleting several ids may take several calls.
    const key = method === 'DELETE' ? `DELETE ${target}` : `${method} ${collection}`
    commits.set(key, (commits.get(key) ?? 0) + 1)
  }
  for (const [key, count] of commits) if (count > 1) return `writes ${count} times: ${key}`
  return null
}
