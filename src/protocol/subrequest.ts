import { invalid, invalidRequest, type Problem } from './problems.ts'
import { joinBytes } from '../domain/bytes.ts'
import type { Settings } from '../settings/settings.ts'
import { compileBodyCheck } from './check.ts'
import { versionPrefix } from './find.ts'
import type { Reply } from './reply.ts'
import { decodeSegment } from './records.ts'
import type { RequestHeaders } from './resource.ts'
import { BatchBody, type SubRequest } from './schemas.ts'

/** A sub-request, merged with the defaults and the batch's own headers. */
export interface MergedRequest {
  method: string
  /** With the version prefix, without the query, not decoded. */
  path: string
  query: string
  headers: RequestHeaders
  body: Record<string, unknown>
}

const checkBatchBody = compileBodyCheck(BatchBody)

// The headers of the batch request that sub-requests inherit.
const inherited = ['authorization', 'x-client-state', 'x-keyid', 'prefer', 'if-match', 'if-none-match']

// Defaults count once per sub-request, because each gets a copy.
const largest = { defaultMembers: 100, length: 1024 * 1024 }

/**
 * Reads the body of a batch. A sub-request overrides `defaults`, which override the batch's own headers; bodies merge member by member,
 * headers ignoring case. Throws `ServiceError` 400 with all problems.
 */
export function readBatch(body: unknown, envelope: RequestHeaders, settings: Settings): MergedRequest[] {
  const { defaults = {}, requests } = checkBatchBody(body)
  if (requests.length > settings.batchMaxRequests) {
    throw invalid(
      'body',
      'requests',
      `must have at most ${settings.batchMaxRequests} items: the setting batch_max_requests limits them`,
    )
  }
  const problems: Problem[] = []
  const refuse = (name: string, description: string) => problems.push({ location: 'body', name, description })
  const { members, length: bodyLength } = measure(defaults.body)
  if (members > largest.defaultMembers) {
    refuse('defaults.body', `must have at most ${largest.defaultMembers} members`)
  }
  if (requests.length * bodyLength > settings.maxRequestBytes) {
    const most = `${settings.maxRequestBytes} characters, counted once for each request`
    refuse('defaults.body', `must have at most ${most}`)
  }
  let length = requests.length * lengthOf(defaults.headers)
  for (const [index, { path = defaults.path, headers }] of requests.entries()) {
    length += lengthOf(headers) + (path ?? '').length
    if (path === undefined) refuse(`requests.${index}.path`, 'is required')
    else if (namesBatch(path)) refuse(`requests.${index}.path`, 'must not be a batch')
  }
  if (length > largest.length) {
    const most = `${largest.length} characters of paths and headers, defaults included`
    refuse('requests', `must have at most ${most}`)
  }
  if (problems.length > 0) throw invalidRequest(problems)
  const own = Object.fromEntries(inherited.map((name) => [name, envelope[name]]))
  return requests.map((request) => merge(request, defaults, own, settings))
}

function lengthOf(headers: Readonly<Record<string, string>> = {}): number {
  let length = 0
  for (const name in headers) length += name.length + headers[name]!.length
  return length
}

/** The number of members on all levels of a JSON value, and the length of its text. */
function measure(value: object = {}): { members: number; length: number } {
  let members = -1
  const text = JSON.stringify(value, (_, member: unknown) => {
    members += 1
    return member
  })
  return { members, length: text.length }
}

/** Whether a path, in any spelling, is that of the batch. */
function namesBatch(target: string): boolean {
  const pathname = URL.parse(target, 'http://sub.request')?.pathname
  return pathname !== undefined && /^(\/v\d+)?\/+batch\/*$/.test(decodeSegment(pathname) ?? '')
}

function merge(
  request: SubRequest,
  defaults: SubRequest,
  own: RequestHeaders,
  settings: Settings,
): MergedRequest {
  const target = request.path ?? defaults.path!
  const question = target.indexOf('?')
  const sent = question === -1 ? target : target.slice(0, question)
  // A sub-request can't be redirected, so trailing slashes are removed here; in a record's path they are part of its id.
  const path = recordPattern.test(sent) ? sent : withoutTrailingSlashes(sent)
  const headers: Record<string, string | undefined> = { ...own }
  for (const given of [defaults.headers, request.headers]) override(headers, given)
  return {
    method: (request.method ?? defaults.method ?? 'GET') as string,
    path: /^\/v\d+(\/|$)/.test(path) ? path : versionPrefix(settings) + (path === '/' ? '' : path),
    query: question === -1 ? '' : target.slice(question),
    headers,
    body: mergeDeeply(defaults.body ?? {}, request.body ?? {}),
  }
}

/** Overrides headers, ignoring case. Its condition replaces either condition: both together would be an error that no client wrote. */
function override(
  headers: Record<string, string | undefined>,
  given: Readonly<Record<string, string>> = {},
): void {
  const own = Object.entries(given).map(([name, value]) => [name.toLowerCase(), value.trim()] as const)
  if (own.some(([name]) => name === 'if-match' || name === 'if-none-match')) {
    delete headers['if-match']
    delete headers['if-none-match']
  }
  Object.assign(headers, Object.fromEntries(own))
}

const recordPattern = /\/buckets\/[^/]+\/collections\/[^/]+\/records\/./

// No regular expression, because it would be quadratic in the number of slashes.
export function withoutTrailingSlashes(path: string): string {
  let end = path.length
  while (end > 1 && path[end - 1] === '/') end -= 1
  return path.slice(0, end)
}

// Keys that could reach a prototype were rejected when the body was read.
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

/** The body of a batch response. Joins lists as bytes, because text would need three more copies. */
export function joinSubResponses(requests: readonly MergedRequest[], replies: readonly Reply[]): Uint8Array {
  const responses = replies.flatMap((reply, index) => [',', ...subResponse(requests[index]!, reply)])
  return joinBytes(['{"responses":[', ...responses.slice(1), ']}'])
}

/** A sub-response as chunks of JSON text, so that a long body is not parsed again. Without a body it is `{}`. */
function subResponse(request: MergedRequest, reply: Reply): (string | Uint8Array)[] {
  const body = request.method === 'HEAD' ? null : (reply.body as string | Uint8Array | null)
  const headers: Record<string, string> = { ...reply.headers }
  if (body !== null) headers['Content-Type'] = 'application/json; charset=utf-8'
  const head = JSON.stringify({ status: reply.status, path: request.path, headers })
  return [`${head.slice(0, -1)},"body":`, body ?? JSON.stringify(reply.tombstone ?? {}), '}']
}
