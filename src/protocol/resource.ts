/** Declarations of resources: route, API document, storage operation and reply. */
import { Type, type Static, type TObject } from '@sinclair/typebox'
import type { Problem } from './problems.ts'
import type { Operation, OutcomeOf } from '../domain/operation.ts'
import type { Settings } from '../settings/settings.ts'
import { errorResponses, type DocumentedResponse } from './responses.ts'
import { compileRequestCheck } from './check.ts'
import type { Reply } from './reply.ts'

/** Headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** The address of a request, as sent; used for the URL of the next page. */
export interface Address {
  host: string | null
  path: string
  /** With the question mark; may be empty. */
  query: string
}

/** The validated parts of a request. `body`: the parsed body of a PUT. */
export interface Input<Params = Record<string, unknown>, Query = Record<string, unknown>> {
  params: Params
  query: Query
  headers: RequestHeaders
  body?: unknown
  address: Address
}

/** One method of one resource. HEAD is served wherever GET is. */
export interface Resource<P extends TObject = TObject, Q extends TObject = TObject> {
  /** Name in logs and metrics, shared by all methods of the path. */
  name: string
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** After the version prefix. `:name` is one segment, `*` the rest of the path, not decoded. */
  path: string
  /** The schemas that the route validates; `detail` is the operation in the API document. Bodies are validated when they are read. */
  schemas: { params: P; query: Q; headers: TObject; detail: object; parse: 'none' }
  /** Validates the parts of a request; returns all problems. */
  check(parts: Pick<Input, 'params' | 'query' | 'headers'>): Problem[]
}

/** How a bucket resource maps to a storage operation, and the outcome to a reply. */
interface StorageBinding<P extends TObject, Q extends TObject, K extends Operation['kind']> {
  /**
   * Returns the storage operation. Adds problems that schemas can't detect to `problems`; then don't use the operation. Throws
   * `ServiceError` 400 for problems of the body.
   */
  operation(
    input: Input<Static<P>, Static<Q>>,
    problems: Problem[],
    settings: Settings,
  ): Extract<Operation, { kind: K }>
  /** Returns the reply for the outcome of the operation. Throws `ServiceError` for outcomes that are errors. */
  reply(
    outcome: OutcomeOf[K],
    operation: Extract<Operation, { kind: K }>,
    input: Input<Static<P>, Static<Q>>,
    settings: Settings,
  ): Reply
}

/** A resource in a user's bucket; needs credentials. */
export type BucketResource<P extends TObject = TObject, Q extends TObject = TObject> = Resource<P, Q> &
  StorageBinding<P, Q, Operation['kind']>

/** `id`, `summary` and `description` appear in the API document. */
interface Declaration<P extends TObject, Q extends TObject> {
  name: string
  method: Resource['method']
  path: string
  params?: P
  query?: Q
  headers?: TObject
  body?: TObject
  tag: string
  id: string
  summary: string
  description?: string
  responses: Record<number, DocumentedResponse>
  /** The error statuses that it can return. */
  errorStatuses: readonly number[]
  security?: Record<string, string[]>[]
  /** Omits it from the API document. */
  hide?: true
}

/** How clients authenticate: an access token with its key id, or an assertion. */
export const credentials: Record<string, string[]>[] = [{ bearer: [], keyId: [] }, { browserid: [] }]

// The schema of unused parts.
const anything = Type.Object({}, { additionalProperties: true })

/** Declares a resource of the service itself, with its own handler. */
export function declareService<P extends TObject, Q extends TObject>(
  declaration: Declaration<P, Q>,
): Resource<P, Q> {
  const { name, method, path, params, query = anything, headers = anything, body } = declaration
  const { tag, id: operationId, summary, description, security = [], hide } = declaration
  const content = body && { 'application/json': { schema: body, examples: body.examples as object } }
  const requestBody = content && { required: true, content }
  const responses = { ...declaration.responses, ...errorResponses(declaration.errorStatuses) }
  const detail = { operationId, tags: [tag], summary, description, security, requestBody, responses, hide }
  const check = compileRequestCheck({ params: params ?? anything, query, headers })
  // Without path parameters, the framework must not get a schema for them.
  const schemas = { ...(params && { params }), query, headers, detail, parse: 'none' }
  return { name, method, path, schemas: schemas as Resource<P, Q>['schemas'], check }
}

/** Declares a resource in a bucket. */
export function declare<P extends TObject, Q extends TObject, K extends Operation['kind']>(
  declaration: Declaration<P, Q> & StorageBinding<P, Q, K>,
): BucketResource<P, Q> {
  const { operation, reply } = declaration
  const errorStatuses = [400, 401, 403, 409, 410, 412, 413, 429, 500, 503, ...declaration.errorStatuses]
  return { ...declareService({ ...declaration, security: credentials, errorStatuses }), operation, reply }
}
