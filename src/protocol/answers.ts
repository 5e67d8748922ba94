/** What the API document says of answers: their bodies, their headers, and the errors that operations share. */
import { STATUS_CODES } from 'node:http'
import { Type, type TProperties, type TSchema } from '@sinclair/typebox'
import { errno, type Errno } from '../domain/errors.ts'
import { Payload, SortIndex } from './schemas.ts'

// --- Bodies. A title makes a schema one that others refer to. ---

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

export const TombstoneAnswer = named('TombstoneAnswer', {
  data: Type.Object({ id: RecordId, last_modified: Timestamp, deleted: Type.Boolean({ enum: [true] }) }),
})
export const RecordAnswer = named('RecordAnswer', { data: ExposedRecord })
export const ListAnswer = named('ListAnswer', { data: Type.Array(ExposedRecord) })
export const MetadataAnswer = named('MetadataAnswer', { data: Metadata })
export const CollectionsAnswer = named('CollectionsAnswer', { data: Type.Array(Metadata) })

const SubResponse = named('SubResponse', {
  status: integer(200),
  path: Type.String({ description: 'With the version prefix, without the query' }),
  headers: Type.Record(Type.String(), Type.String()),
  body: Type.Object(
    {},
    { additionalProperties: true, description: 'Empty for 304 and HEAD; the tombstone for DELETE' },
  ),
})
export const BatchAnswer = named('BatchAnswer', { responses: Type.Array(SubResponse) })

/** What every error has. By their statuses clients tell errors of one shape from those of another. */
const errorMembers = (statuses: number[]) => ({
  code: Type.Integer({ enum: statuses, description: 'The HTTP status' }),
  errno: Type.Integer({
    enum: Object.values(errno),
    description: 'What happened, as a number that does not change',
  }),
  error: Type.String({ description: 'The name of the status' }),
  message: Type.String({ description: 'What happened, for people' }),
})

const ErrorAnswer = named('Error', {
  ...errorMembers([401, 403, 404, 405, 409, 410, 413, 429, 500, 503]),
  info: Type.Optional(Type.String({ description: 'Where to read on' })),
})

const ProblemItem = named('Problem', {
  location: Type.String({
    enum: ['body', 'header', 'path', 'querystring'],
    description: 'The part of the request that it is in',
  }),
  name: text('data.payload', 'The member, parameter or header'),
  description: text('must be string'),
})

const InvalidRequestAnswer = named('InvalidRequest', {
  ...errorMembers([400, 415]),
  details: Type.Array(ProblemItem, {
    minItems: 1,
    description: 'All that is wrong; `message` tells the first',
  }),
})

const PreconditionFailedAnswer = named(
  'PreconditionFailed',
  { ...errorMembers([412]), details: Type.Optional(Type.Object({ existing: ExposedRecord })) },
  '`details` is there when it is about a record that exists',
)

export const HeartbeatAnswer = named('HeartbeatAnswer', {
  storage: Type.Boolean({ description: 'The token server answers' }),
  cache: Type.Boolean({ description: 'The credential cache answers' }),
  permission: Type.Boolean({ description: 'The settings are loaded and valid' }),
})

export const VersionAnswer = named('VersionAnswer', {
  name: text('sync-bridge'),
  version: text('1.0.0'),
  commit: Type.String(),
  source: Type.String({ description: 'Where the source code is' }),
})

export const ApiDocumentAnswer = Type.Object(
  { openapi: text('3.0.3') },
  { title: 'ApiDocument', additionalProperties: true },
)

const batchMaxRequests = integer(25)

export const RootAnswer = named('RootAnswer', {
  project_name: text('Sync Bridge'),
  project_docs: Type.String(),
  project_version: text('1.0.0'),
  http_api_version: text('1.5'),
  toolkit_protocol_version: text('2'),
  cliquet_protocol_version: text('2', 'The historical name of the one before'),
  url: Type.String({ description: 'The address that all paths here are below' }),
  eos: Type.Optional(text('2031-12-31', 'When the service ends')),
  settings: Type.Object({
    batch_max_requests: batchMaxRequests,
    readonly: Type.Boolean(),
    'cliquet.batch_max_requests': batchMaxRequests,
  }),
  capabilities: Type.Record(Type.String(), Type.Object({ description: Type.String(), url: Type.String() })),
  user: Type.Optional(
    Type.Object({ id: Type.String() }, { description: 'Whom the credentials belong to, if there are any' }),
  ),
})

// --- Answers ---

/** An answer as OpenAPI describes it. */
export interface DocumentedAnswer {
  description: string
  headers: Record<string, { $ref: string }>
  content?: Record<string, { schema: TSchema; example?: object }>
}

