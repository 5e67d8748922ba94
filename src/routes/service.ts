import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import type { IdentityHeaders } from '../protocol/identity.ts'
import { readAnonymousIdentity } from '../protocol/identity.ts'
import { emptyReply, jsonReply, publicOrigin } from '../protocol/reply.ts'
import type { ExposedSettings, Reply } from '../protocol/reply.ts'
import {
  docs,
  docsFile,
  explore,
  exploreFile,
  heartbeat,
  lbheartbeat,
  metrics,
  openapi,
  root,
  rootReply,
  version,
} from '../protocol/resources.ts'
import { unknownPath } from './guard.ts'
import type { App } from './guard.ts'
import type { Call, Services } from './context.ts'

/** What this service is, and whether it works. */
export function addServiceRoutes(app: App, prefix: string, services: Services): void {
  app.get(prefix + root.path, ({ headers, call }) => rootReplyFor(headers, call, services), {
    headers: root.headers,
  })
  app.get(prefix + version.path, () => jsonReply(services.version))
  if (!services.metrics) return
  const { metrics: read } = services
  app.get(prefix + metrics.path, async () => {
    const { text, type } = await read()
    return { status: 200, headers: { 'Content-Type': type }, body: text }
  })
}

/** Whether this process and the services behind it work. These are also answered without the version prefix. */
export function addHealthRoutes(app: App, prefix: string, services: Services): void {
  app.get(prefix + heartbeat.path, ({ call }) => {
    call.route = heartbeat.name
    return heartbeatReply(services)
  })
  // Often the first request of all: to find its name by its path would cost a start 1 ms more.
  app.get(prefix + lbheartbeat.path, ({ call }) => {
    call.route = lbheartbeat.name
    return emptyReply(200)
  })
}

/** The root view. Refused credentials are no error here: the answer then names no user. */
export async function rootReplyFor(headers: IdentityHeaders, call: Call, services: Services): Promise<Reply> {
  const identity = readAnonymousIdentity(headers)
  const userId = identity && (await services.identify(identity, call.requestId))
  return rootReply(publicOrigin(call.host, services.settings), userId, services.settings)
}

/** 200 when all parts answer, otherwise 503 with the same body. */
export async function heartbeatReply(services: Services): Promise<Reply> {
  const { storage, cache, permission } = await services.heartbeat()
  const isWell = storage && cache && permission
  const headers: Record<string, string> = isWell
    ? {}
    : { 'Retry-After': String(Math.max(services.settings.retryAfterSeconds, 1)) }
  return jsonReply({ storage, cache, permission }, headers, isWell ? 200 : 503)
}

// --- Pages ---

/**
 * GET /__api__ and GET /docs: the API document, made from the declarations of the resources, and a page to read and try it
 * with. The page and all that it loads come out of the executable.
 */
export function addDocsRoutes(app: App, prefix: string, { settings, metrics }: Services): void {
  let made: Promise<string> | null = null
  app.get(prefix + openapi.path, async () => {
    // Loaded at the first request for the document, because it would make every start longer.
    made ??= import('./api-document.ts').then(({ writeApiDocument }) =>
      writeApiDocument(settings, metrics !== null),
    )
    return { status: 200, headers: {}, body: await made }
  })
  if (!settings.docsEnabled) return
  const serve = pageServer(docsFiles)
  app.get(prefix + docs.path, () => serve('page.html', (page) => tellWrites(page, settings)))
  app.get(prefix + docsFile.path, ({ params }) => serve(params.file), { params: docsFile.params })
}

/** The enabled writes may change while the process runs, so they are no part of the API document. */
function tellWrites(page: string, { readonly, writable }: ExposedSettings): string {
  const names = (collections: ReadonlySet<string>) => (readonly ? [] : [...collections]).join(' ')
  return page
    .replace('data-put=""', `data-put="${names(writable.put)}"`)
    .replace('data-delete=""', `data-delete="${names(writable.delete)}"`)
}

