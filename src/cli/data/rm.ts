import { isReadable, type SyncRecord } from '../../client/collection.ts'
import { readLogin, readVisitedPage } from '../../client/record-readers.ts'
import { ClientError } from '../../client/errors.ts'
import { Argument, Option, oneOf, UsageError, type CommandFactory } from '../command.ts'
import { codeOf, showOrMake } from './change.ts'
import { describeAccountCommand, noUndoOption } from './options.ts'
import { countOf, someOf } from './phrases.ts'
import { withAccount } from './session.ts'
import type { Fields } from '../../client/fields.ts'

/** Firefox applies deletions of these records as they are. */
const deletable = [
  'bookmarks',
  'history',
  'passwords',
  'forms',
  'addresses',
  'creditcards',
  'tabs',
  'extension-storage',
]

/** The address of a record that `--site` compares, by collection. */
const siteOf: Record<string, (clear: Fields) => string> = {
  history: (clear) => readVisitedPage(clear).url,
  passwords: (clear) => readLogin(clear).site,
}

export const rmCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'rm',
    'show what would be deleted; with --write, delete it on all devices',
    'Deletes as Firefox does, so that every device applies it. A folder of bookmarks is deleted with its contents. ' +
      `"sync-bridge ls COLLECTION" shows the ids.`,
  )
    .addArgument(
      new Argument('<COLLECTION>', 'where to delete')
        .choices(deletable)
        .argParser((text) => oneOf(deletable)(text.toLowerCase())),
    )
    .argument('[ID...]', 'the ids of the records')
    .addOption(
      new Option(
        '--site <HOST>',
        'in history or passwords: all of this site and its subdomains, such as example.org',
      ),
    )
    .option('--write', 'delete')
    .addOption(noUndoOption)
    .action(
      perform((host, collection, ids = [], { site, write = false, undo, ...given }) => {
        if (site === undefined && ids.length === 0) throw new UsageError('Missing ID')
        // Such as a variable of a script that is not set.
        if (ids.includes('')) throw new UsageError('An ID is empty')
        if (site !== undefined && !siteOf[collection])
          throw new UsageError('--site only applies to history and passwords')
        return withAccount(given, host, { writes: write ? [collection] : [] }, async (session) => {
          const { client, tell } = session
          const wanted = new Set(ids)
          const found = new Map<string, SyncRecord>()
          const unreadable: string[] = []
          for await (const record of client.collection(collection).records()) {
            if (site !== undefined && record.clear === null) unreadable.push(record.stored.id)
            const isMeant = wanted.has(record.stored.id) || isOfSite(collection, record, site)
            // Bookmarks belong together.
            if (isMeant || collection === 'bookmarks') found.set(record.stored.id, record)
          }
          const isThere = (id: string) => found.has(id) && isReadable(found.get(id)!)
          const absent = ids.filter((id) => !isThere(id))
          const removed = collection === 'bookmarks' ? ids : [...found.keys()]
          const edits = removed.filter(isThere).map((id) => ({ op: 'remove' as const, id }))
          if (unreadable.length > 0)
            tell(
              `${countOf(unreadable.length, 'record')} cannot be decrypted, and may be of ${site}, too: ${someOf(unreadable)}`,
            )
          if (edits.length === 0 && absent.length === 0)
            throw new ClientError(`Nothing of ${site} in ${collection}`)
          const records = [...found.values()]
          const change = { collection, edits, shown: records, now: records }
          const { isWhole } = await showOrMake(session, change, { command: 'rm', write, hasUndo: undo })
          if (absent.length > 0) tell(`Not found, or cannot be decrypted: ${someOf(absent)}`)
          return codeOf(isWhole && absent.length === 0 && unreadable.length === 0)
        })
      }),
    )

/** Whether a record belongs to a site or to one of its subdomains. */
function isOfSite(collection: string, record: SyncRecord, site: string | undefined): boolean {
  if (site === undefined || !isReadable(record)) return false
  const address = siteOf[collection]!(record.clear)
  if (!URL.canParse(address)) return false
  const { hostname } = new URL(address)
  const wanted = site.toLowerCase()
  return hostname === wanted || hostname.endsWith(`.${wanted}`)
}
