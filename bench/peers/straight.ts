/**
 * A reference: GET of one record, in the framework's own idiom, with everything that such a request needs. Shows how cheap and short it can
 * be. Not the service: one storage call, no renewed credentials, no batch, no streaming.
 */
import { readFileSync } from 'node:fs'
import { Elysia, t } from 'elysia'

const { UPSTREAM_CA: caPath, BUN_CONFIG_MAX_HTTP_REQUESTS: slots } = process.env
const overTls =
  caPath === undefined ? {} : { protocol: 'http1.1' as const, tls: { ca: readFileSync(caPath, 'utf8') } }

// --- The request: one schema for validation, type and document ------------------------------------------------------

const recordPath = t.Object({
  bucket_id: t.String({ minLength: 1, maxLength: 256, description: 'The client state' }),
  collection_id: t.String({
    pattern: '^[A-Za-z0-9._-]{1,32}$',
    description: 'must be 1 to 32 letters, digits, ., - or _',
  }),
  record_id: t.String({
    pattern: '^(?!\\.{1,2}$)[ -~]{1,64}$',
    description: 'must be 1 to 64 printable ASCII characters',
  }),
})
const version = t.Optional(
  t.String({
    pattern: '^(?:\\*|(?:W/)?"?\\d{1,15}"?)$',
    description: 'must be a timestamp in ms as ETag gives it, or *',
  }),
)
const readHeaders = t.Object(
  {
    host: t.String({ pattern: '^(?:[A-Za-z0-9.-]+|\\[[0-9A-Fa-f:]+\\])(?::\\d{1,5})?$' }),
    authorization: t.Optional(t.String()),
    'x-keyid': t.Optional(t.String({ maxLength: 128 })),
    'if-match': version,
    'if-none-match': version,
    'x-request-id': t.Optional(t.String({ maxLength: 256 })),
  },
  { additionalProperties: true },
)

class ServiceError extends Error {
  constructor(
    readonly status: number,
    readonly errno: number,
    message: string,
    readonly details?: unknown,
  ) {
    super(message)
  }
}

// --- Credentials, cached by the headers as sent ---------------------------------------------------------------------

interface Session {
  hawkId: string
  hawkKey: Bun.CryptoHasher
  origin: string
  hostname: string
  port: string
  prefix: string
  wallEndMs: number
  monotonicEndMs: number
}

const sessions = new Map<string, Session>()
const exchanges = new Map<string, Promise<Session>>()

function sessionOf(
  authorization: string | undefined,
  keyId: string,
  bucket: string,
): Session | Promise<Session> {
  if (authorization === undefined) throw new ServiceError(401, 104, 'Credentials are missing')
  const key = `${bucket}\n${keyId}\n${authorization}`
  const known = sessions.get(key)
  if (known && Date.now() < known.wallEndMs && performance.now() < known.monotonicEndMs) return known
  const inFlight = exchanges.get(key)
  if (inFlight) return inFlight
  const exchange = openSession(authorization, keyId, bucket, key).finally(() => exchanges.delete(key))
  exchanges.set(key, exchange)
  return exchange
}

async function openSession(
  authorization: string,
  keyId: string,
  bucket: string,
  key: string,
): Promise<Session> {
  const clientState = Buffer.from(keyId.slice(keyId.indexOf('-') + 1), 'base64url').toString('hex')
  if (bucket.length === 32 && bucket !== clientState)
    throw new ServiceError(401, 104, 'The key id is not of this bucket')
  const response = await fetch(`${process.env.UPSTREAM}/1.0/sync/1.5`, {
    headers: { Authorization: authorization, 'X-KeyID': keyId },
    redirect: 'manual',
    decompress: false,
    ...overTls,
  })
  const token = (await response.json()) as { id: string; key: string; api_endpoint: string; duration: number }
  const { origin, hostname, port, pathname } = new URL(token.api_endpoint)
  const lifeMs = Math.min(300, token.duration - 10) * 1000
  const session: Session = {
    hawkId: token.id,
    hawkKey: new Bun.CryptoHasher('sha256', token.key),
    origin,
    hostname,
    port: port || (caPath === undefined ? '80' : '443'),
    prefix: pathname,
    wallEndMs: Date.now() + lifeMs,
    monotonicEndMs: performance.now() + lifeMs,
  }
  sessions.set(key, session)
  return session
}

// --- The call: limits, timeout, signature and metrics in one function -----------------------------------------------

const node = {
  inFlight: 0,
  limit: Number(slots ?? 256),
  waiting: [] as (() => void)[],
}
const processId = crypto.randomUUID().slice(0, 8)
let names = 0

function nextName(): string {
  names = (names + 1) >>> 0
  return processId + names.toString(16)
}

