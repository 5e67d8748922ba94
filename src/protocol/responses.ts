/** Responses in the API document: bodies, headers and shared errors. */
import { STATUS_CODES } from 'node:http'
import { Type, type TProperties, type TSchema } from '@sinclair/typebox'
import { errno, type Errno } from '../domain/errors.ts'
import { Payload, SortIndex } from './schemas.ts'

// --- Bodies. A schema with a title becomes a component. ---

const text = (example: string, description?: string) => Type.String({ description, example: example })
const integer = (example: number, description?: string) => Type.Integer({ description, example: example })
const named = <P extends TProperties>(title: string, properties: P, description?: string) =>
  Type.Object(properties, { title, description })

const Timestamp = integer(1700000000120, 'Milliseconds since 1970')
const RecordId = text('dsIy9rXpTVQb')

const ExposedRecord = named('Record', {
  id: RecordId,
  last_modified: Timestamp,
  payload: Payload,
  sortindex: Type.Optional(SortIndex),
})
const Metadata = named('Metadata', { id: text('bookmarks'), last_modified: Timestamp })

export const TombstoneResponse = named('TombstoneResponse', {
  data: Type.Object({ id: RecordId, last_modified: Timestamp, deleted: Type.Boolean({ enum: [true] }) }),
})
export const RecordResponse = named('RecordResponse', { data: ExposedRecord })
export const ListResponse = named('ListResponse', { data: Type.Array(ExposedRecord) })
export const MetadataResponse = named('MetadataResponse', { data: Metadata })
export const CollectionsResponse = named('CollectionsResponse', { data: Type.Array(Metadata) })

const SubResponse = named('SubResponse', {
  status: integer(200),
  path: Type.String({ description: 'The path, with the version prefix and without the query' }),
  headers: Type.Record(Type.String(), Type.String()),
  body: Type.Object(
    {},
    { additionalProperties: true, description: 'Empty for 304 and HEAD; a tombstone for DELETE' },
  ),
})
export const BatchResponses = named('BatchResponses', { responses: Type.Array(SubResponse) })

/** Members of every error. The statuses tell clients which error shape it is. */
const errorMembers = (statuses: number[]) => ({
  code: Type.Integer({ enum: statuses, description: 'The HTTP status' }),
  errno: Type.Integer({
    enum: Object.values(errno),
    description: 'Stable error number',
  }),
  error: Type.String({ description: 'The name of the status' }),
  message: Type.String({ description: 'Error message for people' }),
})

const ErrorResponse = named('Error', {
  ...errorMembers([401, 403, 404, 405, 409, 410, 413, 429, 500, 503]),
  info: Type.Optional(Type.String({ description: 'Link to more information' })),
})

const ProblemItem = named('Problem', {
  location: Type.String({
    enum: ['body', 'header', 'path', 'querystring'],
    description: 'The part of the request with the problem',
  }),
  name: text('data.payload', 'The member, parameter or header'),
  description: text('must be string'),
})

const InvalidRequestResponse = named('InvalidRequest', {
  ...errorMembers([400, 415]),
  details: Type.Array(ProblemItem, {
    minItems: 1,
    description: 'All problems; `message` describes the first',
  }),
})

const PreconditionFailedResponse = named(
  'PreconditionFailed',
  { ...errorMembers([412]), details: Type.Optional(Type.Object({ existing: ExposedRecord })) },
  '`details` is present if the record exists',
)

export const HeartbeatResponse = named('HeartbeatResponse', {
  storage: Type.Boolean({ description: 'The token server responds' }),
  cache: Type.Boolean({ description: 'The credential cache responds' }),
  permission: Type.Boolean({ description: 'The settings are loaded and valid' }),
})

export const VersionResponse = named('VersionResponse', {
  name: text('sync-bridge'),
  version: text('1.0.0'),
  commit: Type.String(),
  source: Type.String({ description: 'URL of the source code' }),
})

export const ApiDocumentResponse = Type.Object(
  { openapi: text('3.0.3') },
  { title: 'ApiDocument', additionalProperties: true },
)

const batchMaxRequests = integer(25)

export const RootResponse = named('RootResponse', {
  project_name: text('Sync Bridge'),
  project_docs: Type.String(),
  project_version: text('1.0.0'),
  http_api_version: text('1.5'),
  toolkit_protocol_version: text('2'),
  cliquet_protocol_version: text('2', 'Former name of toolkit_protocol_version'),
  url: Type.String({ description: 'Base URL of all paths' }),
  eos: Type.Optional(text('2031-12-31', 'Date of the end of service')),
  settings: Type.Object({
    batch_max_requests: batchMaxRequests,
    readonly: Type.Boolean(),
    'cliquet.batch_max_requests': batchMaxRequests,
  }),
  capabilities: Type.Record(Type.String(), Type.Object({ description: Type.String(), url: Type.String() })),
  user: Type.Optional(
    Type.Object({ id: Type.String() }, { description: 'The user whom the credentials belong to' }),
  ),
})

// --- Answers ---

/** A response as described in OpenAPI. */
export interface DocumentedResponse {
  description: string
  headers: Record<string, { $ref: string }>
  content?: Record<string, { schema: TSchema; example?: object }>
}

