import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The text of the guides, and of the files that they link to, by path. A macro: the build embeds its result in the executable. Synchronous,
 * because two macros that await at the same time hang the build.
 */
export function readDocuments(): Record<string, string> {
  const root = join(import.meta.dir, '../..')
  const patterns = ['*.md', 'LICENSE', 'docs/*.md', 'docs/examples/**/*']
  const paths = patterns.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(root)])
  const shown = paths.filter((path) => !path.includes('__pycache__')).toSorted()
  return Object.fromEntries(shown.map((path) => [path, readFileSync(join(root, path), 'utf8')]))
}
