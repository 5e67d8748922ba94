import { Elysia } from 'elysia'
import { explorerFile, explorerFiles } from '../explorer/files.ts'
import type { Reply } from '../protocol/reply.ts'
import { fileReply } from './docs.ts'
import { unknownPath } from './guard.ts'
import type * as Descriptions from './service-descriptions.ts'
import type { Services } from './services.ts'

/** GET /explore: a page that shows somebody's own data, decrypted in the browser. It comes out of the executable. */
export function exploreRoutes({ settings }: Services, descriptions?: typeof Descriptions) {
  if (!settings.explorerEnabled) return new Elysia()
  return new Elysia()
    .get('/explore', () => serve('explore.html'), { detail: descriptions?.explorerDescription })
    .get('/explore/:file', ({ params: { file } }) => serve(file), {
      detail: descriptions?.fileDescription(explorerFiles, 'getExplorerFile'),
    })
}

// Titles come from web pages. The page only ever sets text; with this, the browser refuses anything else.
const noMarkup = "; require-trusted-types-for 'script'; trusted-types 'none'"

async function serve(name: string): Promise<Reply> {
  const file = await explorerFile(name)
  if (file === null) throw unknownPath()
  const reply = fileReply(file.text, file.type)
  reply.headers['Content-Security-Policy'] += noMarkup
  reply.headers['Referrer-Policy'] = 'no-referrer'
  return reply
}
