import { join } from 'node:path'

/**
 * The guides of the repository, and what they lead to, as text by their paths. A macro: it runs when the executable is built,
 * which holds the result.
 */
export async function readDocuments(): Promise<Record<string, string>> {
  const root = join(import.meta.dir, '../..')
  const patterns = ['*.md', 'LICENSE', 'docs/*.md', 'docs/examples/**/*']
  const paths = patterns.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(root)])
  const texts = paths
    .filter((path) => !path.includes('__pycache__'))
    .toSorted()
    .map(async (path) => [path, await Bun.file(join(root, path)).text()])
  return Object.fromEntries(await Promise.all(texts))
}
