/** The API document, its page, the guides and the explorer. The executable contains all their files. */
import { frontPage, guideFile } from '../guides/guides.ts'
import { explorerFiles } from '../guides/explorer-files.ts'
import { docsFiles, noMarkup, pageServer, showWrites } from '../guides/page-files.ts'
import type { Reply } from '../protocol/reply.ts'
import { docs, docsFile, explore, exploreFile, guides, openapi } from '../protocol/service-resources.ts'
import { writeApiDocument } from './api-document.ts'
import { unknownPath } from './unrouted.ts'
import type { App, Services } from './call.ts'

/** GET /__api__ and GET /docs: the API document, and a page to read and try it. */
export function addDocsRoutes(app: App, prefix: string, { settings, version }: Services): void {
  let made: string | null = null
  app.get(
    prefix + openapi.path,
    () => {
      // Written at the first request, when all routes exist.
      made ??= writeApiDocument(app.routes, prefix, { title: settings.projectName, version: version.version })
      return { status: 200, headers: {}, body: made }
    },
    openapi.schemas,
  )
  if (!settings.docsEnabled) return
  const serve = pageServer(docsFiles)
  const show = (page: string) => {
    const { readonly, writable } = settings
    return readonly ? page : showWrites(page, writable.put, writable.delete)
  }
  app.get(prefix + docs.path, () => serve('page.html', show), docs.schemas)
  const site = { title: settings.projectName, hasExplorer: settings.explorerEnabled }
  app.get(prefix + guides.path, () => frontPage(site), guides.schemas)
  const fileOf = (name: string) => (name.startsWith('guides/') ? guideFile(name.slice(7), site) : serve(name))
  app.get(prefix + docsFile.path, ({ params }) => orUnknown(fileOf(params['*'])), docsFile.schemas)
}

/** GET /explore: a page that shows users their own data, decrypted in the browser. */
export function addExploreRoutes(app: App, prefix: string, { settings }: Services): void {
  if (!settings.explorerEnabled) return
  const serve = pageServer(explorerFiles, noMarkup)
  // Without the docs there is no guide to link to.
  const page = (html: string) => (settings.docsEnabled ? html : html.replace(/<a data-guide.*?<\/a>/, ''))
  app.get(prefix + explore.path, () => serve('explore.html', page), explore.schemas)
  app.get(prefix + exploreFile.path, ({ params }) => orUnknown(serve(params['*'])), exploreFile.schemas)
}

async function orUnknown(file: Promise<Reply | null>): Promise<Reply> {
  const found = await file
  if (found === null) throw unknownPath()
  return found
}
