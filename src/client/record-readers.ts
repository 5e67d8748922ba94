/**
 * Reads the records of Firefox, whose fields `record-fields.ts` lists for those who write. Readers take any record and never throw: a field of
 * another type counts as absent, and `faultOf` names it.
 */
import { fieldsOf, listOf, numberOf, textOf, textsOf, type Fields } from './fields.ts'

/** A record of `bookmarks`. */
export interface Bookmark {
  /** A live bookmark (a feed, which Firefox dropped in version 64) and a saved search count as bookmarks. */
  kind: 'folder' | 'bookmark' | 'separator'
  title: string
  /** Empty for folders and separators. Of a live bookmark, the URL of its feed. */
  url: string
  /** The site of a live bookmark. */
  siteUrl: string
  tags: string[]
  keyword: string
  description: string
  parentId: string
  /** The ids of a folder's contents, in order. */
  childIds: string[]
  /** In ms since 1970; 0 if unknown. */
  addedMs: number
}

export function readBookmark(clear: Fields): Bookmark {
  const { type } = clear
  return {
    kind: type === 'folder' || type === 'separator' ? type : 'bookmark',
    title: textOf(clear.title),
    url: textOf(type === 'livemark' ? clear.feedUri : clear.bmkUri),
    siteUrl: textOf(clear.siteUri),
    tags: textsOf(clear.tags),
    keyword: textOf(clear.keyword),
    description: textOf(clear.description),
    parentId: textOf(clear.parentid),
    childIds: textsOf(clear.children),
    addedMs: readAddedMs(numberOf(clear.dateAdded)),
  }
}

/** The year 5138; larger numbers can't be ms. Some programs write microseconds, like Firefox's database. */
const largestMs = 100_000_000_000_000

function readAddedMs(added: number): number {
  return readTimeMs(added > largestMs ? added / 1000 : added)
}

/** The end of the year 9999: later times are mistakes, and have no common form. */
const latestMs = 253_402_300_799_999

/** A time in ms since 1970; 0 if it is none. */
function readTimeMs(ms: number): number {
  return ms > 0 && ms <= latestMs ? ms : 0
}

/** A record of `history`. */
export interface VisitedPage {
  url: string
  title: string
  /** Latest first. */
  visits: Visit[]
}

export interface Visit {
  /** In ms since 1970. */
  atMs: number
  /** How the user came to the page, such as `link` or `typed`; empty if unknown. */
  kind: string
}

/** The kinds of visits, by Firefox's number. */
const visitKinds: (string | undefined)[] = [
  undefined,
  'link',
  'typed',
  'bookmark',
  'embedded',
  'permanent redirect',
  'temporary redirect',
  'download',
  'framed link',
  'reload',
]

export function readVisitedPage(clear: Fields): VisitedPage {
  const visits = listOf(clear.visits)
    .map(fieldsOf)
    .map(({ date, type }) => ({
      atMs: readTimeMs(numberOf(date) / 1000),
      kind: visitKinds[numberOf(type)] ?? '',
    }))
    .filter(({ atMs }) => atMs > 0)
    .toSorted((left, right) => right.atMs - left.atMs)
  return { url: textOf(clear.histUri), title: textOf(clear.title), visits }
}

/** A record of `passwords`. */
export interface Login {
  site: string
  /** Where the form sends the password; empty for a login that is not in a form. */
  formSite: string
  /** What a server calls the area that it protects; empty for a login in a form. */
  realm: string
  userName: string
  password: string
  /** In ms since 1970; 0 if unknown, as are the following. */
  createdMs: number
  lastUsedMs: number
  passwordChangedMs: number
}

export function readLogin(clear: Fields): Login {
  return {
    site: textOf(clear.hostname),
    formSite: textOf(clear.formSubmitURL),
    realm: textOf(clear.httpRealm),
    userName: textOf(clear.username),
    password: textOf(clear.password),
    createdMs: readTimeMs(numberOf(clear.timeCreated)),
    lastUsedMs: readTimeMs(numberOf(clear.timeLastUsed)),
    passwordChangedMs: readTimeMs(numberOf(clear.timePasswordChanged)),
  }
}

/** A record of `forms`: what was typed into a field. */
export function readFormEntry(clear: Fields): { field: string; value: string } {
  return { field: textOf(clear.name), value: textOf(clear.value) }
}

/** An open tab. */
export interface Tab {
  title: string
  url: string
  /** In ms since 1970; 0 if unknown. */
  lastUsedMs: number
}

/** A record of `tabs`, without tabs that have no URL. */
export function readTabs(clear: Fields): { device: string; tabs: Tab[] } {
  const tabs = listOf(clear.tabs)
    .map(fieldsOf)
    .map(({ title, urlHistory, lastUsed }) => {
      return {
        title: textOf(title),
        url: textOf(listOf(urlHistory)[0]),
        lastUsedMs: readTimeMs(numberOf(lastUsed) * 1000),
      }
    })
    .filter(({ url }) => url !== '')
  return { device: textOf(clear.clientName), tabs }
}

/** A record of `clients`. */
export interface Device {
  name: string
  kind: 'phone' | 'tablet' | 'desktop'
  system: string
  /** Of Firefox. */
  version: string
}

export function readDevice(clear: Fields): Device {
  const form = `${textOf(clear.formfactor)} ${textOf(clear.type)}`
  return {
    name: textOf(clear.name),
    kind: form.includes('tablet') ? 'tablet' : /phone|mobile/.test(form) ? 'phone' : 'desktop',
    system: textOf(clear.os),
    version: textOf(clear.version),
  }
}

/** A record of `addresses` or `creditcards`, whose fields are one level below. */
export function readEntry(clear: Fields): Fields {
  return fieldsOf(clear.entry)
}

/** A record of `prefs`: names and values. */
export function readPreferences(clear: Fields): [name: string, value: unknown][] {
  return Object.entries(fieldsOf(clear.value))
}

/** A record of `extension-storage`; `data` is JSON. */
export function readExtensionData(clear: Fields): { extensionId: string; data: string } {
  return { extensionId: textOf(clear.extId), data: textOf(clear.data) }
}
