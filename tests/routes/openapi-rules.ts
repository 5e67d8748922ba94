import { Validator } from '@seriousme/openapi-schema-validator'
import {
  operationsOf,
  resolve,
  type ApiContent,
  type ApiDocument,
  type ApiHeader,
  type ApiParameter,
  type ApiSchema,
} from './api-document.ts'
import { schemaMismatches } from './schema-mismatches.ts'

/**
 * All violations of OpenAPI in a document, each with its place. A validator checks it against the specification's schema; this code checks
 * what no schema can express.
 */
export async function brokenRules(document: ApiDocument): Promise<string[]> {
  // The validator modifies its input.
  const { valid, errors } = await new Validator().validate(structuredClone({ ...document }))
  return [
    ...(valid ? [] : [JSON.stringify(errors)]),
    ...referenceProblems(document),
    ...operationProblems(document),
    ...exampleProblems(document),
  ]
}

function referenceProblems(document: ApiDocument): string[] {
  const problems: string[] = []
  const used = new Set<string>()
  walk(document, (value) => {
    if (typeof value.$ref !== 'string') return
    used.add(value.$ref)
    try {
      resolve(document, { $ref: value.$ref })
    } catch (error) {
      problems.push((error as Error).message)
    }
  })
  for (const kind of ['schemas', 'responses', 'headers']) {
    for (const name of Object.keys(document.components[kind] ?? {})) {
      if (!used.has(`#/components/${kind}/${name}`)) problems.push(`Nothing refers to ${kind}/${name}`)
    }
  }
  return problems
}

function operationProblems(document: ApiDocument): string[] {
  const problems: string[] = []
  const ids = new Set<string>()
  const tags = document.tags.map(({ name }) => name)
  for (const { path, method, operation } of operationsOf(document)) {
    const { operationId, parameters = [], responses, security = [] } = operation
    if (ids.has(operationId)) problems.push(`${operationId} is the id of two operations`)
    ids.add(operationId)
    // oapi-codegen gives this name to the result of the operation, and its Go code would not compile.
    const result = `${operationId[0]!.toUpperCase()}${operationId.slice(1)}Response`
    if (result in document.components.schemas) problems.push(`${operationId} and ${result} clash in Go`)
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
    const declared = parameters.filter(({ in: place }) => place === 'path')
    if (inPath.toString() !== declared.map(({ name }) => name).toString())
      problems.push(`${operationId} does not declare the parameters of its path`)
    if (new Set(parameters.map(keyOf)).size !== parameters.length)
      problems.push(`${operationId} has a parameter twice`)
    if (!operation.tags.every((tag) => tags.includes(tag))) problems.push(`${operationId} has an unknown tag`)
    for (const requirement of security) {
      const unknown = Object.keys(requirement).filter(
        (scheme) => !document.components.securitySchemes?.[scheme],
      )
      if (unknown.length > 0)
        problems.push(`${operationId} needs ${unknown.join(', ')}, which is not a scheme`)
    }
    for (const [status, response] of Object.entries(responses)) {
      if (method === 'HEAD' && resolve(document, response).content)
        problems.push(`${operationId} returns ${status} with a body`)
    }
  }
  return problems
}

/** Examples must be valid for their own schemas. */
function exampleProblems(document: ApiDocument): string[] {
  const problems: string[] = []
  walk(document, (value, place) => {
    if (!value.schema) return
    const { schema, example, examples } = value as unknown as ApiContent & ApiHeader & ApiParameter
    const shown = [example, ...Object.values(examples ?? {}).map((given) => given.value)]
    for (const one of shown.filter((given) => given !== undefined)) {
      problems.push(...schemaMismatches(document, schema as ApiSchema, one, `${place} example`))
    }
  })
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    for (const [member, given] of Object.entries(schema.properties ?? {})) {
      if ('$ref' in given || given.example === undefined) continue
      problems.push(...schemaMismatches(document, given, given.example, `${name}.${member} example`))
    }
  }
  return problems
}

function keyOf({ in: place, name }: ApiParameter): string {
  return `${place} ${name.toLowerCase()}`
}

function walk(
  value: unknown,
  visit: (value: Record<string, unknown>, place: string) => void,
  place = '#',
): void {
  if (Array.isArray(value)) value.forEach((item, index) => walk(item, visit, `${place}/${index}`))
  if (!isMapping(value)) return
  visit(value, place)
  for (const [key, member] of Object.entries(value)) walk(member, visit, `${place}/${key}`)
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
