import { bookmarkTree, walk } from '../client/bookmarks.ts'
import type { ReadableRecord, SyncRecord } from '../client/collection.ts'
import { folded } from '../client/spelling.ts'
import { icon, make } from './elements.ts'
import { ago } from './dates.ts'
import {
  bookmarkItem,
  byTitle,
  devices,
  formEntries,
  historyByDay,
  login,
  otherRecord,
  preferences,
  unreadableRecord,
} from './record-items.ts'
import type { BookmarkItem, DrawContext, Group, Item } from './items.ts'
import { drawDuplicates, duplicates } from './duplicates.ts'
import { drawList, recordAddress } from './rows.ts'
import { drawTree } from './tree.ts'

/** The id of the view for a collection, or of the view with that id. */
export function viewIdOf(name: string): string {
  return views.find(({ id, collections }) => id === name || collections.includes(name))?.id ?? name
}

/** A kind of data: its name, its collections, and how it is shown. */
export interface View {
  id: string
  title: string
  /** @default the id */
  icon?: string
  collections: string[]
  empty: string
  /** All items, from the readable records of each collection. */
  groups(...records: ReadableRecord[][]): Group[]
  /** The number of items, in total or found by a search. @default all items of the groups */
  count?(groups: Group[]): number
  /** Whether sorting merges the groups into one list without duplicates. @default false */
  isSortedFlat?: boolean
  /** @default a list of rows */
  draw?(groups: Group[], context: DrawContext): HTMLElement
}

/** The views in the order of the navigation. Every other collection gets its own view. */
export const views: View[] = [
  {
    id: 'bookmarks',
    title: 'Bookmarks',
    collections: ['bookmarks'],
    empty: 'There are no bookmarks.',
    groups(records) {
      const tops = bookmarkTree(records, bookmarkItem)
      const count = tops.reduce((sum, top) => sum + (top.kind === 'bookmark' ? 1 : top.count), 0)
      const items = findableByFolder(walk(tops).filter(({ kind }) => kind !== 'separator'))
      const draw = (context: DrawContext) => {
        const drawn = drawTree(tops, context)
        context.onTree(drawn)
        return drawn.element
      }
      return [{ title: null, items, whole: { count, draw } }]
    },
    // A search also finds folders, which don't count as bookmarks.
    count: (groups) =>
      groups[0]?.whole?.count ??
      groups.flatMap(({ items }) => items.filter(({ icon }) => icon !== 'folder')).length,
    isSortedFlat: true,
    draw: (groups, context) =>
      groups[0]!.whole?.draw(context) ?? drawList('Bookmarks found', groups, context),
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
    draw: (groups, context) => drawList('Form entries', groups, context, () => null),
  },
  {
    id: 'prefs',
    title: 'Preferences',
    collections: ['prefs'],
    empty: 'There are no preferences.',
    groups: (records) => together(records.flatMap(preferences).toSorted(byTitle)),
    draw: (groups, context) => drawList('Preferences', groups, context, () => null, 'row code'),
  },
  {
    id: 'duplicates',
    title: 'Duplicates',
    collections: ['bookmarks', 'passwords'],
    empty: 'No address is bookmarked twice, and no login is saved twice.',
    groups: duplicates,
    count: (groups) => groups.length,
    draw: (groups, { editor }) => drawDuplicates(groups, editor),
  },
]

/** The view of any other collection. */
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

/** The view of all records that can't be decrypted. */
export function unreadableView(records: SyncRecord[]): View {
  const note =
    'Most accounts have some records that this key can’t decrypt: encrypted with an old key, or by a program that is ' +
    'not Firefox. Firefox skips them, and so does this page. “Everything as JSON” lists them.'
  return {
    id: 'unreadable',
    title: 'Unreadable',
    collections: [],
    empty: 'Everything can be read.',
    groups: () => together(records.map(unreadableRecord)),
    draw: (groups, context) =>
      make('div', {}, make('p', { class: 'note' }, note), drawList('Unreadable records', groups, context)),
  }
}

/** Bookmarks are also found by the name of their folder, except for the root folders, which contain everything. */
function findableByFolder(nodes: BookmarkItem[]): Item[] {
  const folders = new Map(
    nodes.filter(({ kind }) => kind === 'folder').map((node) => [node, folded(node.title)]),
  )
  return nodes.map((node) => {
    const { parent, text } = node
    return parent?.parent ? { ...node, text: `${text}\n${folders.get(parent)}` } : node
  })
}

function together(items: Item[]): Group[] {
  return [{ title: null, items }]
}

/** The number of items that the navigation shows. */
export function countOf({ count }: View, groups: Group[]): number {
  return count ? count(groups) : groups.reduce((sum, { items }) => sum + items.length, 0)
}

/** Draws groups; there is at least one. */
export function drawView({ title, draw }: View, groups: Group[], context: DrawContext): HTMLElement {
  return draw ? draw(groups, context) : drawList(title, groups, context)
}

function drawDevices(groups: Group[], context: DrawContext): HTMLElement {
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
    return make(
      'article',
      { class: 'card device' },
      head,
      drawList(`Tabs of ${title}`, together(items), context),
    )
  })
  return make('div', { class: 'devices' }, ...cards)
}
