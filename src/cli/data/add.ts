import { addBookmark, checkUrl } from '../../client/new-bookmark.ts'
import { ClientError } from '../../client/errors.ts'
import { Option, partialSuccess, several, type CommandFactory } from '../command.ts'
import { writeOut } from '../output.ts'
import { describeAccountCommand, folderOption } from './options.ts'
import { withAccount } from './session.ts'

/** Adds a bookmark like Firefox does; prints its id. */
export const addCommand: CommandFactory = (perform) =>
  describeAccountCommand('add', 'add a bookmark, the way Firefox does', 'Prints the id of the bookmark.')
    .argument('<URL>', 'its address')
    .option('-t, --title <TITLE>', 'its title; the address by default')
    .addOption(folderOption('its folder, by title or id; "Other Bookmarks" by default'))
    .addOption(new Option('--tag <TAG>', 'a tag; may be given several times').argParser(several(String)))
    .action(
      perform((host, url, { title, folder, tag: tags = [], ...options }) =>
        withAccount(options, host, { writes: ['bookmarks'] }, async ({ client, tell }) => {
          checkUrl(url)
          const added = await addBookmark(client, { url, title, folder, tags })
          tell(`Added to ${added.folder}`)
          if (added.isUnlisted)
            tell('The folder changed meanwhile: Firefox will show the bookmark at its end')
          try {
            await writeOut(host, `${added.id}\n`)
            return 0
          } catch (error) {
            if (!(error instanceof ClientError)) throw error
            tell(`${error.message}. The bookmark is added, as ${added.id}`)
            return partialSuccess
          }
        }),
      ),
    )
