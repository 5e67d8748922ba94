/** The answers that the API document shows: their bodies, their headers, and the failures that operations share. */
import type { TSchema } from '@sinclair/typebox'
import type { DocumentDecoration } from 'elysia'
import { ErrorAnswer, InvalidRequestAnswer, PreconditionFailedAnswer } from '../protocol/answer-schemas.ts'
import { schemaOrReference } from './openapi-schema.ts'
import type { Json } from './openapi-schema.ts'

/** A header that every such answer has, by its name. */
const certain = {
  ETag: text('The timestamp in quotes', '"1700000000120"'),
  'Last-Modified': text('The timestamp as a date, in whole seconds', 'Tue, 14 Nov 2023 22:13:20 GMT'),
  'Preference-Applied': text('The preference that was followed', 'return=representation'),
  'WWW-Authenticate': text('The schemes that are accepted', 'BrowserID, Bearer'),
  Allow: text('The methods that are enabled here', 'GET, HEAD, OPTIONS'),
  'Retry-After': count('Seconds to wait before trying again', 30),
  'X-Request-Id': text('Names this answer in the logs of the service', '5f0c1e9a2b7d4c83'),
} as const

/** A header that some answers have; the name ends in `?`. */
const possible = {
  'ETag?': text('That of the stored version, if there is one', '"1700000000120"'),
  'Last-Modified?': text('That of the stored version, if there is one', 'Tue, 14 Nov 2023 22:13:20 GMT'),
  'Next-Page?': text(
    'The URL of the next page, to be used as it is; absent at the end',
    'https://…&_token=…',
  ),
  'Total-Objects?': count('The same, as some clients call it'),
  'Total-Records?': count('How many records these are, where that is known beforehand'),
  'Quota-Remaining?': count('What is left of the quota, in KB', 51_200),
  'Backoff?': count('Seconds to stay away after this answer', 60),
  'Alert?': text(
    'The end of this service or of the storage, or advice: JSON with `code`, `message` and `url`',
    '{"code":"soft-eol","message":"…","url":"https://…"}',
  ),
} as const

type HeaderName = keyof typeof certain | keyof typeof possible

/** Comes with every answer, and is not named again below. */
const everywhere: HeaderName[] = ['X-Request-Id']

const ofVersion: HeaderName[] = ['ETag', 'Last-Modified']

/** The headers of every answer with data of a bucket. */
export const bucketHeaders: HeaderName[] = [...ofVersion, 'Quota-Remaining?', 'Backoff?', 'Alert?']

/** The headers of answers without any part of the storage. */
export const plainHeaders: HeaderName[] = ['Backoff?', 'Alert?']

interface Failure {
  name: string
  description: string
  headers: HeaderName[]
  schema?: TSchema
  example?: Json
}

