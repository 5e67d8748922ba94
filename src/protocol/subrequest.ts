import { invalidRequest } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { compileBodyCheck } from './check.ts'
import { versionPrefix } from './reply.ts'
import type { ExposedSettings, Reply } from './reply.ts'
import { BatchBody } from './schemas.ts'
import type { SubRequest } from './schemas.ts'

/** A sub-request of a batch, with the defaults and the batch's own headers merged in. */
export interface MergedRequest {
  method: string
  /** With the version prefix, without the query, still escaped. */
  path: string
  query: string
  headers: HeadersByName
  body: Record<string, unknown>
}

/** Headers by lower-case name. */
type HeadersByName = Record<string, string | undefined>

const checkBatchBody = compileBodyCheck(BatchBody)

// The batch's own headers that count for its sub-requests. The others describe the message that carries the batch.
const inherited = ['authorization', 'x-client-state', 'x-keyid', 'prefer', 'if-match', 'if-none-match']

/** The bounds that the schemas do not have. Defaults are copied into each sub-request, so they are bounded too. */
const largest = {
  headersLength: 16 * 1024,
  defaultMembers: 100,
  // Bounds paths and headers of all sub-requests, defaults included: otherwise a short text names thousands of ids a
  // thousand times.
  allLength: 1024 * 1024,
}

/**
 * Reads the body of a batch. A sub-request's own values outweigh `defaults`, which outweigh the batch's own headers;
 * bodies merge member by member, headers whatever their case. Throws `ServiceError` 400 with all problems.
 */
export function readBatch(
  body: unknown,
  envelope: HeadersByName,
  settings: ExposedSettings,
): MergedRequest[] {
  const { defaults = {}, requests } = checkBatchBody(body)
  if (requests.length > settings.batchMaxRequests) {
    const description = `must not be more than ${settings.batchMaxRequests}`
    throw invalidRequest([bodyProblem('requests', description)])
  }
  const own: HeadersByName = Object.create(null)
  for (const name of inherited) if (envelope[name] !== undefined) own[name] = envelope[name]
  const problems = [...measureHeaders('defaults', defaults), ...measureDefaultBody(defaults.body ?? {})]
  let allLength = 0
  for (const [index, request] of requests.entries()) {
    problems.push(...measureHeaders(`requests.${index}`, request))
    allLength += (request.path ?? defaults.path ?? '').length
    allLength += lengthOf(request.headers) + lengthOf(defaults.headers)
    if (request.path === undefined && defaults.path === undefined) {
      problems.push(bodyProblem(`requests.${index}.path`, 'is required'))
    }
  }
  if (allLength > largest.allLength) {
    const description = `must not have more than ${largest.allLength} characters of paths and headers, defaults included`
    problems.push(bodyProblem('requests', description))
  }
  if (problems.length > 0) throw invalidRequest(problems)
  const merged = requests.map((request, index) => {
    const path = request.path ?? defaults.path!
    if (namesBatch(path)) problems.push(bodyProblem(`requests.${index}.path`, 'must not be a batch itself'))
    return merge(request, defaults, own, path, settings)
  })
  if (problems.length > 0) throw invalidRequest(problems)
  return merged
}

function measureHeaders(place: string, { headers }: SubRequest): Problem[] {
  if (lengthOf(headers) <= largest.headersLength) return []
  const description = `must not be longer than ${largest.headersLength} characters in all`
  return [bodyProblem(`${place}.headers`, description)]
}

function lengthOf(headers: Readonly<Record<string, string>> = {}): number {
  let length = 0
  for (const name in headers) length += name.length + headers[name]!.length
  return length
}

function measureDefaultBody(body: object): Problem[] {
  if (!hasMoreMembers(body, largest.defaultMembers)) return []
  return [bodyProblem('defaults.body', `must not have more than ${largest.defaultMembers} members`)]
}

/** Whether a JSON value has more members than that, on all its levels. */
function hasMoreMembers(value: unknown, most: number): boolean {
  let count = 0
  const open = [value]
  while (open.length > 0) {
    const one = open.pop()
    if (typeof one !== 'object' || one === null) continue
    for (const member of Object.values(one)) {
      if (++count > most) return true
      open.push(member)
    }
  }
  return false
}

function bodyProblem(name: string, description: string): Problem {
  return { location: 'body', name, description }
}

function merge(
  request: SubRequest,
  defaults: SubRequest,
  own: HeadersByName,
  target: string,
  settings: ExposedSettings,
): MergedRequest {
  const question = target.indexOf('?')
  const sent = question === -1 ? target : target.slice(0, question)
  // A sub-request can't be redirected, so surplus slashes are removed here; those of a record belong to its id.
  const path = recordForm.test(sent) ? sent : withoutTrailingSlashes(sent)
  let headers = own
  for (const source of [defaults.headers, request.headers]) {
    if (source === undefined) continue
    headers = Object.assign(Object.create(null), headers) as HeadersByName
    for (const [name, value] of Object.entries(source)) headers[name.toLowerCase()] = value.trim()
  }
  return {
    method: (request.method ?? defaults.method ?? 'GET') as string,
    path: /^\/v\d+(\/|$)/.test(path) ? path : versionPrefix(settings) + (path === '/' ? '' : path),
    query: question === -1 ? '' : target.slice(question),
    headers,
    body: mergeDeeply(defaults.body ?? {}, request.body ?? {}),
  }
}

const recordForm = /\/records\/+[^/]/

// No regular expression, because it would scan each run of slashes once from each of its slashes.
export function withoutTrailingSlashes(path: string): string {
  let end = path.length
  while (end > 1 && path[end - 1] === '/') end -= 1
  return path.slice(0, end)
}

/** Whether a path, however it is spelled, leads to the batch itself. */
function namesBatch(target: string): boolean {
  // Others would have to be parsed: those that are escaped, and those with characters that parsing drops.
  if (!/batch|[%\t\n\r]/i.test(target)) return false
  // A path with broken escapes leads nowhere.
  const pathname = URL.parse(target, 'http://sub.request')?.pathname ?? target
  const decoded = pathname.replace(/%([0-7][0-9a-f])/gi, (_, hex: string) =>
    String.fromCharCode(parseInt(hex, 16)),
  )
  return /^(\/v\d+)?\/+batch\/*$/.test(decoded)
}

// Keys that could reach a prototype were refused when the body was read.
function mergeDeeply(base: Record<string, unknown>, over: Record<string, unknown>): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key]
    merged[key] = isMapping(before) && isMapping(value) ? mergeDeeply(before, value) : value
  }
  return merged
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * The answer of a sub-request as a member of `responses`, as JSON text, so that a long body is not parsed again. A body that is
 * empty by nature is shown as `{}`.
 */
export function toSubResponse(request: MergedRequest, reply: Reply): string {
  const text = request.method === 'HEAD' ? null : bodyText(reply.body)
  const headers: Record<string, string> = { ...reply.headers }
  if (text !== null) headers['Content-Type'] = 'application/json; charset=utf-8'
  const head = JSON.stringify({ status: reply.status, path: request.path, headers })
  return `${head.slice(0, -1)},"body":${text ?? JSON.stringify(reply.tombstone ?? {})}}`
}

function bodyText(body: Reply['body']): string | null {
  if (body === null || typeof body === 'string') return body
  if (body instanceof Uint8Array) return new TextDecoder().decode(body)
  throw new Error('A streamed list can not be part of a batch')
}
