import { Type } from '@sinclair/typebox'
import type { Static } from '@sinclair/typebox'
import { fieldLimits } from '../domain/record.ts'

/** Every shape of the exposed protocol: what requests are checked against and what the API document shows. */

const ignored = (what: string) =>
  Type.Optional(Type.Unknown({ description: `Accepted and ignored: ${what}` }))

export const RecordFields = Type.Object(
  {
    payload: Type.Optional(
      Type.String({
        description: "The client's ciphertext, kept as it is",
        examples: ['{"ciphertext":"…"}'],
      }),
    ),
    sortindex: Type.Optional(
      Type.Integer({
        minimum: -fieldLimits.sortindex,
        maximum: fieldLimits.sortindex,
        description: 'The weight that orders `_sort=index`',
      }),
    ),
    ttl: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: fieldLimits.ttlSeconds,
        description: 'Seconds after which the storage forgets the record',
      }),
    ),
    id: ignored('the id in the path wins'),
    last_modified: ignored('the storage sets it'),
  },
  { additionalProperties: false },
)

export const RecordBody = Type.Object(
  { data: RecordFields, permissions: ignored('the storage has one user') },
  { additionalProperties: false },
)
export type RecordBody = Static<typeof RecordBody>

const Method = Type.Union(
  ['GET', 'HEAD', 'PUT', 'POST', 'PATCH', 'DELETE'].map((method) => Type.Literal(method)),
  { description: 'The method of the sub-request, GET when left out' },
)

const SubRequestHeaders = Type.Record(
  Type.String(),
  Type.String({ pattern: '^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$' }),
  { description: 'Outweigh those of `defaults`, which outweigh those of the batch itself' },
)

const subRequestMembers = {
  method: Type.Optional(Method),
  path: Type.Optional(
    Type.String({
      pattern: '^/(?![/\\\\])[^#]*$',
      description: 'With or without the version prefix, with its query',
      examples: ['/buckets/0123456789abcdef0123456789abcdef/collections/bookmarks/records'],
    }),
  ),
  headers: Type.Optional(SubRequestHeaders),
  body: Type.Optional(Type.Object({}, { additionalProperties: true })),
}

export const SubRequest = Type.Object(subRequestMembers, { additionalProperties: false })
export type SubRequest = Static<typeof SubRequest>

export const BatchBody = Type.Object(
  {
    defaults: Type.Optional(SubRequest),
    requests: Type.Array(SubRequest, { description: 'Carried out in this order, as one transaction' }),
  },
  { additionalProperties: false },
)
export type BatchBody = Static<typeof BatchBody>

// What follows is only shown, in the API document.

const Timestamp = Type.Integer({ description: 'Milliseconds since 1970', examples: [1700000000120] })

export const ExposedRecord = Type.Object({
  id: Type.String({ examples: ['dsIy9rXpTVQb'] }),
  last_modified: Timestamp,
  payload: Type.String(),
  sortindex: Type.Optional(Type.Integer()),
})

export const Metadata = Type.Object({ id: Type.String(), last_modified: Timestamp })

export const Tombstone = Type.Object({
  data: Type.Object({ id: Type.String(), last_modified: Timestamp, deleted: Type.Literal(true) }),
})

export const RecordAnswer = Type.Object({ data: ExposedRecord })
export const ListAnswer = Type.Object({ data: Type.Array(ExposedRecord) })
export const MetadataAnswer = Type.Object({ data: Metadata })
export const CollectionsAnswer = Type.Object({ data: Type.Array(Metadata) })

export const BatchAnswer = Type.Object({
  responses: Type.Array(
    Type.Object({
      status: Type.Integer(),
      path: Type.String(),
      headers: Type.Record(Type.String(), Type.String()),
      body: Type.Object({}, { additionalProperties: true }),
    }),
  ),
})

export const ErrorAnswer = Type.Object({
  code: Type.Integer({ description: 'The HTTP status' }),
  errno: Type.Integer({ description: 'What happened, as a number that does not change' }),
  error: Type.String({ description: 'The name of the status' }),
  message: Type.String(),
  info: Type.Optional(Type.String()),
  details: Type.Optional(Type.Unknown()),
})

export const HeartbeatAnswer = Type.Object({
  storage: Type.Boolean({ description: 'The token server answers' }),
  cache: Type.Boolean({ description: 'The credential cache answers' }),
  permission: Type.Boolean({ description: 'The settings are loaded and valid' }),
})

export const VersionAnswer = Type.Object({
  name: Type.String(),
  version: Type.String(),
  commit: Type.String(),
  source: Type.String(),
})

export const RootAnswer = Type.Object({
  project_name: Type.String(),
  project_docs: Type.String(),
  project_version: Type.String(),
  http_api_version: Type.String(),
  toolkit_protocol_version: Type.String(),
  cliquet_protocol_version: Type.String(),
  url: Type.String(),
  eos: Type.Optional(Type.String()),
  settings: Type.Object({
    batch_max_requests: Type.Integer(),
    readonly: Type.Boolean(),
    'cliquet.batch_max_requests': Type.Integer(),
  }),
  capabilities: Type.Record(Type.String(), Type.Object({ description: Type.String(), url: Type.String() })),
  user: Type.Optional(Type.Object({ id: Type.String() })),
})
