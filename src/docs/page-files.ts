import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import { clientFiles } from '../explorer/page-files.ts'

/** The files of a page by their names: modules with the text of a source of ours, or the bytes of a file of a library. */
type PageFiles = Record<string, () => Promise<unknown>>

/** The page that draws the API document. */
export const docsFiles: PageFiles = {
  'page.html': () => import('./page.html', { with: { type: 'text' } }),
  'page.css': () => import('./page.css', { with: { type: 'text' } }),
  'page.js': () => import('./page.ts', { with: { type: 'text' } }),
  'swagger-parts.ts': () => import('./swagger-parts.ts', { with: { type: 'text' } }),
  'tab.ts': () => import('../explorer/tab.ts', { with: { type: 'text' } }),
  'client/account.ts': clientFiles['client/account.ts']!,
  'client/errors.ts': clientFiles['client/errors.ts']!,
  'swagger-ui.css': () => Bun.file(stylesheetPath).bytes(),
  'swagger-ui-bundle.js': () => Bun.file(scriptPath).bytes(),
  'favicon.png': () => Bun.file(iconPath).bytes(),
  'guides.css': () => import('./guides.css', { with: { type: 'text' } }),
  'guides.js': () => import('./guides-search.ts', { with: { type: 'text' } }),
}

// Pages set styles by script only, so not even styles need an exception.
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** By the end of a file's name; the other files are scripts. */
const mediaTypes: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
  png: 'image/png',
}

/** A file as it is answered. */
export interface PageFile {
  status: number
  headers: Record<string, string>
  body: string | Uint8Array
}

/**
 * Serves the files of a page by name, under a policy that lets it load from its own origin only. Resolves to null where there is
 * no such file.
 */
export function pageServer(files: PageFiles, morePolicy = '') {
  const made = new Map<string, string | Uint8Array>()
  return async (name: string, edit = (text: string) => text): Promise<PageFile | null> => {
    if (!Object.hasOwn(files, name)) return null
    const extension = name.slice(name.lastIndexOf('.') + 1)
    const body = made.get(name) ?? (await makeFile(files[name]!, extension))
    made.set(name, body)
    return fileReply(extension, typeof body === 'string' ? edit(body) : body, morePolicy)
  }
}

/** A file of that kind, under the policy of pages. */
export function fileReply(extension: string, body: string | Uint8Array, morePolicy = ''): PageFile {
  const headers = {
    'Content-Type': mediaTypes[extension] ?? 'text/javascript; charset=utf-8',
    'Content-Security-Policy': pagePolicy + morePolicy,
    'Referrer-Policy': 'no-referrer',
  }
  return { status: 200, headers, body }
}

// The build embeds our sources as they are: types and indentation are taken out at the first request for a file.
async function makeFile(load: PageFiles[string], extension: string): Promise<string | Uint8Array> {
  const loaded = await load()
  if (loaded instanceof Uint8Array) return loaded
  const { default: source } = loaded as { default: string }
  if (extension === 'css') return squeezeStyles(source)
  if (extension in mediaTypes) return source.replaceAll(/^ +/gm, '')
  // Names stay: whoever gives a page a key may want to read it. The runtime's types lack this option.
  const minify = { whitespace: true, syntax: true, identifiers: false }
  const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'browser', minify } as Bun.TranspilerOptions)
  // A page has its files in one folder, those that both pages use too, and those of the client in a folder inside it.
  return transpiler.transformSync(source).replaceAll(/\.\.\/(?:explorer\/|(client\/))/g, './$1')
}

/** Styles without comments, indentation and the blanks that only people need. */
function squeezeStyles(source: string): string {
  return source
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/^( *[\w-]+): /gm, '$1:')
    .replaceAll(/ ?([{};,])\n\s*/g, '$1')
    .replaceAll(';}', '}')
}
