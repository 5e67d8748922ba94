import {
  addedMsOf,
  isMoment,
  numberOf,
  tabsOf,
  tagsOf,
  textOf,
  visitTimes,
  webAddress,
  type Fields,
  type Tab,
} from '../client/fields.ts'
import type { BookmarkNode } from '../client/bookmarks.ts'
import type { ReadableRecord, SyncRecord } from '../client/collection.ts'

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
  /** A password, hidden until the user reveals it. */
  secret?: string
}

/** Items with a common heading. */
export interface Group {
  /** A number is the start of a day, in ms since 1970. */
  title: string | number | null
  items: Item[]
  /** How to count and draw the complete group, when no search or filter applies. */
  whole?: { count: number; draw(): HTMLElement }
  /** The device that these tabs belong to. */
  device?: { kind: 'phone' | 'tablet' | 'desktop'; about: string; seenMs: number; record: SyncRecord }
}

export function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname.replace(/^www\./, '') : ''
}

/** Folds a text for searching: lower case without accents, so "uber" finds "Über". */
export function fold(text: string): string {
  const lower = text.toLowerCase()
  // Normalization is slow, and most texts are ASCII.
  return /[\u0080-\uffff]/.test(lower) ? lower.normalize('NFKD').replaceAll(/\p{M}/gu, '') : lower
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
  const text = fold([title, subtitle, address, ...more].map(textOf).join('\n'))
  return { record, title: title || textOf(address) || record.stored.id, subtitle, url, text }
}

/** A bookmark or folder in the tree. */
export type BookmarkItem = BookmarkNode<Item>

export function bookmarkItem(record: ReadableRecord, title: string): Item {
  const { type, bmkUri, keyword, description } = record.clear
  const tags = tagsOf(record.clear).map((tag) => `#${tag}`)
  const subtitle = [hostOf(textOf(bmkUri)), ...tags].filter(Boolean).join('  ')
  const item = itemOf(record, title, subtitle, textOf(bmkUri), keyword, description)
  return type === 'folder' ? { ...item, icon: type } : item
}

