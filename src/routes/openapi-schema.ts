import type { TSchema } from '@sinclair/typebox'

type Json = Record<string, unknown>

/** A schema as the API document's dialect (OpenAPI 3.0) writes it, which is older than that of TypeBox. */
export function toOpenApiSchema(schema: TSchema): Json {
  const choices = (schema.anyOf as TSchema[] | undefined)?.map((choice) => choice.const)
  if (choices?.every((choice) => typeof choice === 'string')) {
    return { type: 'string', enum: choices, ...described(schema) }
  }
  if (schema.const !== undefined) return { type: schema.type, enum: [schema.const] }
  const translated: Json = { ...described(schema) }
  for (const key of ['type', 'required', 'minimum', 'maximum', 'pattern', 'additionalProperties']) {
    if (schema[key] !== undefined) translated[key] = schema[key]
  }
  if (schema.items) translated.items = toOpenApiSchema(schema.items)
  if (schema.properties) {
    const properties = Object.entries(schema.properties as Record<string, TSchema>)
    translated.properties = Object.fromEntries(
      properties.map(([name, member]) => [name, toOpenApiSchema(member)]),
    )
  }
  if (schema.patternProperties) {
    const [member] = Object.values(schema.patternProperties as Record<string, TSchema>)
    translated.additionalProperties = toOpenApiSchema(member!)
  }
  return translated
}

function described({ description, examples }: TSchema): Json {
  const example: unknown = Array.isArray(examples) ? examples[0] : undefined
  return { ...(description && { description }), ...(example !== undefined && { example }) }
}
