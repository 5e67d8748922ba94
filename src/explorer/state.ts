import type { Credentials } from './opened-account.ts'
import type { Contents } from './contents.ts'
import type { Editing } from './editing.ts'
import { LoadedRecords } from './loaded-records.ts'
import type { SyncRecord } from '../client/collection.ts'
import type { Draft, DrawnTree, TreeState } from './items.ts'
import type { RowPlace } from './long-list.ts'

/** What the page knows and shows. `main.ts` makes the only one; what is drawn is a function of it. */
export interface State {
  /** The records on display. */
  loaded: LoadedRecords
  /** Null if not connected. */
  editing: Editing | null
  /** The contents of `loaded`; null before the first. */
  contents: Contents | null
  /** Whether records have changed since `contents`. */
  isOutdated: boolean
  /** The id of the view on display. */
  chosen: string
  /** The credentials of the current connection; null if not connected. */
  credentials: Credentials | null
  /** Counts connections, so that late responses of an earlier one are ignored. */
  connection: number
  /** What the content on display was drawn from; it is drawn again when one of these differs. */
  drawnFrom: readonly unknown[]
  /** What the last edit could not change, and why. */
  troubles: readonly string[]
  /** What is being changed or added; null if nothing is. */
  draft: Draft | null
  /** The record that the dialog shows, and whether with controls that change it; null if it is closed. */
  record: { record: SyncRecord; canEdit: boolean } | null
  /** The row that has or had the focus, if that was the last thing in the content that had it. */
  row: RowPlace | null
  tree: TreeState
  /** The tree on display; null if none is. */
  drawnTree: DrawnTree | null
}

/** The state of a page that is not connected. */
export function initialState(): State {
  const never = () => Promise.reject(new Error('not connected'))
  const nothing = {
    collections: [],
    writable: new Set<string>(),
    read: async () => {},
    edit: never,
    undo: never,
  }
  return {
    loaded: new LoadedRecords(nothing),
    editing: null,
    contents: null,
    isOutdated: false,
    chosen: '',
    credentials: null,
    connection: 0,
    drawnFrom: [],
    troubles: [],
    draft: null,
    record: null,
    row: null,
    drawnTree: null,
    tree: {
      // At first only the first folder, so that there is something to see.
      open: new Set(['toolbar']),
      selected: new Set(),
      cut: new Set(),
      anchor: null,
      current: null,
      currentIndex: 0,
      onSelect() {},
    },
  }
}

/** Whether the content has to be drawn again, because something that it is drawn from differs; notes what it is drawn from now. */
export function isOutdated(state: State, drawnFrom: readonly unknown[]): boolean {
  const before = state.drawnFrom
  state.drawnFrom = drawnFrom
  return before.length !== drawnFrom.length || drawnFrom.some((value, index) => value !== before[index])
}
