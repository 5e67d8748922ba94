import type { Static, TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { TypeCheck } from '@sinclair/typebox/compiler'
import { ValueErrorType } from '@sinclair/typebox/errors'
import type { ValueError } from '@sinclair/typebox/errors'
import type { Problem } from '../domain/errors.ts'

export type Checked<T> = { value: T } | { problems: Problem[] }

// A body of thousands of wrong members is not worth thousands of sentences.
const mostProblems = 20
// A client chooses the names of members, and how long they are.
const longestName = 64

/**
 * Compiles a schema into a check of request bodies. The check coerces nothing, strips nothing and reports all
 * problems, each once, by the dotted path of the member ("requests.0.path") and without the value found there.
 */
export function compileCheck<S extends TSchema>(schema: S): (value: unknown) => Checked<Static<S>> {
  // At the first body, because a start should not wait for it.
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

function describe(error: ValueError): string {
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return 'is required'
    case ValueErrorType.ObjectAdditionalProperties:
      return 'is not a member that belongs here'
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
