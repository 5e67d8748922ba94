import { canonicalCollection, isRecordId } from '../domain/record.ts'
import type { Problem } from '../domain/errors.ts'

/** What a request target names. */
export type Resource =
  | { kind: 'root' }
  | { kind: 'heartbeat' }
  | { kind: 'lbheartbeat' }
  | { kind: 'version' }
  | { kind: 'openapi' }
  | { kind: 'metrics' }
  /** The documentation page, or a file that it loads. */
  | { kind: 'docs'; file: string }
  /** The page to look at one's own data with, or a file that it loads. */
  | { kind: 'explore'; file: string }
  | { kind: 'batch' }
  | { kind: 'bucket'; bucket: string }
  | { kind: 'collections'; bucket: string }
  | { kind: 'collection'; bucket: string; collection: string }
  | { kind: 'records'; bucket: string; collection: string }
  | { kind: 'record'; bucket: string; collection: string; id: string }

export type Target =
  | { outcome: 'resource'; resource: Resource; query: string }
  /** The path to go to instead, on our own origin; begins with one slash and holds the query. */
  | { outcome: 'redirect'; location: string }
  | { outcome: 'unknown-version' }
  | { outcome: 'unknown-path' }
  /** `collection`: the canonical name, if that much could be read, for the write gate of a record. */
  | { outcome: 'invalid'; problems: Problem[]; isRecord: boolean; collection: string | null }

const unversioned = new Map<string, Resource>([
  ['/__heartbeat__', { kind: 'heartbeat' }],
  ['/__lbheartbeat__', { kind: 'lbheartbeat' }],
])

const fixed = new Map<string, Resource>([
  ['__heartbeat__', { kind: 'heartbeat' }],
  ['__lbheartbeat__', { kind: 'lbheartbeat' }],
  ['__version__', { kind: 'version' }],
  ['__api__', { kind: 'openapi' }],
  ['__metrics__', { kind: 'metrics' }],
  ['docs', { kind: 'docs', file: '' }],
  ['explore', { kind: 'explore', file: '' }],
  ['batch', { kind: 'batch' }],
])

// Slashes, backslashes and control characters in disguise: a redirect must not hand them to whoever follows it.
const unsafeEscape = /%(?:2f|5c|[01][0-9a-f]|7f)/i

const versionForm = /^\/v(\d+)(?=\/|$)/

/**
 * Reads a request target (path and query as they were sent) into the resource that it names. Escapes are decoded
 * exactly once, strictly, and never split a segment. `major` is the version that we serve.
 *
 * `dotSegments`: parameters that the server's router saw before the path was normalised; `.` and `..` in there
 * are ids that nobody may have, and not a path one level up.
 */
export function readTarget(
  path: string,
  query: string,
  major: string,
  dotSegments?: RouterParameters,
): Target {
  const dots = dotSegments ? refuseDotSegments(dotSegments) : null
  if (dots) return dots
  if (path.includes('#') || query.includes('#')) return refuseFragment()
  if (path.includes('//') || path.includes('\\')) return { outcome: 'unknown-path' }
  const prefix = `/v${major}/`
  // The usual form of a path needs nothing of what is looked at below.
  if (path.startsWith(`${prefix}buckets/`) && !path.endsWith('/')) {
    return readResource(path.slice(prefix.length).split('/'), query)
  }
  const known = unversioned.get(path)
  if (known) return { outcome: 'resource', resource: known, query }

  if (path === '/swagger') return redirectTo(`/v${major}/docs`, query)

  const version = versionForm.exec(path)
  if (!version)
    return unsafeEscape.test(path) ? { outcome: 'unknown-path' } : redirectTo(`/v${major}${path}`, query)
  if (version[1] !== major) return { outcome: 'unknown-version' }
  const rest = path.slice(version[0].length)
  if (rest === '' || rest === '/') return { outcome: 'resource', resource: { kind: 'root' }, query }
  if (rest === '/swagger') return redirectTo(`/v${major}/docs`, query)
  if (rest.endsWith('/')) return redirectTo(path.replace(/\/+$/, ''), query)
  return readResource(rest.slice(1).split('/'), query)
}

