import { rootTitles } from '../../client/bookmark-places.ts'
import { named } from '../../client/bookmarks.ts'
import { newId } from '../../client/edit/models.ts'
import { folderCalled, namedFolders, type Tree } from '../../client/edit/tree.ts'
import { ClientError } from '../../client/errors.ts'
import { Option, partialSuccess, several, UsageError, type CommandFactory } from '../command.ts'
import { writeOut } from '../output.ts'
import { readInput } from './ask.ts'
import { describeAccountCommand, folderOption, noUndoOption } from './options.ts'
import { countOf } from './phrases.ts'
import { withAccount } from './session.ts'
import { UndoLog } from './undo-log.ts'
import type { Edit } from '../../client/edit/edit.ts'

export const addCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'add',
    'add bookmarks, the way Firefox does',
    'Prints the id of each bookmark. Without URL, reads standard input: an address in each line, and its title after a space.',
  )
    .argument('[URL...]', 'their addresses')
    .option('-t, --title <TITLE>', 'the title of the only one; the address by default')
    .addOption(folderOption('their folder, by title or id; "Other Bookmarks" by default'))
    .option('--make-folder <PATH>', 'a folder in that one, such as News/Local, made if it does not exist')
    .addOption(new Option('--tag <TAG>', 'a tag; may be given several times').argParser(several(String)))
    .addOption(noUndoOption)
    .action(
      perform((host, urls = [], { title, folder, makeFolder, tag: tags = [], undo, ...given }) => {
        if (title !== undefined && urls.length !== 1) throw new UsageError('--title needs exactly one URL')
        if (urls.length === 0 && host.stdin.isTty)
          throw new UsageError('Missing URL: name addresses, or write them to standard input')
        return withAccount(given, host, { writes: ['bookmarks'] }, async (session) => {
          const { tell } = session
          const links =
            urls.length > 0 ? urls.map((url) => ({ url, title })) : readLinks(await readInput(host))
          if (links.length === 0) throw new UsageError('Nothing to add: standard input has no address')
          const path = makeFolder === undefined ? [] : makeFolder.split('/').filter((name) => name.trim())
          const log = new UndoLog(session, 'add', undo)
          const known = log.resume([links, folder, path, tags])
          const ids = [...path, ...links].map((_, index) => known[index] ?? newId())
          log.adds(ids)
          const newFolders = ids.slice(0, path.length)
          const added = links.map(({ url, title = url.trim().slice(0, 4096) }, index) => {
            return { id: ids[path.length + index]!, address: url.trim(), title, tags }
          })
          let target = ''
          const decide = (tree: Tree): Edit[] => {
            const place = placeIn(tree, folder, path, newFolders)
            target = place.title
            return [...place.edits, ...added.map((link): Edit => ({ op: 'add', folder: place.id, ...link }))]
          }
          const { problems, saved } = await log.save(decide)
          for (const { message } of problems) tell(message)
          tell(`Added ${countOf(added.length, 'bookmark')} to ${target}`)
          let isPrinted = true
          try {
            await writeOut(host, added.map(({ id }) => `${id}\n`).join(''))
          } catch (error) {
            if (!(error instanceof ClientError)) throw error
            tell(`${error.message}. Everything is added`)
            isPrinted = false
          }
          // Last: after an interruption before, the same command adds nothing twice.
          log.finish(saved, countOf(added.length, 'bookmark'))
          return isPrinted && problems.length === 0 ? 0 : partialSuccess
        })
      }),
    )

function readLinks(text: string): { url: string; title: string | undefined }[] {
  return text.split('\n').flatMap((line) => {
    const [url = '', ...words] = line.trim().split(/\s/)
    return url === '' ? [] : [{ url, title: words.join(' ').trim() || undefined }]
  })
}

/** Finds the folder for new bookmarks, and what makes the folders on the path that do not exist; they get the given ids. */
function placeIn(
  tree: Tree,
  folder: string | undefined,
  path: string[],
  newIds: string[],
): { id: string; title: string; edits: Edit[] } {
  const top = folderCalled(tree, folder ?? 'unfiled')
  // Firefox stores its own names of the root folders, such as "unfiled".
  let [id, title] = [top.id, rootTitles.get(top.id) ?? top.title]
  const edits: Edit[] = []
  for (const [index, name] of path.entries()) {
    const inside = namedFolders(tree).filter(({ item }) => item.parent === id)
    const [found] = edits.length > 0 ? [] : named(inside, name)
    if (!found) edits.push({ op: 'add', id: newIds[index]!, kind: 'folder', folder: id, title: name.trim() })
    id = found?.id ?? newIds[index]!
    title = `${title} / ${name.trim()}`
  }
  return { id, title, edits }
}