/** The error answers by status. Each is a component that operations refer to. */
const failures = {
  304: { name: 'NotModified', description: 'Not changed since that version', headers: bucketHeaders },
  400: {
    name: 'InvalidRequest',
    description: 'Something is wrong with the request: errno 107 for a header, 109 for anything else',
    headers: ['Alert?'],
    schema: InvalidRequestAnswer,
    example: {
      ...errorExample(400, 109, 'Bad Request', 'data.payload in body: must be string'),
      details: [{ location: 'body', name: 'data.payload', description: 'must be string' }],
    },
  },
  401: {
    name: 'Unauthorized',
    description: 'Credentials are missing or unusable (errno 104), or refused (105)',
    headers: ['WWW-Authenticate', 'Alert?'],
    schema: ErrorAnswer,
    example: errorExample(401, 104, 'Unauthorized', 'Authorization in header: is missing'),
  },
  403: {
    name: 'Forbidden',
    description: 'The storage refuses this: the quota is used up',
    headers: ['Alert?'],
    schema: ErrorAnswer,
    example: errorExample(403, 121, 'Forbidden', 'The storage refuses this'),
  },
  404: {
    name: 'NotFound',
    description: 'There is no such record (errno 110) or file (111)',
    headers: ['Alert?'],
    schema: ErrorAnswer,
    example: errorExample(404, 110, 'Not Found', 'There is no record of this id'),
  },
  405: {
    name: 'MethodNotAllowed',
    description: 'The operator has not enabled this write',
    headers: ['Allow', 'Alert?'],
    schema: ErrorAnswer,
    example: errorExample(405, 115, 'Method Not Allowed', 'Method not allowed'),
  },
  409: {
    name: 'Conflict',
    description: 'Other writes keep getting in the way',
    headers: ['Alert?'],
    schema: ErrorAnswer,
    example: errorExample(409, 122, 'Conflict', 'Other writes keep getting in the way'),
  },
  410: {
    name: 'Gone',
    description: 'This service or the storage has ended',
    headers: ['Alert?'],
    schema: ErrorAnswer,
    example: errorExample(410, 202, 'Gone', 'This service has ended'),
  },
  412: {
    name: 'PreconditionFailed',
    description: 'The stored version is another one; of a record it is `details.existing`',
    headers: ['ETag?', 'Last-Modified?', 'Alert?'],
    schema: PreconditionFailedAnswer,
    example: {
      ...errorExample(412, 114, 'Precondition Failed', 'The record was changed meanwhile'),
      details: {
        existing: {
          id: 'dsIy9rXpTVQb',
          last_modified: 1700000000120,
          payload: '{"ciphertext":"c2VjcmV0","IV":"dmVjdG9y","hmac":"6d6163"}',
        },
      },
    },
  },
  413: {
    name: 'TooLarge',
    description: 'Larger than this service or the storage takes',
    headers: ['Alert?'],
    schema: ErrorAnswer,
    example: errorExample(413, 113, 'Payload Too Large', 'The record is larger than the storage takes'),
  },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not JSON, says Content-Type',
    headers: ['Alert?'],
    schema: InvalidRequestAnswer,
    example: {
      ...errorExample(415, 107, 'Unsupported Media Type', 'Content-Type in header: must be application/json'),
      details: [{ location: 'header', name: 'Content-Type', description: 'must be application/json' }],
    },
  },
  429: {
    name: 'TooManyRequests',
    description: 'The storage gets too many requests',
    headers: ['Retry-After', 'Alert?'],
    schema: ErrorAnswer,
    example: errorExample(429, 117, 'Too Many Requests', 'The storage gets too many requests'),
  },
  500: {
    name: 'InternalError',
    description: 'A defect of this service',
    headers: ['Retry-After', 'Alert?'],
    schema: ErrorAnswer,
    example: errorExample(500, 999, 'Internal Server Error', 'An error of this service'),
  },
  503: {
    name: 'Unavailable',
    description: 'The token server or the storage can not answer, or too many requests are under way',
    headers: ['Retry-After', 'Alert?'],
    schema: ErrorAnswer,
    example: errorExample(503, 201, 'Service Unavailable', 'The storage can not answer now: try again later'),
  },
} satisfies Record<number, Failure>

export type FailureStatus = keyof typeof failures

/** The answer of an operation that succeeds. */
interface Answer {
  status: number
  description: string
  headers: HeaderName[]
  schema?: TSchema
  /** The media type of a body that is not JSON. */
  type?: string
  example?: Json
}

/** The answers of an operation: its own, and those that it shares with others, by status. */
export function answers(own: Answer[], shared: FailureStatus[]): DocumentDecoration['responses'] {
  return Object.fromEntries([
    ...own.map((answer) => [answer.status, toResponse(answer)]),
    ...shared.map((status) => [status, { $ref: `#/components/responses/${failures[status].name}` }]),
  ])
}

/** The components that answers refer to. */
export function answerComponents() {
  const shared: Failure[] = Object.values(failures)
  return {
    responses: Object.fromEntries(shared.map((failure) => [failure.name, toResponse(failure)])),
    headers: Object.fromEntries([
      ...Object.entries(certain).map(([name, shown]) => [name, { required: true, ...shown }]),
      ...Object.entries(possible).map(([name, shown]) => [componentName(name), shown]),
    ]),
  }
}

function toResponse({ description, headers, schema, type, example }: Omit<Answer, 'status'>) {
  const content = schema
    ? { 'application/json': { schema: schemaOrReference(schema), ...(example && { example }) } }
    : type && { [type]: { schema: { type: 'string' } } }
  return {
    description,
    headers: Object.fromEntries(
      [...headers, ...everywhere].map((name) => [
        name.replace('?', ''),
        { $ref: `#/components/headers/${componentName(name)}` },
      ]),
    ),
    ...(content && { content }),
  }
}

function componentName(header: string): string {
  return header.replace('?', '.possible')
}

function errorExample(code: number, errno: number, error: string, message: string): Json {
  return { code, errno, error, message }
}

function text(description: string, example: string) {
  return { description, schema: { type: 'string' }, example }
}

function count(description: string, example = 2) {
  return { description, schema: { type: 'integer', minimum: 0 }, example }
}
