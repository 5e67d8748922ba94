/** The formats of exports: the one table of their names and functions. The first format of each kind of data is the default. */
import { bookmarkFormats } from './bookmark-formats.ts'
import {
  everythingFormats,
  historyFormats,
  passwordFormats,
  tabFormats,
  type DeviceTabs,
  type Everything,
} from './record-formats.ts'
import type { BookmarkNode } from './bookmarks.ts'
import type { ReadableRecord } from './collection.ts'
import type { VisitedPage } from './record-readers.ts'
import type { Format } from './tables.ts'

/** What each kind of data is written from. */
export interface Exported {
  bookmarks: BookmarkNode[]
  history: VisitedPage[]
  passwords: ReadableRecord[]
  tabs: DeviceTabs[]
  everything: Everything
}

export type ExportFormats = { [What in keyof Exported]: Record<string, Format<Exported[What]>> }

export const exportFormats = {
  bookmarks: bookmarkFormats,
  history: historyFormats,
  passwords: passwordFormats,
  tabs: tabFormats,
  everything: everythingFormats,
} satisfies ExportFormats
