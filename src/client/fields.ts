/** Reads values of any type: other programs also write synced data, so a field may have any type. None of these functions throws. */

/** The fields of a decrypted record. */
export type Fields = Record<string, unknown>

/** A string, or an empty string for any other type. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** A number or numeric string, otherwise NaN. */
export function numberOf(value: unknown): number {
  // Number() throws for some objects, and reads true, null and blank text as numbers.
  if (typeof value === 'number') return value
  return typeof value === 'string' && /^-?\d{1,17}(?:\.\d{1,17})?$/.test(value) ? Number(value) : NaN
}

/** An array, or an empty array for any other type. */
export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

/** The strings of an array, such as the ids of a folder's children. */
export function textsOf(value: unknown): string[] {
  return listOf(value).filter((each) => typeof each === 'string')
}

/** The fields of an object; none for any other type. */
export function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {}
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