/** The headers of answers, each with an example. A name that ends in `?` is that of a header that only some answers have. */
const answerHeaders = {
  ETag: ['The timestamp in quotes', '"1700000000120"'],
  'ETag?': ['That of the stored version, if there is one', '"1700000000120"'],
  'Last-Modified': ['The timestamp as a date, in whole seconds', 'Tue, 14 Nov 2023 22:13:20 GMT'],
  'Last-Modified?': ['That of the stored version, if there is one', 'Tue, 14 Nov 2023 22:13:20 GMT'],
  'Preference-Applied': ['The preference that was followed', 'return=representation'],
  'WWW-Authenticate': ['The schemes that are accepted', 'BrowserID, Bearer'],
  Allow: ['The methods that are enabled here', 'GET, HEAD, OPTIONS'],
  'Retry-After': ['Seconds to wait before trying again', 30],
  'X-Request-Id': ['Names this answer in the logs of the service', '5f0c1e9a2b7d4c83'],
  'Next-Page?': ['The URL of the next page, to be used as it is; absent at the end', 'https://…&_token=…'],
  'Total-Objects?': ['The same, as some clients call it', 2],
  'Total-Records?': ['How many records these are, where that is known beforehand', 2],
  'Quota-Remaining?': ['What is left of the quota, in KB', 51_200],
  'Backoff?': ['Seconds to stay away after this answer', 60],
  'Alert?': [
    'The end of this service or of the storage, or advice: JSON with `code`, `message` and `url`',
    '{"code":"soft-eol","message":"…","url":"https://…"}',
  ],
} as const
type AnswerHeader = keyof typeof answerHeaders

const announced: AnswerHeader[] = ['Backoff?', 'Alert?']
/** The headers of answers that come of the storage. */
export const noticeHeaders: AnswerHeader[] = ['Quota-Remaining?', ...announced]

/** An answer; `body` is the schema of JSON, or another media type, or null. */
export function answered(
  description: string,
  body: TSchema | string | null,
  names: AnswerHeader[] = announced,
  example?: object,
): DocumentedAnswer {
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

/** An answer that shows a version of what is stored. */
export function versioned(
  description: string,
  body: TSchema | null,
  ...more: AnswerHeader[]
): DocumentedAnswer {
  return answered(description, body, ['ETag', 'Last-Modified', ...noticeHeaders, ...more])
}

/** References to the errors that operations share, by their statuses. */
export function refused(statuses: readonly number[]): Record<number, { $ref: string }> {
  const toEntry = (status: number) => [status, { $ref: `#/components/responses/Status${status}` }]
  return Object.fromEntries(statuses.map(toEntry))
}

function componentName(header: string): string {
  return header.replace('?', '.possible')
}

const exampleProblem = { location: 'body', name: 'data.payload', description: 'must be string' }

const errorStatuses: [status: number, errno: Errno, description: string, headers?: AnswerHeader[], body?: TSchema][] = [
  [400, errno.invalidParameters, 'The request is invalid: errno 107 for a header, 109 for anything else', [], InvalidRequestAnswer],
  [401, errno.missingCredentials, 'Credentials are missing or unusable (errno 104), or refused (105)', ['WWW-Authenticate']],
  [403, errno.forbidden, 'The storage refuses this: the quota is used up'],
  [404, errno.unknownRecord, 'There is no such record'],
  [405, errno.methodNotAllowed, 'The operator has not enabled this write', ['Allow']],
  [409, errno.conflict, 'Write conflict: other clients keep changing this collection'],
  [410, errno.serviceEnded, 'This service or the storage has ended'],
  [412, errno.preconditionFailed, 'The stored version is another one; of a record it is `details.existing`', ['ETag?', 'Last-Modified?'], PreconditionFailedAnswer],
  [413, errno.requestTooLarge, 'Larger than this service or the storage accepts'],
  [415, errno.invalidHeader, 'The body is not JSON, says Content-Type', [], InvalidRequestAnswer],
  [429, errno.tooManyRequests, 'Too many requests to the storage: try again later', ['Retry-After']],
  [500, errno.undefined, 'A defect of this service', ['Retry-After']],
  [503, errno.backend, 'The token server or the storage is unavailable, or too many requests are in flight', ['Retry-After']],
] // prettier-ignore

/** What `answered` and `refused` refer to. */
export const answerComponents = {
  headers: Object.fromEntries(
    Object.entries(answerHeaders).map(([name, [description, example]]) => {
      const schema = typeof example === 'number' ? { type: 'integer', minimum: 0 } : { type: 'string' }
      const required = !name.endsWith('?')
      return [componentName(name), { ...(required && { required }), description, schema, example }]
    }),
  ),
  responses: Object.fromEntries([
    ['Status304', versioned('Not changed since that version', null)],
    ...errorStatuses.map(([code, errno, message, headers = [], body = ErrorAnswer]) => {
      const details = body === InvalidRequestAnswer ? [exampleProblem] : undefined
      const example = { code, errno, error: STATUS_CODES[code], message, details }
      return [`Status${code}`, answered(message, body, [...headers, 'Alert?'], example)]
    }),
  ]),
}
