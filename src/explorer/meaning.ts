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

/** What a row shows of a record. */
export interface Item {
  record: SyncRecord
  title: string
  subtitle: string
  /** The folders that it is in, for lists that don't show those. */
  path?: string
  /** An address of the web, or null: only those become links. */
  url: string | null
  /** What a search looks through, folded. */
  text: string
  /** When it was used, in ms since 1970, where its record does not tell. */
  atMs?: number
  /** An earlier visit to a page that is in the list already. */
  isRepeated?: boolean
  /** What stands before it instead of a letter. */
  icon?: string
  /** What the row ends with, which may depend on the time of day. */
  meta?: () => string
  /** A password, which is hidden until somebody asks for it. */
  secret?: string
}

/** Items that belong together. */
export interface Group {
  /** A number is a day: the moment it begins. */
  title: string | number | null
  items: Item[]
  /** How all of it is counted and drawn, while no search has cut it. */
  whole?: { count: number; draw(): HTMLElement }
  /** The device that the items are tabs of. */
  device?: { kind: 'phone' | 'tablet' | 'desktop'; about: string; seenMs: number; record: SyncRecord }
}

export function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname.replace(/^www\./, '') : ''
}

/** A text as a search sees it: in lower case and without accents, so that "uber" finds "Über". */
export function fold(text: string): string {
  const lower = text.toLowerCase()
  // Most texts are plain, and to take these apart would cost more than all the rest.
  return /[\u0080-\uffff]/.test(lower) ? lower.normalize('NFKD').replaceAll(/\p{M}/gu, '') : lower
}

export function byTitle(left: Item, right: Item): number {
  return left.title.localeCompare(right.title)
}

/** `more`: what a search finds it by, besides what it shows. */
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

/** A bookmark or a folder of a tree, as a row shows it. */
export type BookmarkItem = BookmarkNode<Item>

export function bookmarkItem(record: ReadableRecord, title: string): Item {
  const { type, bmkUri, keyword, description } = record.clear
  const tags = tagsOf(record.clear).map((tag) => `#${tag}`)
  const subtitle = [hostOf(textOf(bmkUri)), ...tags].filter(Boolean).join('  ')
  const item = itemOf(record, title, subtitle, textOf(bmkUri), keyword, description)
  return type === 'folder' ? { ...item, icon: type } : item
}

/** Visits by day, the latest first: each page once for every day on which it was visited. */
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
      return { ...page, atMs: times[0]!, isRepeated, meta: () => count + timeForm.format(times[0]) }
    }),
  }))
}

function startOfDay(moment: number): number {
  return new Date(moment).setHours(0, 0, 0, 0)
}

/** Devices with their open tabs; one that was seen last comes first. */
export function devices(clients: ReadableRecord[], tabs: ReadableRecord[]): Group[] {
  const byDevice = new Map(tabs.map((own) => [own.stored.id, own]))
  const known = new Set(clients.map(({ stored }) => stored.id))
  const strangers = tabs.filter(({ stored }) => !known.has(stored.id))
  return [...clients, ...strangers]
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

/** What was typed into forms, by the name of the field. */
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

/** The preferences of a record by name, each with its value as JSON. */
export function preferences(record: ReadableRecord): Item[] {
  return Object.entries(asFields(record.clear.value) ?? {}).map(([name, set]) => {
    const value = JSON.stringify(set)
    return { ...itemOf(record, name, '', null, value), meta: () => value }
  })
}

/** A record of any other collection, named as well as can be. */
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

/** A record that the key does not open. */
export function unreadableRecord(record: SyncRecord): Item {
  const item = itemOf(record, record.stored.id, record.problem ?? '', null, record.collection)
  return { ...item, icon: 'unreadable', meta: () => record.collection }
}

const dayForm = new Intl.DateTimeFormat(undefined, {
  weekday: 'long',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
})
const timeForm = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const agoForm = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

/** A day in words: the weekday for the last week, the date for all. */
export function dayName(day: number): string {
  const days = Math.round((startOfDay(new Date().getTime()) - day) / 86_400_000)
  const name = dayForm.format(day)
  if (days > 1 || days < 0) return name
  const word = agoForm.format(-days, 'day')
  return `${word[0]!.toUpperCase()}${word.slice(1)} · ${name}`
}

export function ago(moment: number): string {
  const minutes = Math.round((moment - new Date().getTime()) / 60_000)
  if (minutes > -60) return agoForm.format(Math.min(0, minutes), 'minute')
  if (minutes > -60 * 36) return agoForm.format(Math.round(minutes / 60), 'hour')
  const days = Math.round(minutes / 1440)
  if (days > -60) return agoForm.format(days, 'day')
  if (days > -730) return agoForm.format(Math.round(days / 30.4), 'month')
  return agoForm.format(Math.round(days / 365), 'year')
}

/** Something that a record says, in words; a number is a moment, in ms since 1970. */
export interface Fact {
  name: string
  value: string | number
}

// How people call the fields that Firefox writes.
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
const mostVisits = 8

/** What a record says, as people would say it, as far as that is known. */
export function factsOf(clear: Fields): Fact[] {
  const texts = Object.entries(textNames).map(([field, name]) => ({ name, value: textOf(clear[field]) }))
  const tags = { name: 'Tags', value: tagsOf(clear).join(', ') }
  const moments = Object.entries(momentNames).map(([field, name]) => ({
    name,
    value: numberOf(clear[field]),
  }))
  const added = { name: 'Added', value: addedMsOf(clear) }
  const visits = visitTimes(clear).slice(0, mostVisits)
  return [
    ...[...texts, tags].filter(({ value }) => value !== ''),
    ...[added, ...moments].filter(({ value }) => isMoment(value)),
    ...visits.map((value) => ({ name: 'Visited', value })),
  ]
}
