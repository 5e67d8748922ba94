/** The bodies of answers, as the API document shows them. A title makes a schema one that others refer to. */
import { Type } from '@sinclair/typebox'
import type { TProperties } from '@sinclair/typebox'
import { errno } from '../domain/errors.ts'
import { Payload, SortIndex } from './schemas.ts'

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
const Tombstone = Type.Object({
  id: RecordId,
  last_modified: Timestamp,
  deleted: Type.Boolean({ enum: [true] }),
})

export const TombstoneAnswer = named('TombstoneAnswer', { data: Tombstone })
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

const errorMembers = {
  code: Type.Integer({ description: 'The HTTP status' }),
  errno: Type.Integer({
    enum: Object.values(errno),
    description: 'What happened, as a number that does not change',
  }),
  error: Type.String({ description: 'The name of the status' }),
  message: Type.String({ description: 'What happened, for people' }),
}

export const ErrorAnswer = named('Error', {
  ...errorMembers,
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

export const InvalidRequestAnswer = named('InvalidRequest', {
  ...errorMembers,
  details: Type.Array(ProblemItem, {
    minItems: 1,
    description: 'All that is wrong; `message` tells the first',
  }),
})

export const PreconditionFailedAnswer = named(
  'PreconditionFailed',
  { ...errorMembers, details: Type.Optional(Type.Object({ existing: ExposedRecord })) },
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
