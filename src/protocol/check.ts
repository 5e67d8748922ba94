/** Whether what a client sends has the form that it must have: as JSON, and by the schemas. */
import { Type, type Static, type TObject, type TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { ValueErrorType, type ValueError } from '@sinclair/typebox/errors'
import { invalid, invalidRequest, type Problem } from '../domain/errors.ts'
import { countJsonKeys } from '../domain/json.ts'

// A client can send thousands of wrong members; a few sentences are enough.
const maxProblems = 20
// The client chooses the names of members, so their length is cut.
const maxNameLength = 64

/**
 * Compiles a schema into a check of request bodies. The check coerces nothing, strips nothing and returns the value itself, or
 * throws `ServiceError` 400 with all problems: each once, by the dotted path of the member ("requests.0.path") and without the
 * value found there.
 */
export function compileBodyCheck<S extends TSchema>(schema: S): (value: unknown) => Static<S> {
  const check = compileCheck(schema, (error) => ({
    location: 'body',
    name: error.path.slice(1, 1 + maxNameLength).replaceAll('/', '.') || 'body',
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
    const location = locations[part as keyof typeof locations]
    const name = parameterName(rest.join('/').replaceAll('~1', '/'), location)
    return { location, name, description: schema.description ?? invalidFormat }
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
      if (problems.size === maxProblems) break
    }
    return [...problems.values()]
  }
}

/** What clients call a parameter: headers in their canonical case, and the rest of a record's path by its meaning. */
export function parameterName(key: string, location: string): string {
  if (location === 'header') return key.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase())
  return key === '*' ? 'record_id' : key
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

// --- JSON ---

/** How deep and how wide a body may be. Ours are 5 levels deep; a batch of 1 000 requests has about 10 000 members. */
const limits = { depth: 32, members: 50_000 }

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/**
 * Reads a request body as JSON: strict UTF-8, bounded depth and width, no key twice in an object, and none that would reach an
 * object's prototype. Throws `ServiceError` 400 naming `body` or the key.
 */
export function readJson(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('body', 'body', 'is not valid UTF-8')
  }
  const keys = countJsonKeys(text, limits)
  if (keys === 'depth') throw invalid('body', 'body', `is nested deeper than ${limits.depth} levels`)
  if (keys === 'members') throw invalid('body', 'body', `has more than ${limits.members} members`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalid('body', 'body', 'is not valid JSON')
  }
  // Of a key that comes twice only the last value is left.
  if (countKeys(value) !== keys) throw invalid('body', 'body', 'names a key twice in one object')
  return value
}

/** Counts the keys of all objects in a value; throws when one of them would reach a prototype. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const names = Object.keys(value)
  let count = Array.isArray(value) ? 0 : names.length
  for (const key of names) {
    if (forbiddenKeys.has(key)) throw invalid('body', key, 'is not allowed as a key')
    count += countKeys((value as Record<string, unknown>)[key])
  }
  return count
}
