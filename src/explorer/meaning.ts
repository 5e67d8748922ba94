import type { ClearRecord } from '../../docs/examples/sync-crypto.js'
import type { Entry } from './account.ts'

/** A record that can be read and is no deletion. */
export type Readable = Entry & { clear: ClearRecord }

export function readable(entries: Entry[]): Readable[] {
  return entries.filter((entry): entry is Readable => entry.clear !== null && entry.clear.deleted !== true)
}

/** What a row shows of a record. */
export interface Item {
  entry: Entry
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
  device?: { kind: 'phone' | 'tablet' | 'desktop'; about: string; seenMs: number; entry: Entry }
}

/** What a record says, which may be of any type. */
export type Fields = Record<string, unknown>

/** An address that may become a link: synced data may come from anybody. */
export function webAddress(value: unknown): string | null {
  return typeof value === 'string' && /^https?:\/\//i.test(value) ? value : null
}

export function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname.replace(/^www\./, '') : ''
}

/** What is no text becomes an empty one. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** What is no number, and no text of one, becomes NaN. Other values may not even be convertible. */
export function numberOf(value: unknown): number {
  return typeof value === 'object' ? NaN : Number(value)
}

/** What is no list becomes an empty one. */
export function listOf<T>(value: unknown): T[] {
  return Array.isArray(value) ? value : []
}

export function tagsOf({ tags }: Fields): string[] {
  return listOf(tags).filter((tag) => typeof tag === 'string')
}

/** A text as a search sees it: in lower case and without accents, so that "uber" finds "Über". */
export function fold(text: string): string {
  const lower = text.toLowerCase()
  // Most texts are plain, and to take these apart would cost more than all the rest.
  return /[\u0080-\uffff]/.test(lower) ? lower.normalize('NFKD').replaceAll(/\p{M}/gu, '') : lower
}

function isMoment(ms: number): boolean {
  return ms > 0 && ms < 8.64e15
}

export function byTitle(left: Item, right: Item): number {
  return left.title.localeCompare(right.title)
}

/** `more`: what a search finds it by, besides what it shows. */
export function itemOf(
  entry: Entry,
  title: string,
  subtitle: string,
  address: unknown = null,
  ...more: unknown[]
): Item {
  const url = webAddress(address)
  const text = fold([title, subtitle, address, ...more].map(textOf).join('\n'))
  return { entry, title: title || textOf(address) || entry.wire.id, subtitle, url, text }
}

/** Visits by day, the latest first: each page once for every day on which it was visited. */
export function historyByDay(entries: Readable[]): Group[] {
  const visits = entries.flatMap((entry) => {
    const { title, histUri } = entry.clear
    const item = itemOf(entry, textOf(title), hostOf(textOf(histUri)), histUri)
    const moments = visitTimes(entry.clear)
    const days = Map.groupBy(moments.length > 0 ? moments : [entry.wire.last_modified], startOfDay)
    return [...days].map(([day, times], index) => {
      return { day, atMs: times[0]!, item: { ...visitOf(item, times), isRepeated: index > 0 } }
    })
  })
  const latestFirst = visits.toSorted((left, right) => right.atMs - left.atMs)
  return [...Map.groupBy(latestFirst, ({ day }) => day)].map(([title, found]) => ({
    title,
    items: found.map(({ item }) => item),
  }))
}

function visitOf(page: Item, times: number[]): Item {
  const count = times.length > 1 ? `${times.length}×  ` : ''
  return { ...page, atMs: times[0]!, meta: () => count + timeForm.format(times[0]) }
}

/** When a page was visited, the latest first. */
export function visitTimes({ visits }: Fields): number[] {
  return listOf<Fields | null>(visits)
    .map((visit) => numberOf(visit?.date) / 1000)
    .filter(isMoment)
    .toSorted((left, right) => right - left)
}

function startOfDay(moment: number): number {
  return new Date(moment).setHours(0, 0, 0, 0)
}

