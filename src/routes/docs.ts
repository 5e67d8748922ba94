import { Elysia } from 'elysia'
import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import type { ExposedSettings } from '../protocol/exposed.ts'
import type { Reply } from '../protocol/reply.ts'
import { page, pageScript, pageStyle } from './docs-page.ts'
import { unknownPath } from './guard.ts'
import type * as Descriptions from './service-descriptions.ts'
import type { Services } from './services.ts'

/**
 * GET /__api__ and GET /docs: the API document, made from the routes themselves, and a page to read and try it with. The
 * page and all that it loads come out of the executable.
 *
 * `routes`: all routes with their descriptions, made anew.
 */
export function docsRoutes(
  { settings }: Services,
  routes: () => Promise<Elysia>,
  descriptions?: typeof Descriptions,
) {
  let made: Promise<string> | null = null
  const apiDocument = (): Promise<string> => (made ??= describeApi(routes, settings))
  const documentRoute = new Elysia().get(
    '/__api__',
    async () => ({ status: 200, headers: {}, body: await apiDocument() }),
    { detail: descriptions?.documentDescription },
  )
  return settings.docsEnabled ? documentRoute.use(pageRoutes(descriptions)) : documentRoute
}

function pageRoutes(descriptions?: typeof Descriptions) {
  return new Elysia()
    .get('/docs', () => fileReply(page, 'text/html'), { detail: descriptions?.pageDescription })
    .get('/docs/:file', ({ params: { file } }) => serveFile(file), {
      detail: descriptions?.fileDescription(Object.keys(files)),
    })
}

async function describeApi(routes: () => Promise<Elysia>, settings: ExposedSettings): Promise<string> {
  // Loaded when somebody asks for the document, because it would make every start longer.
  const { addHeadOperations, documentHead } = await import('./api-document.ts')
  const { swagger } = await import('@elysiajs/swagger')
  const documentation = documentHead(settings) as NonNullable<Parameters<typeof swagger>[0]>['documentation']
  const plugin = swagger({
    path: '/ui',
    specPath: '/document',
    exclude: ['/ui', '/document'],
    ...(documentation && { documentation }),
  })
  const answer = await new Elysia()
    .use(await routes())
    .use(plugin)
    .handle(new Request('http://localhost/document'))
  const document = await answer.json()
  addHeadOperations(document)
  return JSON.stringify(document)
}

/** What the page loads: the type of each file, and where its text or bytes are. */
const files: Record<string, { type: string; read(): string | Promise<Uint8Array> }> = {
  'page.css': { type: 'text/css', read: () => pageStyle },
  'page.js': { type: 'text/javascript', read: () => pageScript },
  'swagger-ui.css': { type: 'text/css', read: () => Bun.file(stylesheetPath).bytes() },
  'swagger-ui-bundle.js': { type: 'text/javascript', read: () => Bun.file(scriptPath).bytes() },
  'favicon.png': { type: 'image/png', read: () => Bun.file(iconPath).bytes() },
}

async function serveFile(name: string): Promise<Reply> {
  if (!Object.hasOwn(files, name)) throw unknownPath()
  const { type, read } = files[name]!
  return fileReply(await read(), type)
}

// The page's library sets styles by script only, so that not even those need an exception.
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** A file of a page, under a policy that lets the page load from its own origin only. */
export function fileReply(body: string | Uint8Array, type: string): Reply {
  const contentType = type.startsWith('text/') ? `${type}; charset=utf-8` : type
  return {
    status: 200,
    headers: { 'Content-Type': contentType, 'Content-Security-Policy': pagePolicy },
    body,
  }
}
