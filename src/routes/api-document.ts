/** The API document, made from the declarations of the resources. Loaded at the first request for it. */
import type { TObject, TSchema } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import { timestamp } from '../domain/timestamp.ts'
import * as answerSchemas from '../protocol/answer-schemas.ts'
import { parameterName } from '../protocol/check.ts'
import { errorReply } from '../protocol/error-reply.ts'
import { preconditionFailed } from '../protocol/record-resources.ts'
import type { Answer, AnswerHeader, Resource } from '../protocol/record-resources.ts'
import { versionPrefix } from '../protocol/reply.ts'
import type { ExposedSettings } from '../protocol/reply.ts'
import { isBucketResource, resources } from '../protocol/resources.ts'
import * as requestSchemas from '../protocol/schemas.ts'
import { isServed } from './guard.ts'

type Json = Record<string, unknown>

const { answerHeaders, ...bodies } = { ...answerSchemas }
const answerBodies: Record<string, TSchema> = bodies

const introduction = `
The collections of a Firefox Sync storage as JSON records, encrypted as they are: this service never holds the key.

**To try it**, send an access token together with its \`X-KeyID\`, or an identity assertion. The command \`sync-bridge sandbox\`
starts a storage with sample data and prints a link to a page of this document where both, and the \`bucket_id\`, are filled in.

**Timestamps** are whole milliseconds since 1970. An \`ETag\` is a timestamp in quotes, and \`_since\` takes it as it is.

**Errors** have one shape: \`code\` is the status, \`errno\` says what happened in a number that does not change, \`message\` says
it to people. \`Retry-After\` comes with 429 and every status from 500.

**Any answer** may carry \`Alert\`, which announces the end of the service, and any success \`Backoff\`: seconds to stay away.
HEAD answers wherever GET does, and OPTIONS everywhere, for browsers that ask what they may send.
`.trim()

/** The tag of the operations that are GET without the body. */
const headTag = 'Headers only'

const tags = {
  Records: 'What devices have stored',
  Collections: 'What there is, and when it changed',
  Batch: 'Many requests at once',
  Service: 'What this is, and whether it is well',
  [headTag]: 'HEAD: what GET would answer, without the body',
}

const securitySchemes = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An OAuth access token for Sync. It needs its key id beside it: give both.',
  },
  keyId: {
    type: 'apiKey',
    in: 'header',
    name: 'X-KeyID',
    description: 'Goes with the access token: `<keys_changed_at>-<base64url client state>`',
  },
  browserid: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description:
      'Instead of those two, an identity assertion: the word `BrowserID`, a blank, and the assertion',
  },
}

/** How a client says who it is. An access token needs its key id beside it; an assertion stands alone. */
const credentials = [{ bearer: [], keyId: [] }, { browserid: [] }]

