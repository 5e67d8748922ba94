import { addBookmark, checkUrl } from '../../client/new-bookmark.ts'
import { withAccount, writeOut } from './session.ts'
import type { GivenOptions } from '../command-line.ts'
import type { Host } from '../host.ts'

/** Adds a bookmark like Firefox does; prints its id. */
export function add(options: GivenOptions, [url]: string[], host: Host): Promise<number> {
  return withAccount(options, host, {}, async ({ client, writable, tell }) => {
    writable.add('bookmarks')
    checkUrl(url!)
    const [title] = options.get('title') ?? []
    const [folder] = options.get('folder') ?? []
    const tags = options.get('tag') ?? []
    const added = await addBookmark(client, { url: url!, title, folder, tags })
    tell(`Added to ${added.folder}`)
    if (added.isUnlisted) tell('The folder changed meanwhile: Firefox will show the bookmark at its end')
    await writeOut(host, `${added.id}\n`)
    return 0
  })
}
