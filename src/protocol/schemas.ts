import { Type, type Static, type TOptional, type TProperties, type TString } from '@sinclair/typebox'
import { collectionPattern, fieldLimits } from '../domain/record.ts'
import { entityTagPattern, versionPattern } from '../domain/timestamp.ts'
import type { SortOrder } from '../domain/record-storage.ts'

/**
 * Schemas of requests and sub-requests, also shown in the API document. A parameter's description is the error message for an invalid
 * value. A schema with a title becomes a component of the document.
 */

/**
 * Schema option: the schema to show in the API document instead. URL values are validated as text, but documented as numbers for generated
 * clients.
 */
export const documentedAs = 'documentedAs'

const exampleBucket = '0123456789abcdef0123456789abcdef'
const examplePayload = '{"ciphertext":"c2VjcmV0","IV":"dmVjdG9y","hmac":"6d6163"}'

// --- Paths ---

const BucketId = Type.String({
  pattern: '^(?!\\.{1,2}$)[^\\x00-\\x1f\\x7f-\\x9f\\ufffd]{1,256}$',
  description: 'must be the client state, 32 hexadecimal digits: the second half of X-KeyID',
  example: exampleBucket,
})

const CollectionId = Type.String({
  pattern: collectionPattern.source,
  description: 'must be 1 to 32 letters, digits, dots, dashes and underscores',
  example: 'bookmarks',
})

/** The id as sent; `readTarget` in `records.ts` decodes and validates it. */
const EscapedRecordId = Type.String({
  pattern: '^[ -~]{1,192}$',
  description: 'must be 1 to 64 printable ASCII characters, without "." or ".." between slashes',
  example: 'dsIy9rXpTVQb',
})

export const BucketPath = Type.Object({ bucket_id: BucketId })
export const CollectionPath = Type.Object({ bucket_id: BucketId, collection_id: CollectionId })
export const RecordPath = Type.Object({ ...CollectionPath.properties, '*': EscapedRecordId })
export type RecordPath = Static<typeof RecordPath>
export const FilePath = Type.Object({ '*': Type.String({ minLength: 1 }) })

// --- Headers ---

const text = (description: string, more: object = {}) => Type.Optional(Type.String({ description, ...more }))

const version = (meaning: string) =>
  text(`must be a timestamp in milliseconds, as in ETag, or *: ${meaning}`, {
    pattern: `^(?:\\*|${entityTagPattern})$`,
  })

// identity.ts validates these headers, because an invalid one is 401 and not 400.
const credentials = { authorization: Type.Optional(Type.String()), 'x-keyid': Type.Optional(Type.String()) }

const clientState = text('The client state, if the bucket id is not (legacy clients)', {
  deprecated: true,
})
const prefer = text('`return=representation`: a deletion returns 200 with a tombstone')
const ifMatch = version('fails with 412 if the stored version is newer')
const ifOther = version('304 if the current version is this one')

const open = { additionalProperties: true }

/** The headers of a request in a bucket, with the meaning of If-None-Match. */
const conditions = <P extends TProperties>(ifNoneMatch: TOptional<TString>, more: P) => {
  const own = { 'if-match': ifMatch, 'if-none-match': ifNoneMatch, ...more }
  return Type.Object({ ...own, 'x-client-state': clientState, ...credentials }, open)
}

export const ReadHeaders = conditions(ifOther, {})
export const PutHeaders = conditions(version('* creates a record only if it does not exist'), {})
export const DeleteHeaders = conditions(version('has no effect on a deletion'), { prefer })
export const BatchHeaders = conditions(ifOther, {
  prefer: text(
    '`handling=strict`: nothing is written if any sub-request would get 400 or more. ' +
      '`return=representation`: for every deletion',
  ),
})

export const RootHeaders = Type.Object(
  { 'x-client-state': text('The client state for an assertion'), ...credentials },
  open,
)

// --- The query of a list ---

/** Sort orders by parameter value. */
export const sortOrders: Record<string, SortOrder> = {
  newest: 'newest',
  oldest: 'oldest',
  index: 'index',
  '-last_modified': 'newest',
  last_modified: 'oldest',
  '-sortindex': 'index',
}
const orderNames = Object.keys(sortOrders)

// Kinto clients send `null` for an unset parameter. In a list of ids, it is an id.
const parameter = (pattern: string, description: string, more: object = {}) =>
  text(description, { pattern: `^(?:null|${pattern})$`, ...more })

const moment = (meaning: string) =>
  parameter(
    versionPattern,
    `must be a timestamp in milliseconds, plain or in quotes: lists records ${meaning}`,
    { [documentedAs]: { anyOf: [{ type: 'integer', minimum: 0 }, { type: 'string' }] } },
  )

