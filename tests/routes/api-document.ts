/** The parts of an OpenAPI 3.0 document that the tests use. */
export interface ApiDocument {
  openapi: string
  info: { title: string; version: string }
  tags: { name: string }[]
  paths: Record<string, Record<string, ApiOperation>>
  components: Record<string, Record<string, unknown>> & { schemas: Record<string, ApiSchema> }
}

interface ApiOperation {
  operationId: string
  tags: string[]
  summary: string
  description?: string
  security?: Record<string, string[]>[]
  parameters?: ApiParameter[]
  requestBody?: { content: Record<string, ApiContent> }
  responses: Record<string, ApiResponse | Reference>
}

export interface ApiParameter {
  in: 'path' | 'query' | 'header'
  name: string
  schema: ApiSchema
  example?: unknown
}

export interface ApiResponse {
  description: string
  headers?: Record<string, ApiHeader | Reference>
  content?: Record<string, ApiContent>
}

export interface ApiContent {
  schema: ApiSchema | Reference
  example?: unknown
  examples?: Record<string, { value: unknown }>
}

export interface ApiHeader {
  required?: boolean
  schema: ApiSchema
  example: unknown
}

export interface ApiSchema {
  type?: string
  properties?: Record<string, ApiSchema | Reference>
  required?: string[]
  additionalProperties?: boolean | ApiSchema | Reference
  items?: ApiSchema | Reference
  enum?: unknown[]
  pattern?: string
  minimum?: number
  maximum?: number
  minItems?: number
  minLength?: number
  maxLength?: number
  example?: unknown
}

export interface Reference {
  $ref: string
}

/** Resolves a reference; returns anything else unchanged. Throws if the target does not exist. */
export function resolve<T extends object>(document: ApiDocument, thing: T | Reference): T {
  if (!('$ref' in thing)) return thing
  const steps = thing.$ref.replace(/^#\//, '').split('/')
  const found = steps.reduce<unknown>(
    (place, step) => (place as Record<string, unknown> | undefined)?.[step],
    document,
  )
  if (found === undefined) throw new Error(`The document refers to ${thing.$ref}, which does not exist`)
  return found as T
}

/** Every operation with its path and method. */
export function operationsOf(document: ApiDocument) {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
}
