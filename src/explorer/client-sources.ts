import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The sources of modules of the client, by their names. A macro, because the runtime can't import a module as text that it imports as
 * code, too. It waits for nothing: two macros that do so at the same time stop the runtime for good.
 */
export function readClientSources(names: string[]): Record<string, string> {
  const folder = join(import.meta.dir, '../client')
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}