/** GET /explore: a page that shows users their own data, decrypted in the browser. The executable holds it. */
export function addExploreRoutes(app: App, prefix: string, { settings }: Services): void {
  if (!settings.explorerEnabled) return
  const serve = pageServer(explorerFiles, noMarkup)
  app.get(prefix + explore.path, () => serve('explore.html'))
  app.get(prefix + exploreFile.path, ({ params }) => serve(params.file), { params: exploreFile.params })
}

/** The files of a page by their names: modules with the text of a source of ours, or the bytes of a file of a library. */
type PageFiles = Record<string, () => Promise<unknown>>

const docsFiles: PageFiles = {
  'page.html': () => import('../docs/page.html', { with: { type: 'text' } }),
  'page.css': () => import('../docs/page.css', { with: { type: 'text' } }),
  'page.js': () => import('../docs/page.ts', { with: { type: 'text' } }),
  'swagger-ui.css': () => Bun.file(stylesheetPath).bytes(),
  'swagger-ui-bundle.js': () => Bun.file(scriptPath).bytes(),
  'favicon.png': () => Bun.file(iconPath).bytes(),
  'connect.md': () => import('../../docs/connect.md', { with: { type: 'text' } }),
  'clients.md': () => import('../../docs/clients.md', { with: { type: 'text' } }),
  'promises.md': () => import('../../docs/promises.md', { with: { type: 'text' } }),
}

// The files of TypeScript keep their names: browsers go by the type that a file is served as.
const explorerFiles: PageFiles = {
  'explore.html': () => import('../explorer/explore.html', { with: { type: 'text' } }),
  'explore.css': () => import('../explorer/explore.css', { with: { type: 'text' } }),
  'main.ts': () => import('../explorer/main.ts', { with: { type: 'text' } }),
  'account.ts': () => import('../explorer/account.ts', { with: { type: 'text' } }),
  'meaning.ts': () => import('../explorer/meaning.ts', { with: { type: 'text' } }),
  'elements.ts': () => import('../explorer/elements.ts', { with: { type: 'text' } }),
  'views.ts': () => import('../explorer/views.ts', { with: { type: 'text' } }),
  'sync-crypto.js': () => import('../../docs/examples/sync-crypto.js', { with: { type: 'text' } }),
}

// Titles come from web pages. The page only ever sets text, and this policy makes the browser refuse anything else.
const noMarkup = "; require-trusted-types-for 'script'; trusted-types 'none'"

// Pages set styles by script only, so not even styles need an exception.
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** By the end of a file's name; the other files are scripts. */
const mediaTypes: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  md: 'text/plain; charset=utf-8',
  png: 'image/png',
}

/** Serves the files of a page by name, under a policy that lets it load from its own origin only. Throws 404. */
function pageServer(files: PageFiles, morePolicy = '') {
  const made = new Map<string, Promise<string | Uint8Array>>()
  return async (name: string, edit: (text: string) => string = (text) => text): Promise<Reply> => {
    if (!Object.hasOwn(files, name)) throw unknownPath()
    const extension = name.slice(name.lastIndexOf('.') + 1)
    if (!made.has(name)) made.set(name, makeFile(files[name]!, extension))
    const body = await made.get(name)!
    return {
      status: 200,
      headers: {
        'Content-Type': mediaTypes[extension] ?? 'text/javascript; charset=utf-8',
        'Content-Security-Policy': pagePolicy + morePolicy,
        'Referrer-Policy': 'no-referrer',
      },
      body: typeof body === 'string' ? edit(body) : body,
    }
  }
}

// The build embeds our sources as they are: types and indentation are taken out at the first request for a file.
async function makeFile(load: PageFiles[string], extension: string): Promise<string | Uint8Array> {
  const loaded = await load()
  if (loaded instanceof Uint8Array) return loaded
  const { default: source } = loaded as { default: string }
  if (extension === 'md') return source
  if (extension in mediaTypes) return source.replaceAll(/^ +/gm, '')
  const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'browser', minifyWhitespace: true })
  // The explorer uses the file that users are given to take, which the repository has in another folder.
  return transpiler.transformSync(source).replaceAll('../../docs/examples/', './')
}
