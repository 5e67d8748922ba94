import { Elysia } from 'elysia'
import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import type { Reply } from '../protocol/reply.ts'
import { docs, docsFile, openapi } from '../protocol/resources.ts'
import { page, pageScript, pageStyle } from './docs-page.ts'
import { unknownPath } from './guard.ts'
import type { Services } from './services.ts'

/**
 * GET /__api__ and GET /docs: the API document, made from the declarations of the resources, and a page to read and try it
 * with. The page and all that it loads come out of the executable.
 */
export function docsRoutes({ settings, metrics }: Services) {
  let made: Promise<string> | null = null
  const app = new Elysia().get(openapi.path, async () => {
    // Loaded at the first request for the document, because it would make every start longer.
    made ??= import('./api-document.ts').then(({ writeApiDocument }) =>
      writeApiDocument(settings, metrics !== null),
    )
    return { status: 200, headers: {}, body: await made }
  })
  if (!settings.docsEnabled) return app
  return app
    .get(docs.path, () => fileReply(page, 'text/html'))
    .get(docsFile.path, ({ params: { file } }) => serveFile(file), { params: docsFile.params })
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
