import { Elysia } from 'elysia'
import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import type { ExposedSettings } from '../protocol/exposed.ts'
import { docs, docsFile, openapi } from '../protocol/resources.ts'
import { pageServer, textFile } from './page-files.ts'
import type { PageFile } from './page-files.ts'
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
    .get(docs.path, () => serve('page.html', (page) => tellWrites(page, settings)))
    .get(docsFile.path, ({ params: { file } }) => serve(file), { params: docsFile.params })
}

const bytesFile = (type: string, path: string): PageFile => ({ type, read: () => Bun.file(path).bytes() })

const serve = pageServer({
  'page.html': textFile('page.html', () => import('../docs/page.html', { with: { type: 'text' } })),
  'page.css': textFile('page.css', () => import('../docs/page.css', { with: { type: 'text' } })),
  'page.js': textFile('page.js', () => import('../docs/page.ts', { with: { type: 'text' } })),
  'swagger-ui.css': bytesFile('text/css', stylesheetPath),
  'swagger-ui-bundle.js': bytesFile('text/javascript', scriptPath),
  'favicon.png': bytesFile('image/png', iconPath),
  'connect.md': textFile('connect.md', () => import('../../docs/connect.md', { with: { type: 'text' } })),
  'clients.md': textFile('clients.md', () => import('../../docs/clients.md', { with: { type: 'text' } })),
  'promises.md': textFile('promises.md', () => import('../../docs/promises.md', { with: { type: 'text' } })),
})

/** The enabled writes may change while the process runs, so they are no part of the API document. */
function tellWrites(page: string, { readonly, writable }: ExposedSettings): string {
  const names = (collections: ReadonlySet<string>) => (readonly ? [] : [...collections]).join(' ')
  return page
    .replace('data-put=""', `data-put="${names(writable.put)}"`)
    .replace('data-delete=""', `data-delete="${names(writable.delete)}"`)
}
