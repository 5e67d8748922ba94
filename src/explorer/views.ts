import { bookmarkTree, walk } from '../client/bookmarks.ts'
import type { ReadableRecord, SyncRecord } from '../client/collection.ts'
import { icon, make } from './elements.ts'
import {
  ago,
  bookmarkItem,
  byTitle,
  devices,
  fold,
  formEntries,
  historyByDay,
  login,
  otherRecord,
  preferences,
  unreadableRecord,
  type BookmarkItem,
  type Group,
  type Item,
} from './meaning.ts'
import { drawList, recordAddress } from './rows.ts'
import { drawTree } from './tree.ts'

/** The view that shows a collection, or that is called so. */
export function viewIdOf(name: string): string {
  return views.find(({ id, collections }) => id === name || collections.includes(name))?.id ?? name
}

/** A kind of data: how it is called, what it is made of, and how it is shown. */
export interface View {
  id: string
  title: string
  /** @default the id */
  icon?: string
  collections: string[]
  empty: string
  /** All that there is to show, out of the readable records of each collection. */
  groups(...records: ReadableRecord[][]): Group[]
  /** How many things there are: of one kind, also of what a search has found. @default the number of items */
  count?(groups: Group[]): number
  /** Sorted by something it is one list, with each record once. @default false: its groups stay */
  isSortedFlat?: boolean
  /** @default a list of rows, each with a letter for its site */
  draw?(groups: Group[]): HTMLElement
}

/** The views in the order of the navigation. Any other collection gets one of its own. */
export const views: View[] = [
  {
    id: 'bookmarks',
    title: 'Bookmarks',
    collections: ['bookmarks'],
    empty: 'There are no bookmarks.',
    groups(records) {
      const tops = bookmarkTree(records, bookmarkItem)
      const count = tops.reduce((sum, top) => sum + (top.kind === 'bookmark' ? 1 : top.count), 0)
      const items = walk(tops)
        .filter(({ kind }) => kind !== 'separator')
        .map(findableByFolder)
      return [{ title: null, items, whole: { count, draw: () => drawTree(tops) } }]
    },
    // Folders are found, too, but no bookmarks.
    count: (groups) =>
      groups[0]?.whole?.count ??
      groups.flatMap(({ items }) => items.filter(({ icon }) => icon !== 'folder')).length,
    isSortedFlat: true,
    draw: (groups) => groups[0]!.whole?.draw() ?? drawList('Bookmarks found', groups),
  },
  {
    id: 'devices',
    title: 'Devices & tabs',
    collections: ['clients', 'tabs'],
    empty: 'No device has synced yet.',
    groups: devices,
    count: (groups) => groups.length,
    draw: drawDevices,
  },
  {
    id: 'history',
    title: 'History',
    collections: ['history'],
    empty: 'There is no history.',
    groups: historyByDay,
    isSortedFlat: true,
  },
  {
    id: 'passwords',
    title: 'Passwords',
    collections: ['passwords'],
    empty: 'There are no passwords.',
    groups: (records) => together(records.map(login).toSorted(byTitle)),
  },
  {
    id: 'forms',
    title: 'Form entries',
    collections: ['forms'],
    empty: 'There are no form entries.',
    groups: formEntries,
    draw: (groups) => drawList('Form entries', groups, () => null),
  },
  {
    id: 'prefs',
    title: 'Preferences',
    collections: ['prefs'],
    empty: 'There are no preferences.',
    groups: (records) => together(records.flatMap(preferences).toSorted(byTitle)),
    draw: (groups) => drawList('Preferences', groups, () => null, 'row code'),
  },
]

/** The view of a collection that has none of its own. */
export function otherView(collection: string): View {
  return {
    id: collection,
    title: collection[0]!.toUpperCase() + collection.slice(1),
    icon: 'other',
    collections: [collection],
    empty: 'There is nothing in this collection.',
    groups: (records) => together(records.map(otherRecord)),
  }
}

/** What could not be read, over all collections. */
export function unreadableView(records: SyncRecord[]): View {
  const note =
    'Records that this key does not open exist in most accounts: what an old key encrypted, or a program that is ' +
    'not Firefox. Firefox skips them, and so does this page. “Everything as JSON” names them.'
  return {
    id: 'unreadable',
    title: 'Unreadable',
    collections: [],
    empty: 'Everything can be read.',
    groups: () => together(records.map(unreadableRecord)),
    draw: (groups) =>
      make('div', {}, make('p', { class: 'note' }, note), drawList('Unreadable records', groups)),
  }
}

/** Bookmarks are found by the name of their folder, too; not by that of the four at the top, which have them all. */
function findableByFolder(node: BookmarkItem): Item {
  const { parent, text } = node
  return parent?.parent ? { ...node, text: `${text}\n${fold(parent.title)}` } : node
}

function together(items: Item[]): Group[] {
  return [{ title: null, items }]
}

/** The number of what groups hold, as the navigation shows it. */
export function countOf({ count }: View, groups: Group[]): number {
  return count ? count(groups) : groups.reduce((sum, { items }) => sum + items.length, 0)
}

/** Draws groups that are not empty. */
export function drawView({ title, draw }: View, groups: Group[]): HTMLElement {
  return draw ? draw(groups) : drawList(title, groups)
}

function drawDevices(groups: Group[]): HTMLElement {
  const cards = groups.map(({ title, items, device }) => {
    const { kind, about, seenMs, record } = device!
    const open = `${items.length} ${items.length === 1 ? 'tab' : 'tabs'}`
    const state = [about, open, `synced ${ago(seenMs)}`].filter(Boolean).join(' · ')
    const head = make(
      'header',
      {},
      make('span', { class: 'device-icon' }, icon(kind)),
      make('div', {}, make('h2', { dir: 'auto' }, `${title}`), make('p', {}, state)),
      make('a', { class: 'quiet', href: recordAddress(record) }, 'Record'),
    )
    return make('article', { class: 'card device' }, head, drawList(`Tabs of ${title}`, together(items)))
  })
  return make('div', { class: 'devices' }, ...cards)
}
