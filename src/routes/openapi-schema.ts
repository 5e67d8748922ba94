import type { TSchema } from '@sinclair/typebox'

export type Json = Record<string, unknown>

const kept = ['type', 'enum', 'required', 'minimum', 'maximum', 'minItems', 'pattern', 'additionalProperties']

/**
 * Writes a schema in the API document's dialect (OpenAPI 3.0), which is older than TypeBox's. Schemas within it that have
 * a title become references, and the document needs a component for each.
 */
export function toOpenApiSchema(schema: TSchema): Json {
  const translated = described(schema)
  if (schema.anyOf) return { ...literals(schema.anyOf as TSchema[]), ...translated }
  if (schema.const !== undefined) return { ...literals([schema]), ...translated }
  for (const key of kept) {
    if (schema[key] !== undefined) translated[key] = schema[key]
  }
  if (schema.items) translated.items = schemaOrReference(schema.items)
  if (schema.properties) translated.properties = mapSchemas(schema.properties as Record<string, TSchema>)
  if (schema.patternProperties) {
    const [member] = Object.values(schema.patternProperties as Record<string, TSchema>)
    translated.additionalProperties = schemaOrReference(member!)
  }
  return translated
}

/** A reference to the component of a schema that has a title; any other is written out. */
export function schemaOrReference(schema: TSchema): Json {
  return schema.title ? { $ref: `#/components/schemas/${schema.title}` } : toOpenApiSchema(schema)
}

function mapSchemas(properties: Record<string, TSchema>): Json {
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, schemaOrReference(schema)]),
  )
}

/** All our unions are choices of literals. */
function literals(choices: TSchema[]): Json {
  const type = typeof choices[0]!.const === 'number' ? 'integer' : typeof choices[0]!.const
  return { type, enum: choices.map((choice) => choice.const) }
}

function described({ description, examples }: TSchema): Json {
  const example: unknown = Array.isArray(examples) ? examples[0] : undefined
  return { ...(description && { description }), ...(example !== undefined && { example }) }
}
