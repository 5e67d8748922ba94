import { bookmarkTree } from '../client/bookmarks.ts'
import { isReadable, type ReadableRecord } from '../client/collection.ts'
import { readVisitedPage } from '../client/engines.ts'
import { bookmarksHtml } from '../client/bookmark-formats.ts'
import { everythingJson, historyCsv, passwordsCsv } from '../client/record-formats.ts'
import { byId, make, say } from './elements.ts'
import type { Holdings } from './holdings.ts'

/** Sets up the download menu and its warning; `current` returns the holdings to save. */
export function offerDownloads(current: () => Holdings): void {
  const menu = byId('downloads')
  const warning = byId<HTMLDialogElement>('warning')

  function saveCollection(name: string, type: string, collection: string, fileOf: Format): void {
    const holdings = current()
    save(name, type, fileOf(holdings.records([collection]).filter(isReadable)), holdings, [collection])
  }

  for (const [id, act] of Object.entries({
    'save-bookmarks': () => saveCollection('bookmarks.html', 'text/html', 'bookmarks', bookmarksOf),
    'save-history': () => saveCollection('history.csv', 'text/csv', 'history', historyOf),
    'warn-of-passwords': () => warning.showModal(),
    'save-passwords': () => saveCollection('passwords.csv', 'text/csv', 'passwords', passwordsOf),
    'keep-passwords': () => {},
    'save-everything': () => {
      const holdings = current()
      const text = everythingJson({
        records: holdings.records(),
        incomplete: holdings.incomplete(),
        exportedAt: new Date(),
      })
      save('firefox-sync.json', 'application/json', [...text].join(''), holdings)
    },
  })) {
    byId(id).addEventListener('click', () => {
      menu.hidePopover()
      warning.close()
      act()
    })
  }
}

type Format = (records: ReadableRecord[]) => string

const bookmarksOf: Format = (records) => bookmarksHtml(bookmarkTree(records))
const historyOf: Format = (records) =>
  [...historyCsv(records.map(({ clear }) => readVisitedPage(clear)))].join('')
const passwordsOf: Format = (records) => [...passwordsCsv(records)].join('')

/** Saves a file, and says if it is incomplete. */
function save(name: string, type: string, text: string, holdings: Holdings, collections?: string[]): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  make('a', { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
  const isReading = holdings.isReading(collections)
  // The file with everything also lists the records that could not be read.
  const isLess =
    collections !== undefined && holdings.records(collections).some(({ clear }) => clear === null)
  const isCut = isLess || holdings.failureOf(collections ?? holdings.collections) !== null
  const lack = isReading ? ', of what is read so far' : isCut ? ', without what could not be read' : ''
  say(`Saved ${name}${lack}`)
}
