/** What views are made of, and what drawing them needs. Types only. */
import type { BookmarkNode } from '../client/bookmarks.ts'
import type { SyncRecord } from '../client/collection.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import type { FieldForm } from './field-form.ts'

/** A row of a list. */
export interface Item {
  record: SyncRecord
  title: string
  subtitle: string
  /** Its folders, for lists that don't show them. */
  path?: string
  /** An http(s) URL, which becomes a link; null for anything else. */
  url: string | null
  /** The text to search, folded. */
  text: string
  /** Its time in ms since 1970, if the record has none. */
  atMs?: number
  /** Whether an earlier row has the same page. */
  isRepeated?: boolean
  /** The icon; by default, a letter. */
  icon?: string
  /** The text at the end of the row; a function, because "2 hours ago" changes. */
  meta?: () => string
  /** Of one of several that are the same: the edits that delete the others. */
  keep?: { collection: string; edits(): readonly (Edit | RecordEdit)[] }
  /** A password, hidden until the user reveals it. */
  secret?: string
}

/** What views need besides the records: what is open and selected, and who can change something. */
export interface DrawContext {
  tree: TreeState
  /** Null if nothing can be changed. */
  editor: RowEditor | null
  /** What is being changed now. */
  draft(): Draft | null
  /** Takes the tree that was drawn, for the controls around it. */
  onTree(tree: DrawnTree): void
}

/** Items with a common heading. */
export interface Group {
  /** A number is the start of a day, in ms since 1970. */
  title: string | number | null
  items: Item[]
  /** How to count and draw the complete group, when no search or filter applies. */
  whole?: { count: number; draw(context: DrawContext): HTMLElement }
  /** The device that these tabs belong to. */
  device?: { kind: 'phone' | 'tablet' | 'desktop'; about: string; seenMs: number; record: SyncRecord }
}

/** A bookmark or folder in the tree. */
export type BookmarkItem = BookmarkNode<Item>

/** Where items go: around a row, or to the end of a folder. */
export interface Target {
  node: BookmarkItem
  where: 'before' | 'after' | 'into'
}

/** What is open and selected in the tree of bookmarks; ids of records. */
export interface TreeState {
  open: Set<string>
  selected: Set<string>
  /** What was cut, and is moved when it is pasted. */
  cut: Set<string>
  /** Where a selected range begins. */
  anchor: string | null
  /** The row that has or had the focus, and its index. */
  current: string | null
  currentIndex: number
  /** Called when the selection has changed. */
  onSelect(): void
}

/** What a drawn tree offers to the controls around it. */
export interface DrawnTree {
  element: HTMLElement
  /** The selected items, or the focused one. */
  chosen(): BookmarkItem[]
  /** The row where a new item goes: the one that has or had the focus, or Other Bookmarks. */
  place(): BookmarkItem
  all(): BookmarkItem[]
  /** Focuses that item, or what has taken its place; false if no row was focused before. */
  focus(): boolean
}

/** What is being changed or added in a row. It is kept, with what was typed, until it was saved or given up. */
export interface Draft {
  /** Of the record whose row it is in. */
  collection: string
  id: string
  /** Whether it is a new item, which is added behind the row. */
  isNew: boolean
  form: FieldForm
}

/** What the tree and other views can do to records. */
export interface RowEditor {
  canEdit(collection: string): boolean
  /** Saves edits in the background; `what` says what was done. */
  save(collection: string, edits: readonly (Edit | RecordEdit)[], what: string): Promise<void>
  /** Moves items; false if they can't go there. */
  move(moved: BookmarkItem[], target: Target): boolean
  remove(removed: BookmarkItem[]): void
  /** Opens the form for the fields of a record in its row. */
  change(record: SyncRecord): void
  /** The selected items, or the row if it is not selected itself. */
  chosen(all: BookmarkItem[], row: BookmarkItem | null): BookmarkItem[]
}
