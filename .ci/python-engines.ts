// `make pages` writes, for the Python package, what the JavaScript package knows of the fields of records.
import { writeFileSync } from 'node:fs'

import { engines, otherEngine } from '../src/client/engine-records.ts'

export const pythonEnginesPath = 'clients/python/sync_bridge_client/engine_fields.py'

/** The module with the fields of every engine's records, and those that name one. */
export function pythonEngines(): string {
  const entries = Object.entries(engines)
  const fields = entries.map(([name, { fields: types }]) => {
    const lines = Object.entries(types).map(([field, type]) => `        ${text(field)}: ${text(type)},\n`)
    return `    ${text(name)}: {\n${lines.join('')}    },\n`
  })
  const names = entries.map(([name, engine]) => `    ${text(name)}: ${namesOf(engine)},\n`)
  return `"""The fields of records, made from src/client/engine-records.ts by \`make pages\`."""

# The types of the fields of each collection.
FIELDS: dict[str, dict[str, str]] = {
${fields.join('')}}

# The fields that may name a record of each collection, and the field that holds them, if it is not the record itself.
NAMES: dict[str, tuple[str | None, list[str]]] = {
${names.join('')}}
OTHER_NAMES: tuple[str | None, list[str]] = ${namesOf(otherEngine)}
`
}

function namesOf({ names, namesIn }: { names: string[]; namesIn?: string }): string {
  return `(${namesIn === undefined ? 'None' : text(namesIn)}, [${names.map(text).join(', ')}])`
}

const text = (value: string) => JSON.stringify(value)

if (import.meta.main) writeFileSync(pythonEnginesPath, pythonEngines())
