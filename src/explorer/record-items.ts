import { nameRecord } from '../client/engine-records.ts'
import {
  readBookmark,
  readDevice,
  readFormEntry,
  readLogin,
  readPreferences,
  readTabs,
  readVisitedPage,
  type Tab,
} from '../client/record-readers.ts'
import { textOf, type Fields } from '../client/fields.ts'
import { folded } from '../client/spelling.ts'
import type { ReadableRecord, SyncRecord } from '../client/collection.ts'
import { ago, startOfDay, timeFormat } from './dates.ts'
import type { Group, Item } from './items.ts'

/** An http(s) URL, or null: only these may become links. */
export function webAddress(value: unknown): string | null {
  return typeof value === 'string' && /^https?:\/\//i.test(value) ? value : null
}

export function hostOf(address: string): string {
  if (address === '') return ''
  try {
    return new URL(address).hostname.replace(/^www\./, '')
  } catch {
    return ''
  }
}

export function byTitle(left: Item, right: Item): number {
  return left.title.localeCompare(right.title)
}

/** `more`: additional text to search. */
export function itemOf(
  record: SyncRecord,
  title: string,
  subtitle: string,
  address: unknown = null,
  ...more: unknown[]
): Item {
  const url = webAddress(address)
  const text = folded([title, subtitle, address, ...more].map(textOf).join('\n'))
  return { record, title: title || textOf(address) || record.stored.id, subtitle, url, text }
}

// All items are made again after every change, which leaves most records as they are.
const bookmarkItems = new WeakMap<ReadableRecord, Item>()

export function bookmarkItem(record: ReadableRecord, title: string): Item {
  const known = bookmarkItems.get(record) ?? makeBookmarkItem(record, title)
  bookmarkItems.set(record, known)
  return known
}

function makeBookmarkItem(record: ReadableRecord, title: string): Item {
  const { kind, url, tags, keyword, description } = readBookmark(record.clear)
  const subtitle = [hostOf(url), ...tags.map((tag) => `#${tag}`)].filter(Boolean).join('  ')
  const item = itemOf(record, title, subtitle, url, keyword, description)
  return kind === 'folder' ? { ...item, icon: kind } : item
}

/** Visits by day, latest first. A page appears once on each day that it was visited. */
export function historyByDay(records: ReadableRecord[]): Group[] {
  const visits = records.flatMap((record) => {
    const { title, url, visits } = readVisitedPage(record.clear)
    const page = itemOf(record, title, hostOf(url), url)
    const moments = visits.map(({ atMs }) => atMs)
    const days = Map.groupBy(moments.length > 0 ? moments : [record.stored.last_modified], startOfDay)
    return [...days].map(([day, times], index) => ({ page, day, times, isRepeated: index > 0 }))
  })
  const latestFirst = visits.toSorted((left, right) => right.times[0]! - left.times[0]!)
  return [...Map.groupBy(latestFirst, ({ day }) => day)].map(([title, found]) => ({
    title,
    items: found.map(({ page, times, isRepeated }) => {
      const count = times.length > 1 ? `${times.length}×  ` : ''
      return { ...page, atMs: times[0]!, isRepeated, meta: () => count + timeFormat.format(times[0]) }
    }),
  }))
}

/** Devices with their open tabs, the last synced device first. */
export function devices(clients: ReadableRecord[], tabs: ReadableRecord[]): Group[] {
  const byDevice = new Map(tabs.map((own) => [own.stored.id, own]))
  const known = new Set(clients.map(({ stored }) => stored.id))
  const unknownDevices = tabs.filter(({ stored }) => !known.has(stored.id))
  return [...clients, ...unknownDevices]
    .map((record) => deviceOf(record, byDevice.get(record.stored.id)))
    .toSorted((left, right) => right.device.seenMs - left.device.seenMs)
}

function deviceOf(record: ReadableRecord, own: ReadableRecord | undefined) {
  const { name, kind, system, version } = readDevice(record.clear)
  const about = [system, version && `Firefox ${version}`].filter(Boolean).join(' · ')
  const seenMs = Math.max(record.stored.last_modified, own?.stored.last_modified ?? 0)
  const { device, tabs } = readTabs(own?.clear ?? {})
  return {
    title: name || device || record.stored.id,
    items: own ? tabs.map((tab) => tabOf(own, tab)) : [],
    device: { kind, about, seenMs, record },
  }
}

function tabOf(record: ReadableRecord, { title, url, lastUsedMs }: Tab): Item {
  const meta = () => (lastUsedMs > 0 ? ago(lastUsedMs) : '')
  return { ...itemOf(record, title, hostOf(url), url), atMs: lastUsedMs, meta }
}

export function login(record: ReadableRecord): Item {
  const { site, userName, formSite, realm, password } = readLogin(record.clear)
  return { ...itemOf(record, hostOf(site) || site, userName, site, formSite, realm), secret: password }
}

/** Form entries by the name of the field. */
export function formEntries(records: ReadableRecord[]): Group[] {
  return [...Map.groupBy(records, ({ clear }) => readFormEntry(clear).field || '(no name)')]
    .map(([title, found]) => ({
      title,
      items: found.map((record) => formEntry(title, record)).toSorted(byTitle),
    }))
    .toSorted((left, right) => right.items.length - left.items.length)
}

function formEntry(field: string, record: ReadableRecord): Item {
  return itemOf(record, readFormEntry(record.clear).value, '', null, field)
}

/** The preferences in a record, each with its value as JSON. */
export function preferences(record: ReadableRecord): Item[] {
  return readPreferences(record.clear).map(([name, set]) => {
    const value = JSON.stringify(set)
    return { ...itemOf(record, name, '', null, value), meta: () => value }
  })
}

/** A record of any other collection. */
export function otherRecord(record: ReadableRecord): Item {
  const { collection, stored, clear } = record
  return itemOf(record, nameRecord(collection, clear), stored.id, null, JSON.stringify(clear))
}

/** A record that can't be decrypted. */
export function unreadableRecord(record: SyncRecord): Item {
  const item = itemOf(record, record.stored.id, record.problem ?? '', null, record.collection)
  return { ...item, icon: 'unreadable', meta: () => record.collection }
}

/** A field of a record for people; a number is a time in ms since 1970. */
export interface Fact {
  name: string
  value: string | number
}

const maxVisits = 8

/** The fields of a record with readable names, as far as they are known. */
export function factsOf(clear: Fields): Fact[] {
  const { url, keyword, tags, addedMs } = readBookmark(clear)
  const page = readVisitedPage(clear)
  const login = readLogin(clear)
  const device = readDevice(clear)
  const facts: Fact[] = [
    { name: 'Address', value: url || page.url },
    { name: 'Site', value: login.site },
    { name: 'User name', value: login.userName },
    { name: 'Folder', value: textOf(clear.parentName) },
    { name: 'Keyword', value: keyword },
    { name: 'System', value: device.system },
    { name: 'Firefox', value: device.version },
    { name: 'Name', value: device.name },
    { name: 'Value', value: readFormEntry(clear).value },
    { name: 'Tags', value: tags.join(', ') },
    { name: 'Added', value: addedMs },
    { name: 'Created', value: login.createdMs },
    { name: 'Last used', value: login.lastUsedMs },
    { name: 'Password changed', value: login.passwordChangedMs },
    ...page.visits.slice(0, maxVisits).map(({ atMs }) => ({ name: 'Visited', value: atMs })),
  ]
  return facts.filter(({ value }) => value !== '' && value !== 0)
}
