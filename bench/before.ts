import { existsSync, mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The commit that writes are compared with. */
const commit = '3b6a77a'

/**
 * The executable of an earlier commit: that which BEFORE names, else built from the repository. Null where the history
 * does not reach back so far.
 */
export async function buildBefore(folder: string): Promise<string | null> {
  if (process.env.BEFORE) return resolve(process.env.BEFORE)
  const root = join(import.meta.dir, '..')
  const source = join(folder, 'before')
  const executable = join(source, 'dist/sync-bridge')
  mkdirSync(source)
  await Bun.$`git -C ${root} archive ${commit} | tar -x -C ${source}`.quiet().nothrow()
  await Bun.$`make dist/sync-bridge`.cwd(source).quiet().nothrow()
  return existsSync(executable) ? executable : null
}