/** Visits by day, latest first. A page appears once on each day that it was visited. */
export function historyByDay(records: ReadableRecord[]): Group[] {
  const visits = records.flatMap((record) => {
    const { title, histUri } = record.clear
    const page = itemOf(record, textOf(title), hostOf(textOf(histUri)), histUri)
    const moments = visitTimes(record.clear)
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

function startOfDay(moment: number): number {
  return new Date(moment).setHours(0, 0, 0, 0)
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

function deviceOf(record: ReadableRecord, tabs: ReadableRecord | undefined) {
  const { formfactor, type, os, version, name, clientName } = record.clear
  const form = `${textOf(formfactor)} ${textOf(type)}`
  const kind = form.includes('tablet') ? 'tablet' : /phone|mobile/.test(form) ? 'phone' : 'desktop'
  const about = [textOf(os), textOf(version) && `Firefox ${textOf(version)}`].filter(Boolean).join(' · ')
  const seenMs = Math.max(record.stored.last_modified, tabs?.stored.last_modified ?? 0)
  return {
    title: textOf(name) || textOf(clientName) || record.stored.id,
    items: tabs ? tabsOf(tabs.clear).map((tab) => tabOf(tabs, tab)) : [],
    device: { kind, about, seenMs, record } as const,
  }
}

function tabOf(record: ReadableRecord, { title, url, lastUsedMs }: Tab): Item {
  const meta = () => (lastUsedMs > 0 ? ago(lastUsedMs) : '')
  return { ...itemOf(record, title, hostOf(url), url), atMs: lastUsedMs, meta }
}

export function login(record: ReadableRecord): Item {
  const { hostname, username, formSubmitURL, httpRealm } = record.clear
  const site = textOf(hostname)
  const item = itemOf(record, hostOf(site) || site, textOf(username), site, formSubmitURL, httpRealm)
  return { ...item, secret: textOf(record.clear.password) }
}

/** Form entries by the name of the field. */
export function formEntries(records: ReadableRecord[]): Group[] {
  return [...Map.groupBy(records, ({ clear }) => textOf(clear.name) || '(no name)')]
    .map(([title, found]) => ({
      title,
      items: found.map((record) => formEntry(title, record)).toSorted(byTitle),
    }))
    .toSorted((left, right) => right.items.length - left.items.length)
}

function formEntry(field: string, record: ReadableRecord): Item {
  return itemOf(record, textOf(record.clear.value), '', null, field)
}

/** The preferences in a record, each with its value as JSON. */
export function preferences(record: ReadableRecord): Item[] {
  return Object.entries(asFields(record.clear.value) ?? {}).map(([name, set]) => {
    const value = JSON.stringify(set)
    return { ...itemOf(record, name, '', null, value), meta: () => value }
  })
}

/** A record of any other collection, with the best title available. */
export function otherRecord(record: ReadableRecord): Item {
  const inner = asFields(record.clear.entry) ?? record.clear
  const named = ['title', 'name', 'cc-name', 'addonID', 'extId', 'guid'].map((key) => textOf(inner[key]))
  return itemOf(
    record,
    named.find(Boolean) ?? record.stored.id,
    record.stored.id,
    null,
    JSON.stringify(inner),
  )
}

function asFields(value: unknown): Fields | null {
  return typeof value === 'object' ? (value as Fields | null) : null
}

/** A record that can't be decrypted. */
export function unreadableRecord(record: SyncRecord): Item {
  const item = itemOf(record, record.stored.id, record.problem ?? '', null, record.collection)
  return { ...item, icon: 'unreadable', meta: () => record.collection }
}

const dayFormat = new Intl.DateTimeFormat(undefined, {
  weekday: 'long',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
})
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const agoFormat = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

/** A day: the weekday within the last week, otherwise the date. */
export function dayName(day: number): string {
  const days = Math.round((startOfDay(new Date().getTime()) - day) / 86_400_000)
  const name = dayFormat.format(day)
  if (days > 1 || days < 0) return name
  const word = agoFormat.format(-days, 'day')
  return `${word[0]!.toUpperCase()}${word.slice(1)} · ${name}`
}

export function ago(moment: number): string {
  const minutes = Math.round((moment - new Date().getTime()) / 60_000)
  if (minutes > -60) return agoFormat.format(Math.min(0, minutes), 'minute')
  if (minutes > -60 * 36) return agoFormat.format(Math.round(minutes / 60), 'hour')
  const days = Math.round(minutes / 1440)
  if (days > -60) return agoFormat.format(days, 'day')
  if (days > -730) return agoFormat.format(Math.round(days / 30.4), 'month')
  return agoFormat.format(Math.round(days / 365), 'year')
}

/** A field of a record for people; a number is a time in ms since 1970. */
export interface Fact {
  name: string
  value: string | number
}

// Readable names for the fields that Firefox writes.
const textNames = {
  bmkUri: 'Address',
  histUri: 'Address',
  hostname: 'Site',
  username: 'User name',
  parentName: 'Folder',
  keyword: 'Keyword',
  os: 'System',
  version: 'Firefox',
  name: 'Name',
  value: 'Value',
}
const momentNames = {
  timeCreated: 'Created',
  timeLastUsed: 'Last used',
  timePasswordChanged: 'Password changed',
}
const maxVisits = 8

/** The fields of a record with readable names, as far as they are known. */
export function factsOf(clear: Fields): Fact[] {
  const texts = Object.entries(textNames).map(([field, name]) => ({ name, value: textOf(clear[field]) }))
  const tags = { name: 'Tags', value: tagsOf(clear).join(', ') }
  const moments = Object.entries(momentNames).map(([field, name]) => ({
    name,
    value: numberOf(clear[field]),
  }))
  const added = { name: 'Added', value: addedMsOf(clear) }
  const visits = visitTimes(clear).slice(0, maxVisits)
  return [
    ...[...texts, tags].filter(({ value }) => value !== ''),
    ...[added, ...moments].filter(({ value }) => isMoment(value)),
    ...visits.map((value) => ({ name: 'Visited', value })),
  ]
}
