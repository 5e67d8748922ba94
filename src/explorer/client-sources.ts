import { join } from 'node:path'

/**
 * Modules of the client as text, by their names. A macro: it runs when the executable is built, which holds the result. The commands
 * import the same modules as code, and a bundle has no file twice.
 */
export async function readClientSources(names: string[]): Promise<Record<string, string>> {
  const folder = join(import.meta.dir, '../client')
  const texts = names.map(async (name) => [name, await Bun.file(join(folder, name)).text()])
  return Object.fromEntries(await Promise.all(texts))
}
