import { Type } from '@sinclair/typebox'
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { ValueErrorType } from '@sinclair/typebox/errors'
import type { ValueError } from '@sinclair/typebox/errors'
import { invalidRequest } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'

// A client can send thousands of wrong members; a few sentences are enough.
const mostProblems = 20
// The client chooses the names of members, so their length is cut.
const longestName = 64

/**
 * Compiles a schema into a check of request bodies. The check coerces nothing, strips nothing and returns the value itself, or
 * throws `ServiceError` 400 with all problems: each once, by the dotted path of the member ("requests.0.path") and without the
 * value found there.
 */
export function compileBodyCheck<S extends TSchema>(schema: S): (value: unknown) => Static<S> {
  const check = compileCheck(schema, (error) => ({
    location: 'body',
    name: error.path.slice(1, 1 + longestName).replaceAll('/', '.') || 'body',
    description: describe(error),
  }))
  return (value) => {
    const problems = check(value)
    if (problems.length > 0) throw invalidRequest(problems)
    return value as Static<S>
  }
}

const locations = { params: 'path', query: 'querystring', headers: 'header' } as const

/**
 * Compiles the schemas of a request into one check over path, query and headers. The check returns all problems,
 * described by the schemas' own words.
 */
export function compileRequestCheck(schemas: Record<keyof typeof locations, TObject>) {
  return compileCheck(Type.Object(schemas), ({ path, schema }) => {
    const [, part, ...rest] = path.split('/')
    return {
      location: locations[part as keyof typeof locations],
      name: parameterName(rest.join('/').replaceAll('~1', '/')),
      description: (schema.description as string | undefined) ?? invalidFormat,
    }
  })
}

function compileCheck(schema: TSchema, toProblem: (error: ValueError) => Problem) {
  const compiled = TypeCompiler.Compile(schema)
  return (value: unknown): Problem[] => {
    if (compiled.Check(value)) return []
    const problems = new Map<string, Problem>()
    for (const error of compiled.Errors(value)) {
      const problem = toProblem(error)
      if (!problems.has(problem.name)) problems.set(problem.name, problem)
      if (problems.size === mostProblems) break
    }
    return [...problems.values()]
  }
}

/** What clients call a parameter: headers in their canonical case, and the rest of a record's path by its meaning. */
export function parameterName(key: string): string {
  return canonicalNames[key] ?? key
}

const canonicalNames: Record<string, string> = {
  '*': 'record_id',
  'if-match': 'If-Match',
  'if-none-match': 'If-None-Match',
  'x-client-state': 'X-Client-State',
  prefer: 'Prefer',
}

const invalidFormat = 'has an invalid format'

function describe(error: ValueError): string {
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return 'is required'
    case ValueErrorType.ObjectAdditionalProperties:
      return 'is not allowed'
    case ValueErrorType.StringMaxLength:
      return `must not be longer than ${error.schema.maxLength} characters`
    case ValueErrorType.ObjectMaxProperties:
      return `must not be more than ${error.schema.maxProperties}`
    case ValueErrorType.StringPattern:
      return error.schema.enum ? `must be one of ${error.schema.enum.join(', ')}` : invalidFormat
    default:
      return error.message
        .replace(/^Expected /, 'must be ')
        .replace('must be integer to be', 'must be an integer')
  }
}
