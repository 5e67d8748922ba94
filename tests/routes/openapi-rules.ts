import { operationsOf, resolve } from './api-document.ts'
import type { ApiContent, ApiDocument, ApiHeader, ApiParameter, ApiSchema } from './api-document.ts'
import { schemaMismatches } from './schema-mismatches.ts'

type Member =
  'text' | 'number' | 'boolean' | 'list' | 'any' | { is: Kind } | { listOf: Kind } | { mapOf: Kind }
type Kind = keyof typeof kinds

interface Rule {
  required: string[]
  members: Record<string, Member>
  /** Whether a reference may stand in its place. */
  referable?: boolean
}

/**
 * The objects of OpenAPI 3.0.3 and the members that this document uses of them. Closed on purpose: a member that is not
 * listed is one of another dialect, or a typing error.
 */
const kinds = {
  document: {
    required: ['openapi', 'info', 'paths'],
    members: {
      openapi: 'text',
      info: { is: 'info' },
      servers: { listOf: 'server' },
      tags: { listOf: 'tag' },
      components: { is: 'components' },
      paths: { mapOf: 'path' },
    },
  },
  info: { required: ['title', 'version'], members: { title: 'text', version: 'text', description: 'text' } },
  server: { required: ['url'], members: { url: 'text', description: 'text' } },
  tag: { required: ['name'], members: { name: 'text', description: 'text' } },
  components: {
    required: [],
    members: {
      schemas: { mapOf: 'schema' },
      responses: { mapOf: 'response' },
      headers: { mapOf: 'header' },
      securitySchemes: { mapOf: 'securityScheme' },
    },
  },
  securityScheme: {
    required: ['type'],
    members: { type: 'text', description: 'text', name: 'text', in: 'text', scheme: 'text' },
  },
  path: {
    required: [],
    members: {
      get: { is: 'operation' },
      head: { is: 'operation' },
      put: { is: 'operation' },
      post: { is: 'operation' },
      delete: { is: 'operation' },
    },
  },
  operation: {
    required: ['operationId', 'tags', 'summary', 'responses'],
    members: {
      operationId: 'text',
      tags: 'list',
      summary: 'text',
      description: 'text',
      security: 'list',
      parameters: { listOf: 'parameter' },
      requestBody: { is: 'requestBody' },
      responses: { mapOf: 'response' },
    },
  },
  parameter: {
    required: ['in', 'name', 'schema', 'description'],
    members: {
      in: 'text',
      name: 'text',
      description: 'text',
      required: 'boolean',
      deprecated: 'boolean',
      schema: { is: 'schema' },
      example: 'any',
    },
  },
  requestBody: { required: ['content'], members: { required: 'boolean', content: { mapOf: 'content' } } },
  response: {
    required: ['description'],
    members: { description: 'text', headers: { mapOf: 'header' }, content: { mapOf: 'content' } },
    referable: true,
  },
  header: {
    required: ['schema', 'description'],
    members: { description: 'text', required: 'boolean', schema: { is: 'schema' }, example: 'any' },
    referable: true,
  },
  content: {
    required: ['schema'],
    members: { schema: { is: 'schema' }, example: 'any', examples: { mapOf: 'example' } },
  },
  example: { required: ['value'], members: { summary: 'text', value: 'any' } },
  schema: {
    required: [],
    members: {
      type: 'text',
      description: 'text',
      example: 'any',
      enum: 'list',
      pattern: 'text',
      minLength: 'number',
      maxLength: 'number',
      minimum: 'number',
      maximum: 'number',
      minItems: 'number',
      required: 'list',
      properties: { mapOf: 'schema' },
      additionalProperties: { is: 'schema' },
      items: { is: 'schema' },
    },
    referable: true,
  },
} as const satisfies Record<string, RuleOf<string>>

interface RuleOf<K extends string> extends Omit<Rule, 'members'> {
  members: Record<string, Exclude<Member, object> | { is: K } | { listOf: K } | { mapOf: K }>
}

/** Everything in a document that breaks the rules of OpenAPI 3.0.3, each with its place; empty when nothing does. */
export function brokenRules(document: ApiDocument): string[] {
  return [
    ...shapeProblems('document', document, '#'),
    ...referenceProblems(document),
    ...operationProblems(document),
    ...exampleProblems(document),
  ]
}

function shapeProblems(kind: Kind, value: unknown, place: string): string[] {
  if (kind === 'schema' && typeof value === 'boolean' && place.endsWith('additionalProperties')) return []
  if (!isMapping(value)) return [`${place} is no object`]
  const rule: Rule = kinds[kind] as Rule
  if (rule.referable && '$ref' in value) {
    return Object.keys(value).length === 1 ? [] : [`${place} has members beside its reference`]
  }
  const missing = rule.required.filter((name) => !Object.hasOwn(value, name))
  return [
    ...missing.map((name) => `${place}/${name} is missing`),
    ...Object.entries(value).flatMap(([name, member]) => {
      const expected = rule.members[name]
      const there = `${place}/${name}`
      return expected ? memberProblems(expected, member, there) : [`${there} is not of OpenAPI 3.0`]
    }),
  ]
}

function memberProblems(expected: Member, value: unknown, place: string): string[] {
  if (expected === 'any') return []
  if (expected === 'list') return Array.isArray(value) && value.length > 0 ? [] : [`${place} is no list`]
  if (expected === 'text') return typeof value === 'string' && value !== '' ? [] : [`${place} is no text`]
  if (typeof expected === 'string') return typeof value === expected ? [] : [`${place} is no ${expected}`]
  if ('is' in expected) return shapeProblems(expected.is, value, place)
  if ('listOf' in expected) {
    if (!Array.isArray(value)) return [`${place} is no list`]
    return value.flatMap((item, index) => shapeProblems(expected.listOf, item, `${place}/${index}`))
  }
  if (!isMapping(value)) return [`${place} is no object`]
  return Object.entries(value).flatMap(([key, item]) =>
    shapeProblems(expected.mapOf, item, `${place}/${key}`),
  )
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
      if (!/^[a-zA-Z0-9._-]+$/.test(name)) problems.push(`${name} can not name a component`)
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
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
    const declared = parameters.filter(({ in: place }) => place === 'path')
    if (inPath.toString() !== declared.map(({ name }) => name).toString())
      problems.push(`${operationId} does not declare the parameters of its path`)
    if (declared.some((parameter) => (parameter as { required?: boolean }).required !== true))
      problems.push(`${operationId} has a parameter in its path that is not required`)
    if (new Set(parameters.map(keyOf)).size !== parameters.length)
      problems.push(`${operationId} has a parameter twice`)
    if (!operation.tags.every((tag) => tags.includes(tag))) problems.push(`${operationId} has an unknown tag`)
    for (const requirement of security) {
      const unknown = Object.keys(requirement).filter(
        (scheme) => !document.components.securitySchemes?.[scheme],
      )
      if (unknown.length > 0) problems.push(`${operationId} needs ${unknown.join(', ')}, which is no scheme`)
    }
    if (!Object.keys(responses).some((status) => status.startsWith('2')))
      problems.push(`${operationId} never succeeds`)
    for (const [status, response] of Object.entries(responses)) {
      if (!/^[1-5]\d\d$/.test(status)) problems.push(`${operationId} answers ${status}, which is no status`)
      if (method === 'HEAD' && resolve(document, response).content)
        problems.push(`${operationId} answers ${status} with a body`)
    }
  }
  return problems
}

/** Examples must be what their own schemas admit. */
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
