import { Elysia } from 'elysia'
import { explorerFile } from '../explorer/files.ts'
import type { Reply } from '../protocol/reply.ts'
import { explore, exploreFile } from '../protocol/resources.ts'
import { fileReply } from './docs.ts'
import { unknownPath } from './guard.ts'
import type { Services } from './services.ts'

/** GET /explore: a page that shows somebody's own data, decrypted in the browser. It comes out of the executable. */
export function exploreRoutes({ settings }: Services) {
  if (!settings.explorerEnabled) return new Elysia()
  return new Elysia()
    .get(explore.path, () => serve('explore.html'))
    .get(exploreFile.path, ({ params: { file } }) => serve(file), { params: exploreFile.params })
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
