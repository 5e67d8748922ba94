/** A file of the page: its text and the type it is served as. */
export interface ExplorerFile {
  text: string
  type: string
}

// Imported as text, which the build embeds, and not before somebody asks for it.
const sources: Record<string, () => Promise<unknown>> = {
  'explore.html': () => import('./explore.html', { with: { type: 'text' } }),
  'explore.css': () => import('./explore.css', { with: { type: 'text' } }),
  'main.ts': () => import('./main.ts', { with: { type: 'text' } }),
  'account.ts': () => import('./account.ts', { with: { type: 'text' } }),
  'meaning.ts': () => import('./meaning.ts', { with: { type: 'text' } }),
  'elements.ts': () => import('./elements.ts', { with: { type: 'text' } }),
  'views.ts': () => import('./views.ts', { with: { type: 'text' } }),
  'sync-crypto.js': () => import('../../docs/examples/sync-crypto.js', { with: { type: 'text' } }),
}

/** The names of all files, those of TypeScript included: browsers go by the type that a file is served as. */
export const explorerFiles = Object.keys(sources)

const made = new Map<string, ExplorerFile>()

/** A file by its name; null: there is none of that name. */
export async function explorerFile(name: string): Promise<ExplorerFile | null> {
  if (!Object.hasOwn(sources, name)) return null
  const known = made.get(name)
  if (known) return known
  const source = (await sources[name]!()) as { default: string }
  const file = makeFile(name, source.default)
  made.set(name, file)
  return file
}

// Types and indentation are taken out when a file is first asked for: the build embeds the sources as they are.
function makeFile(name: string, source: string): ExplorerFile {
  if (name.endsWith('.html')) return { text: source.replaceAll(/^ +/gm, ''), type: 'text/html' }
  if (name.endsWith('.css')) return { text: source.replaceAll(/^ +/gm, ''), type: 'text/css' }
  const loader = name.endsWith('.ts') ? 'ts' : 'js'
  const script = new Bun.Transpiler({ loader, target: 'browser', minifyWhitespace: true })
  // The page gets the same file that others are given to take, but not from where the repository has it.
  const text = script.transformSync(source).replaceAll('../../docs/examples/', './')
  return { text, type: 'text/javascript' }
}
