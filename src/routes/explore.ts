import { Elysia } from 'elysia'
import { explore, exploreFile } from '../protocol/resources.ts'
import { pageServer, textFile } from './page-files.ts'
import type { Services } from './services.ts'

// Titles come from web pages. The page only ever sets text, and this policy makes the browser refuse anything else.
const noMarkup = "; require-trusted-types-for 'script'; trusted-types 'none'"

// Imported as text. The files of TypeScript keep their names: browsers go by the type that a file is served as.
const sources: Record<string, () => Promise<unknown>> = {
  'explore.html': () => import('../explorer/explore.html', { with: { type: 'text' } }),
  'explore.css': () => import('../explorer/explore.css', { with: { type: 'text' } }),
  'main.ts': () => import('../explorer/main.ts', { with: { type: 'text' } }),
  'account.ts': () => import('../explorer/account.ts', { with: { type: 'text' } }),
  'meaning.ts': () => import('../explorer/meaning.ts', { with: { type: 'text' } }),
  'elements.ts': () => import('../explorer/elements.ts', { with: { type: 'text' } }),
  'views.ts': () => import('../explorer/views.ts', { with: { type: 'text' } }),
  'sync-crypto.js': () => import('../../docs/examples/sync-crypto.js', { with: { type: 'text' } }),
}
const files = Object.entries(sources).map(([name, load]) => [name, textFile(name, load)] as const)
const serve = pageServer(Object.fromEntries(files), noMarkup)

/** GET /explore: a page that shows users their own data, decrypted in the browser. The executable holds it. */
export function exploreRoutes({ settings }: Services) {
  if (!settings.explorerEnabled) return new Elysia()
  return new Elysia()
    .get(explore.path, () => serve('explore.html'))
    .get(exploreFile.path, ({ params: { file } }) => serve(file), { params: exploreFile.params })
}
