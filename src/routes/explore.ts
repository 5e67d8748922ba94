import { Elysia } from 'elysia'
import { explorerFiles } from '../explorer/files.ts'
import { explore, exploreFile } from '../protocol/resources.ts'
import { pageServer, textFile } from './page-files.ts'
import type { Services } from './services.ts'

// Titles come from web pages. The page only ever sets text, and this policy makes the browser refuse anything else.
const noMarkup = "; require-trusted-types-for 'script'; trusted-types 'none'"

const files = Object.entries(explorerFiles).map(([name, load]) => [name, textFile(name, load)] as const)
const serve = pageServer(Object.fromEntries(files), noMarkup)

/** GET /explore: a page that shows users their own data, decrypted in the browser. The executable holds it. */
export function exploreRoutes({ settings }: Services) {
  if (!settings.explorerEnabled) return new Elysia()
  return new Elysia()
    .get(explore.path, () => serve('explore.html'))
    .get(exploreFile.path, ({ params: { file } }) => serve(file), { params: exploreFile.params })
}
