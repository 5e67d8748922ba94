import { Type } from '@sinclair/typebox'
import type { Static } from '@sinclair/typebox'
import { fieldLimits } from '../domain/record.ts'

/**
 * The shapes of what clients send: requests are checked against them, and the API document shows them. A title makes a
 * schema one that others refer to there.
 */

const ignored = (what: string) =>
  Type.Optional(Type.Unknown({ description: `Accepted and ignored: ${what}` }))

export const Payload = Type.String({
  description: "The client's ciphertext, kept as it is",
  examples: ['{"ciphertext":"c2VjcmV0","IV":"dmVjdG9y","hmac":"6d6163"}'],
})

export const SortIndex = Type.Integer({
  minimum: -fieldLimits.sortindex,
  maximum: fieldLimits.sortindex,
  description: 'The weight that orders `_sort=index`',
  examples: [100],
})

export const RecordFields = Type.Object(
  {
    payload: Type.Optional(Payload),
    sortindex: Type.Optional(SortIndex),
    ttl: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: fieldLimits.ttlSeconds,
        description: 'Seconds after which the storage forgets the record; can not be read back',
        examples: [86400],
      }),
    ),
    id: ignored('the id in the path wins'),
    last_modified: ignored('the storage sets it'),
  },
  { title: 'RecordFields', additionalProperties: false },
)

export const RecordBody = Type.Object(
  { data: RecordFields, permissions: ignored('the storage has one user') },
  { title: 'RecordBody', additionalProperties: false },
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
  body: Type.Optional(
    Type.Object(
      {},
      { additionalProperties: true, description: 'The body of a PUT; may be missing elsewhere' },
    ),
  ),
}

export const SubRequest = Type.Object(subRequestMembers, { title: 'SubRequest', additionalProperties: false })
export type SubRequest = Static<typeof SubRequest>

export const BatchBody = Type.Object(
  {
    defaults: Type.Optional(SubRequest),
    requests: Type.Array(SubRequest, { description: 'Carried out in this order, as one transaction' }),
  },
  { title: 'BatchBody', additionalProperties: false },
)
export type BatchBody = Static<typeof BatchBody>
