import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The guides of the repository, and what they lead to, as text by their paths. A macro: it runs when the executable is built, which holds
 * the result. It waits for nothing: two macros that do so at the same time stop the runtime for good.
 */
export function readDocuments(): Record<string, string> {
  const root = join(import.meta.dir, '../..')
  const patterns = ['*.md', 'LICENSE', 'docs/*.md', 'docs/examples/**/*']
  const paths = patterns.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(root)])
  const shown = paths.filter((path) => !path.includes('__pycache__')).toSorted()
  return Object.fromEntries(shown.map((path) => [path, readFileSync(join(root, path), 'utf8')]))
}