/** The API document as JSON text, with everything that these settings serve. The plugin makes its frame. */
export async function writeApiDocument(settings: ExposedSettings, hasMetrics: boolean): Promise<string> {
  const { swagger } = await import('@elysiajs/swagger')
  const app = new Elysia()
  const served = resources.filter(({ name }) => isServed(name, settings, hasMetrics))
  for (const resource of served) {
    const { method, path } = resource
    const add = (as: string) =>
      app.route(as, path.replace('*', ':record_id'), () => '', { detail: operationOf(resource, as) })
    add(method)
    const hasHead = served.some((other) => other.path === path && other.method === 'HEAD')
    if (method === 'GET' && !hasHead) add('HEAD')
  }
  const named = Object.values<unknown>({ ...answerBodies, ...requestSchemas }).filter(
    (schema): schema is TSchema => 'title' in Object(schema),
  )
  const headers = Object.entries(answerHeaders)
  const documentation: object = {
    info: { title: settings.projectName, version: settings.projectVersion, description: introduction },
    servers: [{ url: versionPrefix(settings) }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    components: {
      schemas: Object.fromEntries(named.map((schema) => [schema.title, toOpenApiSchema(schema)])),
      responses: Object.fromEntries(failures.map(({ name, response }) => [name, response])),
      headers: Object.fromEntries(
        headers.map(([name, shown]) => [componentName(name), toHeader(name, shown)]),
      ),
      securitySchemes,
    },
  }
  app.use(swagger({ path: '/ui', specPath: '/document', exclude: ['/ui', '/document'], documentation }))
  const answer = await app.handle(new Request('http://localhost/document'))
  return answer.text()
}

// --- Operations ---

/** A resource as an operation. A GET is a HEAD too, which answers the headers alone. */
function operationOf(resource: Resource, method: string): object {
  const { id, name, path, summary, description, params, query, headers, body } = resource
  const isTwin = method !== resource.method
  const isOfUser = isBucketResource(resource) || name === 'batch'
  const inBucket = path.includes('/records') ? 'Records' : 'Collections'
  const tag = name === 'batch' ? 'Batch' : isOfUser ? inBucket : 'Service'
  const operation = {
    operationId: isTwin ? id.replace(/^(get|list)/, 'head') : id,
    tags: [isTwin ? headTag : tag],
    summary: isTwin ? `${summary}: the headers alone` : summary,
    description,
    security: isOfUser ? credentials : name === 'root' ? [{}, ...credentials] : undefined,
    parameters: [
      ...parametersOf('path', params),
      ...parametersOf('query', query),
      ...parametersOf('header', headers),
    ],
    requestBody: body && {
      required: true,
      content: { 'application/json': { schema: schemaOrReference(body), examples: body.examples as Json } },
    },
    responses: responsesOf(resource, method === 'HEAD'),
  }
  return operation as object
}

// The security schemes describe these headers.
const undescribed = new Set(['authorization', 'x-keyid'])

function parametersOf(place: string, { properties }: TObject): Json[] {
  const described = Object.entries(properties).filter(([key]) => !undescribed.has(key))
  return described.map(([key, schema]) => {
    const { description, example, ...rest } = toOpenApiSchema(schema)
    return {
      in: place,
      name: parameterName(key),
      ...(place === 'path' && { required: true }),
      ...(schema.deprecated === true && { deprecated: true }),
      description,
      schema: rest,
      example,
    }
  })
}

// --- Answers ---

function responsesOf(resource: Resource, isHead: boolean): Json {
  const own = Object.entries(resource.answers).map(([status, answer]) => {
    const headers = [...(answer.headers ?? []), ...usualHeaders(resource, Number(status))]
    return [status, toResponse({ ...answer, headers, ...(isHead && { body: undefined }) })]
  })
  const statuses = new Set(failureStatuses(resource))
  const shared = failures
    .filter(({ status }) => statuses.has(status))
    .map(({ status, name, response: { description, headers } }) => [
      status,
      isHead ? { description, headers } : { $ref: `#/components/responses/${name}` },
    ])
  return Object.fromEntries([...own, ...shared])
}

const noticeHeaders: AnswerHeader[] = ['Quota-Remaining?', 'Backoff?', 'Alert?']
const bucketHeaders: AnswerHeader[] = ['ETag', 'Last-Modified', ...noticeHeaders]

/** The headers that all answers of a kind have; the names of those that some of them have end in `?`. */
function usualHeaders(resource: Resource, status: number): AnswerHeader[] {
  if (status >= 400) return ['Alert?']
  if (isBucketResource(resource) && status === 200) return bucketHeaders
  return isBucketResource(resource) || resource.name === 'batch' ? noticeHeaders : ['Backoff?', 'Alert?']
}

/** The error answers that an operation has in common with others. */
function failureStatuses(resource: Resource): number[] {
  const { name, method, path } = resource
  if (name === 'batch') return [400, 401, 410, 413, 415, 500, 503]
  if (name === 'heartbeat' || name === 'lbheartbeat') return [400]
  if (!isBucketResource(resource)) return path.endsWith(':file') ? [400, 404, 410] : [400, 410]
  const ofMethod = method === 'PUT' || method === 'DELETE' ? [405, 409] : [304]
  const ofRecord = method === 'PUT' ? [413, 415] : name === 'record' ? [404] : []
  return [400, 401, 403, 410, 412, 429, 500, 503, ...ofMethod, ...ofRecord]
}

const record = { id: 'dsIy9rXpTVQb', lastModified: timestamp(1_700_000_000_120) }

/** The error answers that operations share, each with what the service would send as its example. */
const failures: Failure[] = [
  toFailure(
    'Something is wrong with the request: errno 107 for a header, 109 for anything else',
    invalidRequest([{ location: 'body', name: 'data.payload', description: 'must be string' }]),
  ),
  toFailure(
    'Credentials are missing or unusable (errno 104), or refused (105)',
    new ServiceError(401, errno.missingCredentials, 'Authorization in header: is missing'),
  ),
  toFailure(
    'The storage refuses this: the quota is used up',
    new ServiceError(403, errno.forbidden, 'The storage refuses this'),
  ),
  toFailure(
    'There is no such record (errno 110) or file (111)',
    new ServiceError(404, errno.unknownRecord, 'There is no record of this id'),
  ),
  toFailure(
    'The operator has not enabled this write',
    new ServiceError(405, errno.methodNotAllowed, 'Method not allowed', { headers: { Allow: 'GET' } }),
  ),
  toFailure(
    'Other writes keep getting in the way',
    new ServiceError(409, errno.conflict, 'Other writes keep getting in the way'),
  ),
  toFailure(
    'This service or the storage has ended',
    new ServiceError(410, errno.serviceEnded, 'This service has ended'),
  ),
  toFailure(
    'The stored version is another one; of a record it is `details.existing`',
    preconditionFailed({ ...record, payload: requestSchemas.Payload.examples[0] }),
  ),
  toFailure(
    'Larger than this service or the storage takes',
    new ServiceError(413, errno.requestTooLarge, 'The record is larger than the storage takes'),
  ),
  toFailure(
    'The body is not JSON, says Content-Type',
    invalidRequest([{ location: 'header', name: 'Content-Type', description: 'must be application/json' }], {
      status: 415,
    }),
  ),
  toFailure(
    'The storage gets too many requests',
    new ServiceError(429, errno.tooManyRequests, 'The storage gets too many requests'),
  ),
  toFailure('A defect of this service', new ServiceError(500, errno.undefined, 'An error of this service')),
  toFailure(
    'The token server or the storage can not answer, or too many requests are under way',
    new ServiceError(503, errno.backend, 'The storage can not answer now: try again later'),
  ),
  {
    status: 304,
    name: 'NotModified',
    response: toResponse({ description: 'Not changed since that version', headers: bucketHeaders }),
  },
]

interface Failure {
  status: number
  /** The name of the component that operations refer to. */
  name: string
  response: Json
}

function toFailure(description: string, error: ServiceError): Failure {
  const { status, headers, body } = errorReply(error, { retryAfterSeconds: 30, errorInfoLink: null })
  const { problems, details } = error.extras
  const example = JSON.parse(body as string) as { error: string }
  // A 412 tells the version of a record where there is one.
  const names = Object.keys(headers).map((name) => (status === 412 ? `${name}?` : name) as AnswerHeader)
  const response = toResponse({
    description,
    headers: [...names, 'Alert?'],
    body: problems ? 'InvalidRequestAnswer' : details ? 'PreconditionFailedAnswer' : 'ErrorAnswer',
    example,
  })
  return { status, name: example.error.replaceAll(' ', ''), response }
}

function toResponse({ description, body, headers = [], example }: Answer): Json {
  const names: AnswerHeader[] = [...headers, 'X-Request-Id']
  return {
    description,
    headers: Object.fromEntries(
      names.map((name) => [name.replace('?', ''), { $ref: `#/components/headers/${componentName(name)}` }]),
    ),
    ...(body && { content: contentOf(body, example) }),
  }
}

function contentOf(body: NonNullable<Answer['body']>, example: unknown): Json {
  const schema = answerBodies[body]
  if (!schema) return { [body]: { schema: { type: 'string' } } }
  return { 'application/json': { schema: schemaOrReference(schema), example } }
}

function toHeader(name: string, [description, example]: readonly [string, string | number]): Json {
  const schema = typeof example === 'number' ? { type: 'integer', minimum: 0 } : { type: 'string' }
  return { ...(!name.endsWith('?') && { required: true }), description, schema, example }
}

function componentName(header: string): string {
  return header.replace('?', '.possible')
}

// --- Schemas ---

const kept =
  'type enum required minimum maximum minItems maxLength maxProperties pattern additionalProperties'.split(
    ' ',
  )

/** Writes a schema in the document's dialect (OpenAPI 3.0), which is older than TypeBox's. */
function toOpenApiSchema(schema: TSchema): Json {
  const { description, examples } = schema
  const translated: Json = { description, example: Array.isArray(examples) ? examples[0] : undefined }
  // All our unions are choices of literals.
  const choices = (schema.anyOf ?? (schema.const === undefined ? null : [schema])) as TSchema[] | null
  if (choices) {
    const type = typeof choices[0]!.const
    return {
      ...translated,
      type: type === 'number' ? 'integer' : type,
      enum: choices.map((choice) => choice.const),
    }
  }
  for (const key of kept) translated[key] = schema[key]
  if (schema.items) translated.items = schemaOrReference(schema.items)
  if (schema.properties) {
    const members = Object.entries(schema.properties as Record<string, TSchema>)
    translated.properties = Object.fromEntries(
      members.map(([name, member]) => [name, schemaOrReference(member)]),
    )
  }
  if (schema.patternProperties) {
    const [member] = Object.values(schema.patternProperties as Record<string, TSchema>)
    translated.additionalProperties = schemaOrReference(member!)
  }
  return translated
}

/** A reference to the component of a schema that has a title; any other is written out. */
function schemaOrReference(schema: TSchema): Json {
  return schema.title ? { $ref: `#/components/schemas/${schema.title}` } : toOpenApiSchema(schema)
}