/** Path parameters by name as a router decoded them, or undefined where it routed by itself. */
export type RouterParameters = Readonly<Record<string, string>>

function refuseDotSegments(parameters: RouterParameters): Target | null {
  let hasDots = false
  for (const name in parameters) hasDots ||= parameters[name] === '.' || parameters[name] === '..'
  if (!hasDots) return null
  const problems = Object.entries(parameters)
    .filter(([, value]) => value === '.' || value === '..')
    .map(([name]) => pathProblem(name, 'must not be "." or ".."'))
  const collection = canonicalCollection(parameters.collection_id ?? '')
  return { outcome: 'invalid', problems, isRecord: 'record_id' in parameters, collection }
}

// A fragment is not for servers: one that cuts it off and one that does not would take this for two different ids.
function refuseFragment(): Target {
  const problems = [pathProblem('path', 'must not have a fragment')]
  return { outcome: 'invalid', problems, isRecord: false, collection: null }
}

function redirectTo(path: string, query: string): Target {
  return { outcome: 'redirect', location: path + query }
}

const usualBucketForm = /^[\w.-]{1,256}$/
const bucketForm = /^[^\p{Cc}]{1,256}$/u

function readResource(segments: string[], query: string): Target {
  const only = segments.length === 1 ? fixed.get(segments[0]!) : undefined
  if (only) return { outcome: 'resource', resource: only, query }
  if ((segments[0] === 'docs' || segments[0] === 'explore') && segments.length === 2) {
    return { outcome: 'resource', resource: { kind: segments[0], file: segments[1]! }, query }
  }
  const [buckets, rawBucket, collections, rawCollection, records, rawId] = segments
  if (buckets !== 'buckets' || segments.length < 2 || segments.length > 6) return { outcome: 'unknown-path' }
  if (collections !== undefined && collections !== 'collections') return { outcome: 'unknown-path' }
  if (records !== undefined && records !== 'records') return { outcome: 'unknown-path' }

  const problems: Problem[] = []
  const bucket = decodeSegment(rawBucket!)
  if (bucket === null || !(usualBucketForm.test(bucket) || bucketForm.test(bucket))) {
    problems.push(pathProblem('bucket_id', 'must be the client state of 32 characters'))
  }
  const collection =
    rawCollection === undefined ? '' : canonicalCollection(decodeSegment(rawCollection) ?? '')
  if (collection === null) {
    const allowed = 'must be 1 to 32 letters, digits, dots, dashes and underscores'
    problems.push(pathProblem('collection_id', allowed))
  }
  const id = rawId === undefined ? '' : decodeSegment(rawId)
  if (rawId !== undefined && (id === null || !isRecordId(id))) {
    problems.push(pathProblem('record_id', 'must be 1 to 64 printable ASCII characters, not "." or ".."'))
  }
  if (problems.length > 0 || bucket === null || collection === null || id === null) {
    return { outcome: 'invalid', problems, isRecord: rawId !== undefined, collection: collection || null }
  }
  return { outcome: 'resource', resource: bucketResource(segments.length, bucket, collection, id), query }
}

function bucketResource(depth: number, bucket: string, collection: string, id: string): Resource {
  if (depth === 2) return { kind: 'bucket', bucket }
  if (depth === 3) return { kind: 'collections', bucket }
  if (depth === 4) return { kind: 'collection', bucket, collection }
  if (depth === 5) return { kind: 'records', bucket, collection }
  return { kind: 'record', bucket, collection, id }
}

function pathProblem(name: string, description: string): Problem {
  return { location: 'path', name, description }
}

/** Decodes percent-escapes once; null when they are broken or not UTF-8. */
export function decodeSegment(raw: string): string | null {
  if (!raw.includes('%')) return raw
  try {
    return decodeURIComponent(raw)
  } catch {
    return null
  }
}
