import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import { bundleScripts } from './bundles.ts' with { type: 'macro' }

const bundled: Record<string, string> = bundleScripts(['../explorer/main.ts', 'page.ts', 'guides-search.ts'])

/** The files of a page by name: text, or the bytes of a library's file. */
export type PageFiles = Record<string, () => Promise<unknown>>

/** The page that renders the API document. */
export const docsFiles: PageFiles = {
  'page.html': () => import('./page.html', { with: { type: 'text' } }),
  'page.css': () => import('./page.css', { with: { type: 'text' } }),
  ...scriptFiles('page'),
  'swagger-ui.css': () => Bun.file(stylesheetPath).bytes(),
  'swagger-ui-bundle.js': () => Bun.file(scriptPath).bytes(),
  'favicon.png': () => Bun.file(iconPath).bytes(),
  'guides.css': () => import('./guides.css', { with: { type: 'text' } }),
  ...scriptFiles('guides-search'),
}

/** A bundled script, and its source map. */
export function scriptFiles(name: string): PageFiles {
  return Object.fromEntries(
    [`${name}.js`, `${name}.js.map`].map((file) => [file, async () => ({ default: bundled[file]! })]),
  )
}

// Our pages set styles only by script, so the policy needs no exception for inline styles.
const pagePolicy = (morePolicy: string, bridge: string) =>
  `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src ${`'self' ${bridge}`.trim()}; ` +
  `frame-ancestors 'none'; base-uri 'none'; form-action 'none'${morePolicy}`

/** By file extension; other files are scripts. */
const mediaTypes: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
  json: 'application/json; charset=utf-8',
  map: 'application/json; charset=utf-8',
  png: 'image/png',
}

// Titles come from web pages. The explorer only sets text, and this policy makes the browser enforce that.
export const noMarkup = "; require-trusted-types-for 'script'; trusted-types 'none'"

/** Adds to the API page the collections that can be written and deleted from. They can change, so they are not in the API document. */
export function showWrites(page: string, put: Iterable<string>, deleted: Iterable<string>): string {
  return page
    .replace('data-put=""', `data-put="${[...put].join(' ')}"`)
    .replace('data-delete=""', `data-delete="${[...deleted].join(' ')}"`)
}

/** The response for a file. */
export interface PageFile {
  status: number
  headers: Record<string, string>
  body: string | Uint8Array
}

/**
 * Serves the files of a page by name, under a policy that only allows its own origin, and that of a bridge elsewhere. Resolves to null for
 * an unknown file.
 */
export function pageServer(files: PageFiles, morePolicy = '', bridge = '') {
  const made = new Map<string, string | Uint8Array>()
  return async (name: string, edit = (text: string) => text): Promise<PageFile | null> => {
    if (!Object.hasOwn(files, name)) return null
    const extension = name.slice(name.lastIndexOf('.') + 1)
    const body = made.get(name) ?? (await makeFile(files[name]!, extension))
    made.set(name, body)
    return fileReply(extension, typeof body === 'string' ? edit(body) : body, morePolicy, bridge)
  }
}

/** The response for a file with that extension, under the policy of our pages. */
export function fileReply(
  extension: string,
  body: string | Uint8Array,
  morePolicy = '',
  bridge = '',
): PageFile {
  const headers = {
    'Content-Type': mediaTypes[extension] ?? 'text/javascript; charset=utf-8',
    'Content-Security-Policy': pagePolicy(morePolicy, bridge),
    'Referrer-Policy': 'no-referrer',
  }
  return { status: 200, headers, body }
}

async function makeFile(load: PageFiles[string], extension: string): Promise<string | Uint8Array> {
  const loaded = await load()
  if (loaded instanceof Uint8Array) return loaded
  const { default: source } = loaded as { default: string }
  if (extension === 'css') return squeezeStyles(source)
  // Our markup has no text whose indentation counts.
  return extension === 'html' ? source.replaceAll(/^ +| (?=\/>)/gm, '') : source
}

/** Removes comments, indentation and unneeded spaces from CSS. */
function squeezeStyles(source: string): string {
  return source
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/^( *[\w-]+): /gm, '$1:')
    .replaceAll(/ ?([{};,])\n\s*/g, '$1')
    .replaceAll(' > ', '>')
    .replaceAll(';}', '}')
}
