import { swagger } from '@elysiajs/swagger'
import { Elysia } from 'elysia'
import stylesheetPath from 'swagger-ui-dist/swagger-ui.css' with { type: 'file' }
import scriptPath from 'swagger-ui-dist/swagger-ui-bundle.js' with { type: 'file' }
import iconPath from 'swagger-ui-dist/favicon-32x32.png' with { type: 'file' }
import { majorVersion } from '../protocol/exposed.ts'
import type { ExposedSettings } from '../protocol/exposed.ts'
import type { Reply } from '../protocol/reply.ts'
import { documentDescription, documentHead } from './descriptions.ts'
import { unknownPath } from './guard.ts'
import type { Services } from './services.ts'

/**
 * GET /__api__ and GET /docs: the API document, made from the routes themselves, and a page to read and try it with. The
 * page and all that it loads come out of the executable.
 *
 * `routes`: all routes to be described, made anew.
 */
export function docsRoutes({ settings }: Services, routes: () => Elysia) {
  let made: Promise<string> | null = null
  const apiDocument = (): Promise<string> => (made ??= describeApi(routes(), settings))
  return new Elysia()
    .get('/__api__', async () => ({ status: 200, headers: {}, body: await apiDocument() }), {
      detail: documentDescription,
    })
    .get('/docs', () => serveFile('', settings), { detail: { hide: true } })
    .get('/docs/:file', ({ params: { file } }) => serveFile(file, settings), { detail: { hide: true } })
}

async function describeApi(routes: Elysia, settings: ExposedSettings): Promise<string> {
  const documentation = documentHead(
    settings.projectName,
    settings.projectVersion,
    `/v${majorVersion(settings)}`,
  )
  const plugin = swagger({ path: '/ui', specPath: '/document', exclude: ['/ui', '/document'], documentation })
  const answer = await new Elysia().use(routes).use(plugin).handle(new Request('http://localhost/document'))
  return answer.text()
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sync Bridge</title>
<link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/page.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/page.js"></script>
</body>
</html>
`

const pageStyle = `body { margin: 0 }
.swagger-ui .topbar { display: none }
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 8px }
  .swagger-ui .opblock-summary-description { display: none }
  .swagger-ui table { display: block; overflow-x: auto }
}
`

const pageScript = `SwaggerUIBundle({
  url: '__api__',
  dom_id: '#page',
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
})
`

// Styles are inline here and there in what the page's library draws, hence the exception for them.
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

async function serveFile(name: string, settings: ExposedSettings): Promise<Reply> {
  if (!settings.docsEnabled) throw unknownPath()
  switch (name) {
    case '':
      return fileReply(page, 'text/html; charset=utf-8')
    case 'page.css':
      return fileReply(pageStyle, 'text/css; charset=utf-8')
    case 'page.js':
      return fileReply(pageScript, 'text/javascript; charset=utf-8')
    case 'swagger-ui.css':
      return fileReply(await Bun.file(stylesheetPath).bytes(), 'text/css; charset=utf-8')
    case 'swagger-ui-bundle.js':
      return fileReply(await Bun.file(scriptPath).bytes(), 'text/javascript; charset=utf-8')
    case 'favicon.png':
      return fileReply(await Bun.file(iconPath).bytes(), 'image/png')
    default:
      throw unknownPath()
  }
}

function fileReply(body: string | Uint8Array, type: string): Reply {
  return { status: 200, headers: { 'Content-Type': type, 'Content-Security-Policy': pagePolicy }, body }
}