/** Response headers with examples. A name that ends in `?` is an optional header. */
const responseHeaders = {
  ETag: ['The timestamp, in quotes', '"1700000000120"'],
  'ETag?': ['The stored version, if any', '"1700000000120"'],
  'Last-Modified': ['The timestamp as an HTTP date, in whole seconds', 'Tue, 14 Nov 2023 22:13:20 GMT'],
  'Last-Modified?': ['The stored version as an HTTP date, if any', 'Tue, 14 Nov 2023 22:13:20 GMT'],
  'Preference-Applied': ['The preference that was applied', 'return=representation'],
  'Preference-Applied?': ['The preference that was applied, if any', 'handling=strict'],
  'WWW-Authenticate': ['Accepted authentication schemes', 'BrowserID, Bearer'],
  Allow: ['The methods that are allowed here', 'GET, HEAD, OPTIONS'],
  'Retry-After': ['Seconds to wait before a retry', 30],
  'X-Request-Id': ['Identifies this request in the logs of the service', '5f0c1e9a2b7d4c83'],
  'Next-Page?': ['URL of the next page, to use as it is; absent on the last page', 'https://…&_token=…'],
  'Total-Objects?': ['Same as Total-Records, for some clients', 2],
  'Total-Records?': ['Number of records, if known in advance', 2],
  'Quota-Remaining?': ['Remaining quota in KB; negative if it is exceeded', 51_199.5],
  'Backoff?': ['Seconds to wait before the next request', 60],
  'Alert?': [
    'End of service, of the storage, or advice: JSON with `code`, `message` and `url`',
    '{"code":"soft-eol","message":"…","url":"https://…"}',
  ],
} as const
type ResponseHeader = keyof typeof responseHeaders

const alertHeaders: ResponseHeader[] = ['Backoff?', 'Alert?']
/** Headers of responses that come from the storage. */
export const noticeHeaders: ResponseHeader[] = ['Quota-Remaining?', ...alertHeaders]

/** Describes a response; `body` is a JSON schema, another media type, or null. */
export function describeResponse(
  description: string,
  body: TSchema | string | null,
  names: ResponseHeader[] = alertHeaders,
  example?: object,
): DocumentedResponse {
  const headers = Object.fromEntries(
    [...names, 'X-Request-Id'].map((name) => [
      name.replace('?', ''),
      { $ref: `#/components/headers/${componentName(name)}` },
    ]),
  )
  if (body === null) return { description, headers }
  const [type, schema] = typeof body === 'string' ? [body, Type.String()] : ['application/json', body]
  return { description, headers, content: { [type]: { schema, ...(example && { example }) } } }
}

/** Describes a response with a stored version. */
export function versioned(
  description: string,
  body: TSchema | null,
  ...more: ResponseHeader[]
): DocumentedResponse {
  return describeResponse(description, body, ['ETag', 'Last-Modified', ...noticeHeaders, ...more])
}

/** References to shared error responses, by status. */
export function errorResponses(statuses: readonly number[]): Record<number, { $ref: string }> {
  const toEntry = (status: number) => [status, { $ref: `#/components/responses/Status${status}` }]
  return Object.fromEntries(statuses.map(toEntry))
}

function componentName(header: string): string {
  return header.replace('?', '.possible')
}

const exampleProblem = { location: 'body', name: 'data.payload', description: 'must be string' }

const sharedErrors: [status: number, errno: Errno, description: string, headers?: ResponseHeader[], body?: TSchema][] = [
  [400, errno.invalidParameters, 'Invalid request: errno 107 for a header, 109 for anything else', [], InvalidRequestResponse],
  [401, errno.missingCredentials, 'Credentials are missing or malformed (errno 104), or rejected (105)', ['WWW-Authenticate']],
  [403, errno.forbidden, 'The storage rejected this: the quota is used up'],
  [404, errno.unknownRecord, 'Record not found (errno 110), or a collection that the operator does not expose (111)'],
  [405, errno.methodNotAllowed, 'Write not enabled by the operator', ['Allow']],
  [409, errno.conflict, 'Write conflict: other clients keep changing this collection'],
  [410, errno.serviceEnded, 'This service or the storage has been shut down'],
  [412, errno.preconditionFailed, 'The stored version is a different one; a record is in `details.existing`', ['ETag?', 'Last-Modified?'], PreconditionFailedResponse],
  [413, errno.requestTooLarge, 'Larger than this service or the storage accepts'],
  [415, errno.invalidHeader, 'Content-Type is not JSON', [], InvalidRequestResponse],
  [429, errno.tooManyRequests, 'Too many requests to the storage: try again later', ['Retry-After']],
  [500, errno.undefined, 'Internal error of this service', ['Retry-After']],
  [503, errno.backend, 'The token server or the storage is unavailable, or too many requests are in flight', ['Retry-After']],
] // prettier-ignore

/** The components that `describeResponse` and `errorResponses` refer to. */
export const responseComponents = {
  headers: Object.fromEntries(
    Object.entries(responseHeaders).map(([name, [description, example]]) => {
      const number = Number.isInteger(example) ? { type: 'integer', minimum: 0 } : { type: 'number' }
      const schema = typeof example === 'number' ? number : { type: 'string' }
      const required = !name.endsWith('?')
      return [componentName(name), { ...(required && { required }), description, schema, example }]
    }),
  ),
  responses: Object.fromEntries([
    ['Status304', versioned('Not changed since that version', null)],
    ...sharedErrors.map(([code, errno, message, headers = [], body = ErrorResponse]) => {
      const details = body === InvalidRequestResponse ? [exampleProblem] : undefined
      const example = { code, errno, error: STATUS_CODES[code], message, details }
      return [`Status${code}`, describeResponse(message, body, [...headers, 'Alert?'], example)]
    }),
  ]),
}
