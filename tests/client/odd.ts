/** Values of every type that JSON has, also out of range. */
export const oddValues: unknown[] = [
  null, true, 0, 7, -1, -1e308, 1e300, 0.5, '', 'text', 'x'.repeat(1000), [], {}, [[]], [null, 7, 'a', []],
  { toString: 1, valueOf: 1 }, JSON.parse('{"__proto__":1,"constructor":2,"length":-1}'),
] // prettier-ignore

/** The names of the fields that engines read. */
export const fieldNames =
  `type title bmkUri feedUri siteUri tags keyword description parentid children dateAdded histUri
  visits hostname formSubmitURL httpRealm username password timeCreated name value clientName tabs formfactor os
  version entry extId data addonID deleted id guid`.split(/\s+/)
