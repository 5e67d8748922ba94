import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The sources of client modules by name. A macro, because the runtime can't import a module both as text and as code. Synchronous, because
 * two macros that await at the same time hang the build.
 */
export function readClientSources(names: string[]): Record<string, string> {
  const folder = join(import.meta.dir, '../client')
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}
