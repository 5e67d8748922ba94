import { bookmarkTree } from '../client/bookmarks.ts'
import { isReadable, type ReadableRecord } from '../client/collection.ts'
import { readVisitedPage } from '../client/record-readers.ts'
import { bookmarksHtml } from '../client/bookmark-formats.ts'
import { everythingJson, historyCsv, passwordsCsv } from '../client/record-formats.ts'
import { byId, make, showStatus } from './elements.ts'
import type { LoadedRecords } from './loaded-records.ts'

/** Sets up the download menu and its warning; `current` returns the records to save. */
export function offerDownloads(current: () => LoadedRecords): void {
  const menu = byId('downloads')
  const warning = byId<HTMLDialogElement>('warning')

  function saveCollection(name: string, type: string, collection: string, fileOf: Format): void {
    const loaded = current()
    save(name, type, fileOf(loaded.records([collection]).filter(isReadable)), loaded, [collection])
  }

  for (const [id, act] of Object.entries({
    'save-bookmarks': () => saveCollection('bookmarks.html', 'text/html', 'bookmarks', bookmarksOf),
    'save-history': () => saveCollection('history.csv', 'text/csv', 'history', historyOf),
    'warn-of-passwords': () => warning.showModal(),
    'save-passwords': () => saveCollection('passwords.csv', 'text/csv', 'passwords', passwordsOf),
    'keep-passwords': () => {},
    'save-everything': () => {
      const loaded = current()
      const text = everythingJson({
        records: loaded.records(),
        incomplete: loaded.incomplete(),
        exportedAt: new Date(),
      })
      save('firefox-sync.json', 'application/json', [...text].join(''), loaded)
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
function save(name: string, type: string, text: string, loaded: LoadedRecords, collections?: string[]): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  make('a', { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
  const isReading = loaded.isReading(collections)
  // The file with everything also lists the records that could not be read.
  const isLess = collections !== undefined && loaded.records(collections).some(({ clear }) => clear === null)
  const isIncomplete = isLess || loaded.failureOf(collections ?? loaded.collections) !== null
  const lack = isReading ? ', of what is read so far' : isIncomplete ? ', without what could not be read' : ''
  showStatus(`Saved ${name}${lack}`)
}
