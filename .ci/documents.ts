import { Glob } from 'bun'
import { readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'

/** Pages about the code, which packages don't contain. */
const forDevelopers = ['docs/architecture.md', 'docs/decisions.md', 'docs/sources.md']

/** The guides and examples that are installed with a bridge, by path in the documentation folder. */
export function documents(project: string): Record<string, Uint8Array> {
  const sources = new Map<string, string>()
  for (const name of ['README.md', 'CHANGELOG.md', 'SECURITY.md']) sources.set(name, name)
  for (const path of new Glob('docs/**/*').scanSync(project)) {
    const isLeftOut = forDevelopers.includes(path) || path.includes('__pycache__')
    if (!isLeftOut) sources.set(path, path.replace(/^docs\//, ''))
  }
  const contents = [...sources].toSorted().map(([path, target]): [string, Uint8Array] => {
    const bytes = readFileSync(join(project, path))
    return [target, path.endsWith('.md') ? Buffer.from(relink(bytes.toString(), path, sources)) : bytes]
  })
  return Object.fromEntries(contents)
}

/** The page with links to the installed paths; a link to a missing file becomes its text. */
function relink(text: string, path: string, sources: Map<string, string>): string {
  return text.replaceAll(/(!?)\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)/g, (_, mark, label, target, anchor = '') => {
    const found = sources.get(posix.join(dirname(path), target))
    if (found === undefined) return label
    return `${mark}[${label}](${posix.relative(dirname(sources.get(path)!), found)}${anchor})`
  })
}
