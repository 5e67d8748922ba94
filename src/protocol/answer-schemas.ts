import { Type } from '@sinclair/typebox'
import { errno } from '../domain/errors.ts'
import { Payload, SortIndex } from './schemas.ts'

/** The shapes of answers: bodies and headers. Loaded by the API document alone: making them all would be a tenth of a start. */

/** What headers of answers mean, each with an example. A name that ends in `?` is that of a header that only some answers have. */
export const answerHeaders = {
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

const Timestamp = Type.Integer({ description: 'Milliseconds since 1970', examples: [1700000000120] })
const RecordId = Type.String({ examples: ['dsIy9rXpTVQb'] })

export const ExposedRecord = Type.Object(
  {
    id: RecordId,
    last_modified: Timestamp,
    payload: Payload,
    sortindex: Type.Optional(SortIndex),
  },
  { title: 'Record' },
)

export const Metadata = Type.Object(
  { id: Type.String({ examples: ['bookmarks'] }), last_modified: Timestamp },
  { title: 'Metadata' },
)

export const TombstoneAnswer = Type.Object(
  { data: Type.Object({ id: RecordId, last_modified: Timestamp, deleted: Type.Literal(true) }) },
  { title: 'TombstoneAnswer' },
)

export const RecordAnswer = Type.Object({ data: ExposedRecord }, { title: 'RecordAnswer' })
export const ListAnswer = Type.Object({ data: Type.Array(ExposedRecord) }, { title: 'ListAnswer' })
export const MetadataAnswer = Type.Object({ data: Metadata }, { title: 'MetadataAnswer' })
export const CollectionsAnswer = Type.Object({ data: Type.Array(Metadata) }, { title: 'CollectionsAnswer' })

export const SubResponse = Type.Object(
  {
    status: Type.Integer({ examples: [200] }),
    path: Type.String({ description: 'With the version prefix, without the query' }),
    headers: Type.Record(Type.String(), Type.String()),
    body: Type.Object(
      {},
      { additionalProperties: true, description: 'Empty for 304 and HEAD; the tombstone for DELETE' },
    ),
  },
  { title: 'SubResponse' },
)

export const BatchAnswer = Type.Object({ responses: Type.Array(SubResponse) }, { title: 'BatchAnswer' })

const errorMembers = {
  code: Type.Integer({ description: 'The HTTP status' }),
  errno: Type.Union(
    Object.values(errno).map((number) => Type.Literal(number)),
    { description: 'What happened, as a number that does not change' },
  ),
  error: Type.String({ description: 'The name of the status' }),
  message: Type.String({ description: 'What happened, for people' }),
}

export const ErrorAnswer = Type.Object(
  { ...errorMembers, info: Type.Optional(Type.String({ description: 'Where to read on' })) },
  { title: 'Error' },
)

export const ProblemItem = Type.Object(
  {
    location: Type.Union(
      ['body', 'header', 'path', 'querystring'].map((location) => Type.Literal(location)),
      { description: 'The part of the request that it is in' },
    ),
    name: Type.String({ description: 'The member, parameter or header', examples: ['data.payload'] }),
    description: Type.String({ examples: ['must be string'] }),
  },
  { title: 'Problem' },
)

export const InvalidRequestAnswer = Type.Object(
  {
    ...errorMembers,
    details: Type.Array(ProblemItem, {
      minItems: 1,
      description: 'All that is wrong; `message` tells the first',
    }),
  },
  { title: 'InvalidRequest' },
)

export const PreconditionFailedAnswer = Type.Object(
  { ...errorMembers, details: Type.Optional(Type.Object({ existing: ExposedRecord })) },
  { title: 'PreconditionFailed', description: '`details` is there when it is about a record that exists' },
)

export const HeartbeatAnswer = Type.Object(
  {
    storage: Type.Boolean({ description: 'The token server answers' }),
    cache: Type.Boolean({ description: 'The credential cache answers' }),
    permission: Type.Boolean({ description: 'The settings are loaded and valid' }),
  },
  { title: 'HeartbeatAnswer' },
)

export const VersionAnswer = Type.Object(
  {
    name: Type.String({ examples: ['sync-bridge'] }),
    version: Type.String({ examples: ['1.0.0'] }),
    commit: Type.String(),
    source: Type.String({ description: 'Where the source code is' }),
  },
  { title: 'VersionAnswer' },
)

export const ApiDocumentAnswer = Type.Object(
  { openapi: Type.String({ examples: ['3.0.3'] }) },
  { title: 'ApiDocument', additionalProperties: true },
)

export const RootAnswer = Type.Object(
  {
    project_name: Type.String({ examples: ['Sync Bridge'] }),
    project_docs: Type.String(),
    project_version: Type.String({ examples: ['1.0.0'] }),
    http_api_version: Type.String({ examples: ['1.5'] }),
    toolkit_protocol_version: Type.String({ examples: ['2'] }),
    cliquet_protocol_version: Type.String({
      description: 'The historical name of the one before',
      examples: ['2'],
    }),
    url: Type.String({ description: 'The address that all paths here are below' }),
    eos: Type.Optional(Type.String({ description: 'When the service ends', examples: ['2031-12-31'] })),
    settings: Type.Object({
      batch_max_requests: Type.Integer({ examples: [25] }),
      readonly: Type.Boolean(),
      'cliquet.batch_max_requests': Type.Integer({ examples: [25] }),
    }),
    capabilities: Type.Record(Type.String(), Type.Object({ description: Type.String(), url: Type.String() })),
    user: Type.Optional(
      Type.Object({ id: Type.String() }, { description: 'Whom the credentials belong to, if there are any' }),
    ),
  },
  { title: 'RootAnswer' },
)