async function readStorage(
  session: Session,
  target: string,
  userAgent: string,
  requestId: string,
  caller: AbortSignal,
) {
  if (node.inFlight >= node.limit) await new Promise<void>((resolve) => node.waiting.push(resolve))
  node.inFlight += 1
  const startedAtMs = performance.now()
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), 20_000)
  try {
    if (caller.aborted) throw new ServiceError(503, 201, 'The client has disconnected')
    const ts = Math.floor(Date.now() / 1000)
    const nonce = nextName()
    const signed = `hawk.1.header\n${ts}\n${nonce}\nGET\n${target}\n${session.hostname}\n${session.port}\n\n\n`
    const mac = session.hawkKey.copy().update(signed).digest('base64')
    const response = await fetch(session.origin + target, {
      headers: {
        Accept: 'application/json',
        'Accept-Encoding': 'identity',
        'User-Agent': userAgent,
        Authorization: `Hawk id="${session.hawkId}", ts="${ts}", nonce="${nonce}", mac="${mac}"`,
        'X-Request-Id': requestId,
      },
      redirect: 'manual',
      decompress: false,
      signal: deadline.signal,
      ...overTls,
    })
    const { status, headers } = response
    if (headers.has('content-encoding') || (status >= 300 && status < 400)) throw unusable()
    const text = await response.text()
    if (status === 404) throw new ServiceError(404, 110, 'Record not found')
    if (status !== 200) throw unusable()
    return { text, headers }
  } finally {
    clearTimeout(timer)
    node.inFlight -= 1
    node.waiting.shift()?.()
    count(upstreamMs, performance.now() - startedAtMs)
  }
}

function unusable(): ServiceError {
  return new ServiceError(503, 201, 'Cannot use the answer of the storage')
}

// --- The translation ------------------------------------------------------------------------------------------------

const seconds = /([1-9]\d{0,10})\.(\d\d)[,}]/y

function toExposed(text: string, id: string): { lastModified: number; json: string } {
  const bso = JSON.parse(text) as { id?: unknown; modified?: unknown }
  const at = text.indexOf('"modified":')
  seconds.lastIndex = at + 11
  const match = at === -1 ? null : seconds.exec(text)
  if (bso.id !== id || typeof bso.modified !== 'number' || match === null) throw unusable()
  const rest = text.slice(seconds.lastIndex - 1)
  return {
    lastModified: Math.round(bso.modified * 1000),
    json: `${text.slice(0, at)}"last_modified":${match[1]}${match[2]}0${rest}`,
  }
}

// --- Metrics --------------------------------------------------------------------------------------------------------

const bounds = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]
const upstreamMs = new Float64Array(bounds.length + 1)
const requestMs = new Float64Array(bounds.length + 1)
const statuses = new Map<number, number>()

function count(histogram: Float64Array, ms: number): void {
  let bucket = 0
  while (bucket < bounds.length && ms > bounds[bucket]!) bucket += 1
  histogram[bucket]! += 1
}

// --- The app ----------------------------------------------------------------------------------------------------------

const everyAnswer = {
  'Cache-Control': 'no-cache',
  Vary: 'Authorization, X-Client-State, X-KeyID, Origin',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Content-Type': 'application/json; charset=utf-8',
}
const requestIdPattern = /^[\w.-]{1,64}$/

/** Returns one record. Path and headers were validated by their schemas. */
async function answerRecord(context: {
  params: { collection_id: string; record_id: string }
  headers: Record<string, string | undefined>
  request: Request
  session: Session
}): Promise<Response> {
  const { params, headers, request, session } = context
  const startedAtMs = performance.now()
  const given = headers['x-request-id']
  const requestId = given !== undefined && requestIdPattern.test(given) ? given : nextName()
  const ifMatch = headers['if-match']
  const ifNoneMatch = headers['if-none-match']
  if (ifMatch !== undefined && ifNoneMatch !== undefined)
    throw new ServiceError(400, 107, 'Only one precondition')
  const target = `${session.prefix}/storage/${params.collection_id.toLowerCase()}/${encodeURIComponent(params.record_id)}`
  const userAgent = `${headers['user-agent'] ?? ''} straight/1`
  const { text, headers: upstream } = await readStorage(session, target, userAgent, requestId, request.signal)
  const { lastModified, json } = toExposed(text, params.record_id)
  const tag = `"${lastModified}"`
  if (ifMatch !== undefined && ifMatch !== '*' && ifMatch !== tag) throw new ServiceError(412, 114, 'Changed')
  const answer: Record<string, string> = {
    ...everyAnswer,
    ETag: tag,
    'Last-Modified': new Date(lastModified).toUTCString(),
    'X-Request-Id': requestId,
  }
  const backoff = upstream.get('x-weave-backoff')
  if (backoff !== null) answer.Backoff = backoff
  const quota = upstream.get('x-weave-quota-remaining')
  if (quota !== null) answer['Quota-Remaining'] = quota
  if (headers.origin !== undefined) answer['Access-Control-Allow-Origin'] = '*'
  const status = ifNoneMatch === tag ? 304 : 200
  count(requestMs, performance.now() - startedAtMs)
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
  return new Response(status === 304 ? null : `{"data":${json}}`, { status, headers: answer })
}

new Elysia({ normalize: false })
  .onError(({ error, code }) => {
    const known =
      error instanceof ServiceError
        ? error
        : new ServiceError(code === 'VALIDATION' ? 400 : 500, 109, String(code))
    const { status, errno, message, details } = known
    return new Response(JSON.stringify({ code: status, errno, message, details }), {
      status,
      headers: everyAnswer,
    })
  })
  .guard({ params: recordPath, headers: readHeaders })
  .resolve(async ({ params, headers }) => ({
    session: await sessionOf(headers.authorization, headers['x-keyid'] ?? '', params.bucket_id),
  }))
  .get('/v1/buckets/:bucket_id/collections/:collection_id/records/:record_id', answerRecord)
  .listen({ hostname: '127.0.0.1', port: Number(process.env.PORT), development: false, idleTimeout: 240 })
