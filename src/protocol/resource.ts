/** How a resource is declared: its route, its place in the API document, what it asks of the storage, and its answers. */
import { Type, type Static, type TObject } from '@sinclair/typebox'
import type { Problem } from '../domain/errors.ts'
import type { Operation, OutcomeOf } from '../domain/operation.ts'
import type { Settings } from '../settings/settings.ts'
import { refused, type DocumentedAnswer } from './answers.ts'
import { compileRequestCheck } from './check.ts'
import type { Reply } from './reply.ts'

/** Headers by their lower-case names. */
export type RequestHeaders = Readonly<Record<string, string | undefined>>

/** The address of a request, of which the URL of the next page is made. Path and query are as they came. */
export interface Address {
  host: string | null
  path: string
  /** With the question mark, or empty. */
  query: string
}

/** The parts of a request that have been validated. `body`: the parsed body of a PUT. */
export interface Input<Params = Record<string, unknown>, Query = Record<string, unknown>> {
  params: Params
  query: Query
  headers: RequestHeaders
  body?: unknown
  address: Address
}

/** One method of one resource. HEAD is answered wherever GET is, also where it is not declared. */
export interface Resource<P extends TObject = TObject, Q extends TObject = TObject> {
  /** Its name in logs and metrics, which all methods of its path have. */
  name: string
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Below the version prefix. `:name` is one segment, `*` the rest of the path, as it was sent. */
  path: string
  /** What its route validates; `detail` is its operation in the API document. Bodies are checked when they are read. */
  schemas: { params: P; query: Q; headers: TObject; detail: object; parse: 'none' }
  /** All problems of the parts of a request. */
  check(parts: Pick<Input, 'params' | 'query' | 'headers'>): Problem[]
}

/** What a resource in a user's bucket asks of the storage, and how it answers outcomes of that kind. */
interface StorageBinding<P extends TObject, Q extends TObject, K extends Operation['kind']> {
  /**
   * Makes the operation on the storage. Problems that the schemas can't see are added to `problems`; then the operation must
   * not be used. Throws `ServiceError` 400 for problems of the body.
   */
  operation(input: Input<Static<P>, Static<Q>>, problems: Problem[]): Extract<Operation, { kind: K }>
  /** Answers the outcome of that operation. Throws `ServiceError` for outcomes that are errors. */
  answer(outcome: OutcomeOf[K], input: Input<Static<P>, Static<Q>>, settings: Settings): Reply
}

/** A resource in a user's bucket. It needs credentials, and becomes an operation on the storage. */
export type BucketResource<P extends TObject = TObject, Q extends TObject = TObject> = Resource<P, Q> &
  StorageBinding<P, Q, Operation['kind']>

/** `id`, `summary` and `description` are those of the operation in the API document. */
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
  answers: Record<number, DocumentedAnswer>
  /** The statuses of the errors that it answers. */
  errorStatuses: readonly number[]
  security?: Record<string, string[]>[]
  /** Left out of the API document. */
  hide?: true
}

/** How clients say who they are. An access token needs its key id beside it; an assertion stands alone. */
export const credentials: Record<string, string[]>[] = [{ bearer: [], keyId: [] }, { browserid: [] }]

// The schema of parts that nothing is read of.
const anything = Type.Object({}, { additionalProperties: true })

/** Declares a resource of the service itself, which has a handler of its own. */
export function declareService<P extends TObject, Q extends TObject>(
  declaration: Declaration<P, Q>,
): Resource<P, Q> {
  const { name, method, path, params, query = anything, headers = anything, body } = declaration
  const { tag, id: operationId, summary, description, security = [], hide } = declaration
  const content = body && { 'application/json': { schema: body, examples: body.examples as object } }
  const requestBody = content && { required: true, content }
  const responses = { ...declaration.answers, ...refused(declaration.errorStatuses) }
  const detail = { operationId, tags: [tag], summary, description, security, requestBody, responses, hide }
  const check = compileRequestCheck({ params: params ?? anything, query, headers })
  // The framework has no parameters to validate where a path has none.
  const schemas = { ...(params && { params }), query, headers, detail, parse: 'none' }
  return { name, method, path, schemas: schemas as Resource<P, Q>['schemas'], check }
}

/** Declares a resource in a bucket. */
export function declare<P extends TObject, Q extends TObject, K extends Operation['kind']>(
  declaration: Declaration<P, Q> & StorageBinding<P, Q, K>,
): BucketResource<P, Q> {
  const { operation, answer } = declaration
  const errorStatuses = [400, 401, 403, 410, 412, 429, 500, 503, ...declaration.errorStatuses]
  return { ...declareService({ ...declaration, security: credentials, errorStatuses }), operation, answer }
}
