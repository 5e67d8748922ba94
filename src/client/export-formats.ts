/** The formats of exports: the one table of their names and functions. The first format of each kind of data is the default. */
import {
  bookmarksCsv,
  bookmarksFirefoxJson,
  bookmarksHtml,
  bookmarksJson,
  bookmarksMarkdown,
  bookmarkUrls,
} from './bookmark-formats.ts'
import {
  everythingJson,
  historyCsv,
  historyJson,
  passwordsCsv,
  passwordsJson,
  tabsCsv,
  tabsJson,
  tabsMarkdown,
  tabUrls,
  type DeviceTabs,
  type Everything,
} from './record-formats.ts'
import type { BookmarkNode } from './bookmarks.ts'
import type { ReadableRecord } from './collection.ts'
import type { VisitedPage } from './engines.ts'
import type { FormatOptions } from './tables.ts'

/** What each kind of data is written from. */
export interface Exported {
  bookmarks: BookmarkNode[]
  history: VisitedPage[]
  passwords: ReadableRecord[]
  tabs: DeviceTabs[]
  everything: Everything
}

/** Writes data as text, or as parts of a text. */
export type Format<Data> = (data: Data, options?: FormatOptions) => string | Iterable<string>

export const exportFormats: { [What in keyof Exported]: Record<string, Format<Exported[What]>> } = {
  bookmarks: {
    html: bookmarksHtml,
    json: bookmarksJson,
    'firefox-json': bookmarksFirefoxJson,
    csv: bookmarksCsv,
    urls: bookmarkUrls,
    markdown: bookmarksMarkdown,
  },
  history: { csv: historyCsv, json: historyJson },
  passwords: { csv: passwordsCsv, json: passwordsJson },
  tabs: { json: tabsJson, csv: tabsCsv, urls: tabUrls, markdown: tabsMarkdown },
  everything: { json: everythingJson },
}
