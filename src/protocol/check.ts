import { Type } from '@sinclair/typebox'
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { TypeCheck } from '@sinclair/typebox/compiler'
import { ValueErrorType } from '@sinclair/typebox/errors'
import type { ValueError } from '@sinclair/typebox/errors'
import type { Problem } from '../domain/errors.ts'

type Checked<T> = { value: T } | { problems: Problem[] }

// A client can send thousands of wrong members; a few sentences are enough.
const mostProblems = 20
// The client chooses the names of members, so their length is cut.
const longestName = 64

/**
 * Compiles a schema into a check of request bodies. The check coerces nothing, strips nothing and reports all
 * problems, each once, by the dotted path of the member ("requests.0.path") and without the value found there.
 */
export function compileCheck<S extends TSchema>(schema: S): (value: unknown) => Checked<Static<S>> {
  // Compiled at the first body, so that the start does not wait for it.
  let made: TypeCheck<S> | null = null
  return (value) => {
    const compiled = (made ??= TypeCompiler.Compile(schema))
    if (compiled.Check(value)) return { value }
    const problems = new Map<string, Problem>()
    for (const error of compiled.Errors(value)) {
      const name = error.path.slice(1, 1 + longestName).replaceAll('/', '.') || 'body'
      if (!problems.has(name)) problems.set(name, { location: 'body', name, description: describe(error) })
      if (problems.size === mostProblems) break
    }
    return { problems: [...problems.values()] }
  }
}

/** The parts of a request that are validated before it is carried out; headers by their lower-case names. */
export interface RequestParts {
  params: object
  query: object
  headers: object
}

/** The schemas of these parts. */
interface RequestSchemas {
  params: TObject
  query: TObject
  headers: TObject
}

/**
 * Compiles the schemas of a request into one check over path, query and headers. The check answers all problems,
 * described by the schemas' own words.
 */
export function compileRequestCheck(schemas: RequestSchemas): (parts: RequestParts) => Problem[] {
  let made: TypeCheck<TObject> | null = null
  return (parts) => {
    const compiled = (made ??= TypeCompiler.Compile(Type.Object({ ...schemas })))
    if (compiled.Check(parts)) return []
    const problems: Problem[] = []
    for (const { path, schema } of compiled.Errors(parts)) {
      const [, part, ...rest] = path.split('/')
      const name = nameOf(rest.join('/').replaceAll('~1', '/'))
      if (problems.some((problem) => problem.name === name)) continue
      const description =
        (schema.description as string | undefined) ?? 'does not have the form that belongs here'
      problems.push({ location: locations[part as keyof RequestParts], name, description })
      if (problems.length === mostProblems) break
    }
    return problems
  }
}

const locations = { params: 'path', query: 'querystring', headers: 'header' } as const

/** What clients call a parameter: headers in their canonical case, and the rest of a record's path by its meaning. */
function nameOf(key: string): string {
  return canonicalNames[key] ?? key
}

export const canonicalNames: Record<string, string> = {
  '*': 'record_id',
  'if-match': 'If-Match',
  'if-none-match': 'If-None-Match',
  'x-client-state': 'X-Client-State',
  prefer: 'Prefer',
}

function describe(error: ValueError): string {
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return 'is required'
    case ValueErrorType.ObjectAdditionalProperties:
      return 'is not a member that belongs here'
    case ValueErrorType.StringMaxLength:
      return `must not be longer than ${error.schema.maxLength} characters`
    case ValueErrorType.ObjectMaxProperties:
      return `must not be more than ${error.schema.maxProperties}`
    case ValueErrorType.StringPattern:
      return 'does not have the form that belongs here'
    case ValueErrorType.Union:
      return `must be one of ${(error.schema.anyOf as TSchema[]).map((option) => option.const).join(', ')}`
    default:
      return error.message
        .replace(/^Expected /, 'must be ')
        .replace('must be integer to be', 'must be an integer')
  }
}
