/** Validation of requests: JSON and schemas. */
import { Type, type Static, type TObject, type TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { ValueErrorType, type ValueError } from '@sinclair/typebox/errors'
import { invalid, invalidRequest, type Problem } from './problems.ts'
import { countJsonKeys } from '../domain/json.ts'

// A client can send thousands of invalid members; report a few.
const maxProblems = 20
// Names of members come from the client, so they are truncated.
const maxNameLength = 64

/**
 * Compiles a schema into a check of request bodies. The check changes nothing and returns the value, or throws `ServiceError` 400 with all
 * problems, each with the dotted path of the member ("requests.0.path") and never its value.
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
 * Compiles the schemas of a request into one check of path, query and headers. The check returns all problems, described by the schemas.
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

/** The public name of a parameter: headers in canonical case, `*` as `record_id`. */
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
      return `must have at most ${error.schema.maxLength} characters`
    case ValueErrorType.ObjectMaxProperties:
      return `must have at most ${error.schema.maxProperties} members`
    case ValueErrorType.StringPattern:
      return error.schema.enum
        ? `must be one of ${error.schema.enum.join(', ')}`
        : (error.schema.description ?? invalidFormat)
    default:
      return error.message
        .replace(/^Expected /, 'must be ')
        .replace('must be integer to be', 'must be an integer')
  }
}

// --- JSON ---

/** Limits of a body. Valid bodies are 5 levels deep; a batch of 1 000 requests has about 10 000 members. */
const jsonLimits = { depth: 32, members: 50_000 }

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/**
 * Parses a request body as JSON: strict UTF-8, limited depth and size, no duplicate keys, and no keys that could reach a prototype. Throws
 * `ServiceError` 400 that names `body` or the key.
 */
export function readJson(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('body', 'body', 'is not valid UTF-8')
  }
  const keys = countJsonKeys(text, jsonLimits)
  if (keys === 'depth') throw invalid('body', 'body', `is nested deeper than ${jsonLimits.depth} levels`)
  if (keys === 'members') throw invalid('body', 'body', `has more than ${jsonLimits.members} members`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalid('body', 'body', 'is not valid JSON')
  }
  // Parsing keeps only the last of duplicate keys, so the counts differ.
  if (countKeys(value) !== keys) throw invalid('body', 'body', 'has a duplicate key in an object')
  return value
}

/** Counts the keys of all objects in a value; throws if one could reach a prototype. */
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
