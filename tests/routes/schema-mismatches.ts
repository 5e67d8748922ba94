import { resolve, type ApiDocument, type ApiSchema, type Reference } from './api-document.ts'

/**
 * The differences between a value and its schema in the document. Stricter than OpenAPI in one point: members that the schema does not name
 * are mismatches, unless it allows any.
 */
export function schemaMismatches(
  document: ApiDocument,
  given: ApiSchema | Reference,
  value: unknown,
  place = 'body',
): string[] {
  const schema = resolve(document, given)
  if (schema.type !== undefined && typeOf(value) !== schema.type) {
    const isInteger = schema.type === 'number' && typeOf(value) === 'integer'
    if (!isInteger) return [`${place} is ${typeOf(value)}, not ${schema.type}`]
  }
  if (schema.enum && !schema.enum.includes(value)) return [`${place} is none of ${schema.enum.join(', ')}`]
  if (typeof value === 'string') return stringMismatches(schema, value, place)
  if (typeof value === 'number') return numberMismatches(schema, value, place)
  if (Array.isArray(value)) {
    const tooFew = value.length < (schema.minItems ?? 0) ? [`${place} has too few items`] : []
    const items = schema.items
      ? value.flatMap((item, index) => schemaMismatches(document, schema.items!, item, `${place}.${index}`))
      : []
    return [...tooFew, ...items]
  }
  if (value !== null && typeof value === 'object') return objectMismatches(document, schema, value, place)
  return []
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

function stringMismatches(schema: ApiSchema, value: string, place: string): string[] {
  if (schema.pattern && !new RegExp(schema.pattern, 'u').test(value))
    return [`${place} is not ${schema.pattern}`]
  const isTooLong = value.length > (schema.maxLength ?? Infinity)
  const isTooShort = value.length < (schema.minLength ?? 0)
  return isTooLong || isTooShort ? [`${place} is too long or too short`] : []
}

function numberMismatches(schema: ApiSchema, value: number, place: string): string[] {
  const isWithin = value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity)
  return isWithin ? [] : [`${place} is out of range`]
}

function objectMismatches(document: ApiDocument, schema: ApiSchema, value: object, place: string): string[] {
  const missing = (schema.required ?? []).filter((name) => !Object.hasOwn(value, name))
  const members = Object.entries(value).flatMap(([name, member]) => {
    const known = schema.properties?.[name]
    if (known) return schemaMismatches(document, known, member, `${place}.${name}`)
    const others = schema.additionalProperties
    if (others === true || isAnything(schema)) return []
    if (typeof others === 'object') return schemaMismatches(document, others, member, `${place}.${name}`)
    return [`${place}.${name} is not documented`]
  })
  return [...missing.map((name) => `${place}.${name} is missing`), ...members]
}

/** An empty schema allows everything. */
function isAnything({ type, properties }: ApiSchema): boolean {
  return type === undefined && properties === undefined
}
