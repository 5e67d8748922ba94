/** The parameters that the API document shows. */
import type { DocumentDecoration } from 'elysia'
import { fieldLimits } from '../domain/record.ts'

export type Parameter = Extract<NonNullable<DocumentDecoration['parameters']>[number], { name: string }>

type Schema = NonNullable<Parameter['schema']>

/** How a client says who it is. An access token needs its key id beside it; an assertion stands alone. */
export const credentials: NonNullable<DocumentDecoration['security']> = [
  { bearer: [], keyId: [] },
  { browserid: [] },
]

/** A bucket id that looks like one, for examples. */
export const exampleBucket = '0123456789abcdef0123456789abcdef'

const momentPattern = '^(\\d{1,15}|(W/)?"\\d{1,15}")$'
const versionPattern = '^(\\*|\\d{1,15}|(W/)?"\\d{1,15}")$'
const moment: Schema = { type: 'string', pattern: momentPattern }
const version: Schema = { type: 'string', pattern: versionPattern }
const text: Schema = { type: 'string' }

export const bucketId = path(
  'bucket_id',
  'The client state: the second half of `X-KeyID`, in hex',
  exampleBucket,
  {
    type: 'string',
    minLength: 1,
    maxLength: 256,
  },
)

export const collectionId = path('collection_id', 'The name of the collection', 'bookmarks', {
  type: 'string',
  pattern: '^[a-zA-Z0-9._-]{1,32}$',
})

export const recordId = path('record_id', 'The id of the record', 'dsIy9rXpTVQb', {
  type: 'string',
  minLength: 1,
  maxLength: fieldLimits.idBytes,
})

export const ifMatch = header(
  'If-Match',
  'Only if the stored version is not newer than this ETag, else 412; `*`: only if there is one',
  version,
)

export const ifNoneMatch = header(
  'If-None-Match',
  'Only if it has changed since this ETag, else 304',
  version,
)

export const createOnly = header('If-None-Match', '`*`: only if there is no such record yet', version)

export const prefer = header('Prefer', '`return=representation`: answer 200 with the tombstone', text)

export const clientState: Parameter = {
  ...header('X-Client-State', 'For a bucket id that is not the client state, as old clients call', text),
  deprecated: true,
}

/** What a list can be asked for. */
export const listParameters: Parameter[] = [
  query('_since', 'Changed after this timestamp or ETag', moment),
  query('_before', 'Changed before this timestamp or ETag', moment),
  query('_sort', 'The order, newest first when left out', {
    type: 'string',
    enum: ['newest', 'oldest', 'index', '-last_modified', 'last_modified', '-sortindex'],
  }),
  query('_limit', 'At most so many records; `Next-Page` leads to the others', {
    type: 'integer',
    minimum: 1,
  }),
  query('_token', 'Where to go on: part of a `Next-Page` URL', text),
  query('in_ids', 'Only these ids, separated by commas; given but empty, none', text),
  query('exclude_id', 'Not these ids, separated by commas', text),
  query('gt_last_modified', 'The same as `_since`', moment),
  query('lt_last_modified', 'The same as `_before`', moment),
  query('in_id', 'The same as `in_ids`', text),
]

/** A file of the documentation page. */
export function fileName(names: string[]): Parameter {
  return path('file', 'Its name', names[0]!, { type: 'string', enum: names })
}

function path(name: string, description: string, example: string, schema: Schema): Parameter {
  return { in: 'path', name, required: true, description, schema, example }
}

function query(name: string, description: string, schema: Schema): Parameter {
  return { in: 'query', name, description, schema }
}

function header(name: string, description: string, schema: Schema): Parameter {
  return { in: 'header', name, description, schema }
}