// Where they are read, they are counted, too: the description of a schema can't contain a limit that a setting could change.
const ids = (meaning: string) =>
  text(`must be record ids separated by commas: ${meaning}`, { pattern: '^[ -~]*$' })

const onlyThese = ids('lists only these; none if empty')
const allButThese = ids('excludes these')

export const ListQuery = Type.Object(
  {
    _since: moment('changed after it'),
    _before: moment('changed before it'),
    _sort: parameter(orderNames.join('|'), `must be one of ${orderNames.join(', ')}`, { enum: orderNames }),
    _limit: parameter(
      '(?!0+$)\\d{1,18}',
      'must be an integer of at least 1: maximum records in one response',
      { [documentedAs]: { type: 'integer', minimum: 1, example: 100 } },
    ),
    _token: parameter('[\\w-]{1,1400}', 'must be the _token of a Next-Page URL'),
    in_ids: onlyThese,
    exclude_id: allButThese,
    gt_last_modified: moment('changed after it, like _since'),
    lt_last_modified: moment('changed before it, like _before'),
    in_id: onlyThese,
    id: onlyThese,
    not_id: allButThese,
    min_last_modified: moment('changed at it or later'),
    max_last_modified: moment('changed at it or earlier'),
  },
  open,
)
export type ListQuery = Static<typeof ListQuery>

// --- Bodies ---

const closed = <P extends TProperties>(title: string, properties: P, examples?: object) =>
  Type.Object(properties, { title, additionalProperties: false, ...(examples && { examples }) })

const ignored = (what: string) =>
  Type.Optional(Type.Unknown({ description: `Accepted and ignored: ${what}` }))

export const Payload = Type.String({
  description: "The client's ciphertext, stored unchanged; no NUL characters",
  example: examplePayload,
})

export const SortIndex = Type.Integer({
  minimum: -fieldLimits.sortindex,
  maximum: fieldLimits.sortindex,
  description: 'The sort key of `_sort=index`',
  example: 100,
})

const RecordFields = closed('RecordFields', {
  payload: Type.Optional(Payload),
  sortindex: Type.Optional(SortIndex),
  ttl: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: fieldLimits.ttlSeconds,
      description: 'Seconds until the record expires; cannot be read back',
      example: 86400,
    }),
  ),
  id: ignored('the id in the path counts'),
  last_modified: ignored('the storage sets it'),
})

const wholeRecord = { data: { payload: examplePayload, sortindex: 100 } }
const shortLived = { data: { payload: examplePayload, ttl: 86_400 } }

export const RecordBody = closed(
  'RecordBody',
  { data: RecordFields, permissions: ignored('a bucket has one user') },
  {
    whole: { summary: 'A record', value: wholeRecord },
    weight: { summary: 'A new sortindex, the same payload', value: { data: { sortindex: 200 } } },
    fleeting: { summary: 'A record that expires after a day', value: shortLived },
  },
)

const methods = ['GET', 'HEAD', 'PUT', 'POST', 'PATCH', 'DELETE']
const exampleRecords = `/buckets/${exampleBucket}/collections/bookmarks/records`

const SubRequest = closed('SubRequest', {
  method: text('The method of the sub-request; default: GET', {
    pattern: `^(?:${methods.join('|')})$`,
    enum: methods,
  }),
  path: text('must begin with one slash, with or without the version prefix, and have no fragment (#)', {
    pattern: '^/(?![/\\\\])[^#]*$',
    maxLength: 16 * 1024,
    example: exampleRecords,
  }),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String({ pattern: '^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$' }), {
      maxProperties: 100,
      description: 'Override those of `defaults`, which override those of the batch request',
    }),
  ),
  body: Type.Optional(Type.Object({}, { ...open, description: 'The body of a PUT; optional otherwise' })),
})
export type SubRequest = Static<typeof SubRequest>

const twoReads = {
  requests: [{ path: `/buckets/${exampleBucket}/collections` }, { path: `${exampleRecords}?_limit=2` }],
}
const twoWrites = {
  defaults: { headers: { 'If-None-Match': '*' } },
  requests: [
    { method: 'PUT', path: `${exampleRecords}/dsIy9rXpTVQb`, body: { data: { payload: examplePayload } } },
    { method: 'DELETE', path: `${exampleRecords}/Yk2xqkmyy5Oa` },
  ],
}

export const BatchBody = closed(
  'BatchBody',
  {
    defaults: Type.Optional(SubRequest),
    requests: Type.Array(SubRequest, { description: 'Executed in this order, as one transaction' }),
    data: ignored('old Python clients send it empty'),
  },
  {
    read: { summary: 'Two reads', value: twoReads },
    write: { summary: 'Create a record and delete another', value: twoWrites },
  },
)