/** Devices with their open tabs; one that was seen last comes first. */
export function devices(clients: Readable[], tabs: Readable[]): Group[] {
  const tabsOf = new Map(tabs.map((own) => [own.wire.id, own]))
  const known = new Set(clients.map(({ wire }) => wire.id))
  const strangers = tabs.filter(({ wire }) => !known.has(wire.id))
  return [...clients, ...strangers]
    .map((entry) => deviceOf(entry, tabsOf.get(entry.wire.id)))
    .toSorted((left, right) => right.device.seenMs - left.device.seenMs)
}

function deviceOf(entry: Readable, tabs: Readable | undefined) {
  const { formfactor, type, os, version, name, clientName } = entry.clear
  const form = `${textOf(formfactor)} ${textOf(type)}`
  const kind = form.includes('tablet') ? 'tablet' : /phone|mobile/.test(form) ? 'phone' : 'desktop'
  const about = [textOf(os), textOf(version) && `Firefox ${textOf(version)}`].filter(Boolean).join(' · ')
  const seenMs = Math.max(entry.wire.last_modified, tabs?.wire.last_modified ?? 0)
  return {
    title: textOf(name) || textOf(clientName) || entry.wire.id,
    items: listOf<Fields | null>(tabs?.clear.tabs).flatMap((tab) => tabOf(tabs!, tab)),
    device: { kind, about, seenMs, entry } as const,
  }
}

function tabOf(entry: Readable, tab: Fields | null): Item[] {
  const [address] = listOf(tab?.urlHistory)
  if (typeof address !== 'string') return []
  const usedMs = numberOf(tab?.lastUsed) * 1000
  const item = itemOf(entry, textOf(tab?.title), hostOf(address), address)
  return [{ ...item, atMs: usedMs, meta: () => (usedMs > 0 ? ago(usedMs) : '') }]
}

export function login(entry: Readable): Item {
  const { hostname, username, formSubmitURL, httpRealm } = entry.clear
  const site = textOf(hostname)
  const item = itemOf(entry, hostOf(site) || site, textOf(username), site, formSubmitURL, httpRealm)
  return { ...item, secret: textOf(entry.clear.password) }
}

/** What was typed into forms, by the name of the field. */
export function formEntries(entries: Readable[]): Group[] {
  return [...Map.groupBy(entries, ({ clear }) => textOf(clear.name) || '(no name)')]
    .map(([title, found]) => ({
      title,
      items: found.map((entry) => formEntry(title, entry)).toSorted(byTitle),
    }))
    .toSorted((left, right) => right.items.length - left.items.length)
}

function formEntry(field: string, entry: Readable): Item {
  return itemOf(entry, textOf(entry.clear.value), '', null, field)
}

/** The preferences of a record by name, each with its value as JSON. */
export function preferences(entry: Readable): Item[] {
  return Object.entries(asFields(entry.clear.value) ?? {}).map(([name, set]) => {
    const value = JSON.stringify(set)
    return { ...itemOf(entry, name, '', null, value), meta: () => value }
  })
}

/** A record of any other collection, named as well as can be. */
export function otherRecord(entry: Readable): Item {
  const inner = asFields(entry.clear.entry) ?? entry.clear
  const named = ['title', 'name', 'cc-name', 'addonID', 'extId', 'guid'].map((key) => textOf(inner[key]))
  return itemOf(entry, named.find(Boolean) ?? entry.wire.id, entry.wire.id, null, JSON.stringify(inner))
}

function asFields(value: unknown): Fields | null {
  return typeof value === 'object' ? (value as Fields | null) : null
}

/** A record that the key does not open. */
export function unreadableRecord(entry: Entry): Item {
  const item = itemOf(entry, entry.wire.id, entry.problem ?? '', null, entry.collection)
  return { ...item, icon: 'unreadable', meta: () => entry.collection }
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
  dateAdded: 'Added',
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
  const visits = visitTimes(clear).slice(0, mostVisits)
  return [
    ...[...texts, tags].filter(({ value }) => value !== ''),
    ...moments.filter(({ value }) => isMoment(value)),
    ...visits.map((value) => ({ name: 'Visited', value })),
  ]
}
