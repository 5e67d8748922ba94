/**
 * Reads what Firefox's engines write into their collections, whose fields `record-fields.ts` lists for those who write. Readers take any record
 * and never throw: a field of another type counts as absent, and `faultOf` names it.
 */
import { fieldsOf, isFields, listOf, readTimeMs, numberOf, textOf, textsOf, type Fields } from './fields.ts'

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
const latestMs = 100_000_000_000_000

function readAddedMs(added: number): number {
  return readTimeMs(added > latestMs ? added / 1000 : added)
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

/** What an engine writes. */
interface Engine {
  /** The types of its fields. Null and a missing field are allowed, and so are other fields. */
  fields: Record<string, keyof typeof types>
  /** The fields without which a record means nothing. */
  required?(clear: Fields): string[]
  /** The fields that may name a record: the first that has a text does. Without any, its line does. */
  names: string[]
  /** The field that holds the fields of its names. @default the record itself */
  namesIn?: string
  /** More than its name, in one line; never a secret. @default the name */
  line?(clear: Fields): string
}

const types = {
  text: { is: (value: unknown) => typeof value === 'string', called: 'text' },
  number: { is: (value: unknown) => !Number.isNaN(numberOf(value)), called: 'a number' },
  texts: { is: (value: unknown) => Array.isArray(value) && value.every(isText), called: 'a list of texts' },
  ids: { is: (value: unknown) => Array.isArray(value) && value.every(isText), called: 'a list of ids' },
  records: {
    is: (value: unknown) => Array.isArray(value) && value.every(isFields),
    called: 'a list of records',
  },
  record: { is: isFields, called: 'a record' },
}

function isText(value: unknown): boolean {
  return typeof value === 'string'
}

const entry: Engine = { fields: { entry: 'record' }, names: ['name', 'cc-name', 'title'], namesIn: 'entry' }

/**
 * One description for each engine; a collection that is not listed may have any record. `make pages` writes the fields and names for the Python
 * package; `line` and `required` are also in its `engines.py`.
 */
export const engines: Record<string, Engine> = {
  bookmarks: {
    fields: {
      type: 'text',
      title: 'text',
      bmkUri: 'text',
      feedUri: 'text',
      siteUri: 'text',
      tags: 'texts',
      keyword: 'text',
      description: 'text',
      parentid: 'text',
      parentName: 'text',
      children: 'ids',
      dateAdded: 'number',
    },
    required: ({ type }) =>
      type === 'folder' || type === 'separator' ? [] : [type === 'livemark' ? 'feedUri' : 'bmkUri'],
    names: ['title'],
    line(clear) {
      const { kind, title, url, tags } = readBookmark(clear)
      if (kind === 'separator') return '----'
      return kind === 'folder' ? `${title}/` : joined(title, `<${url}>`, ...tags.map((tag) => `#${tag}`))
    },
  },
  history: {
    fields: { histUri: 'text', title: 'text', visits: 'records' },
    required: () => ['histUri'],
    names: ['title'],
    line: ({ title, histUri }) => joined(textOf(title), `<${textOf(histUri)}>`),
  },
  passwords: {
    fields: {
      hostname: 'text',
      formSubmitURL: 'text',
      httpRealm: 'text',
      username: 'text',
      password: 'text',
      usernameField: 'text',
      passwordField: 'text',
      timeCreated: 'number',
      timeLastUsed: 'number',
      timePasswordChanged: 'number',
    },
    required: () => ['hostname', 'password'],
    names: ['hostname'],
    line: ({ hostname, username }) => joined(textOf(hostname), textOf(username)),
  },
  forms: {
    fields: { name: 'text', value: 'text' },
    required: () => ['name'],
    names: ['name'],
    line: ({ name, value }) => `${textOf(name)}: ${textOf(value)}`,
  },
  tabs: {
    fields: { clientName: 'text', tabs: 'records' },
    names: ['clientName'],
    line(clear) {
      const { device, tabs } = readTabs(clear)
      return `${device}: ${tabs.length} tabs`
    },
  },
  clients: {
    fields: { name: 'text', type: 'text', formfactor: 'text', os: 'text', version: 'text' },
    names: ['name'],
  },
  addresses: entry,
  creditcards: entry,
  prefs: {
    fields: { value: 'record' },
    names: [],
    line: (clear) => `${readPreferences(clear).length} preferences`,
  },
  'extension-storage': {
    fields: { extId: 'text', data: 'text' },
    names: ['extId'],
  },
  addons: {
    fields: { addonID: 'text' },
    names: ['addonID'],
  },
}

export const otherEngine: Engine = { fields: {}, names: ['title', 'name', 'guid'] }

function joined(...parts: string[]): string {
  return parts.filter((part) => part !== '').join(' ')
}

function nameIn(clear: Fields, { names, namesIn, line }: Engine): string {
  if (names.length === 0) return line?.(clear) ?? ''
  const fields = namesIn === undefined ? clear : fieldsOf(clear[namesIn])
  return names.map((name) => textOf(fields[name])).find((text) => text !== '') ?? ''
}

function engineOf(collection: string): Engine {
  return Object.hasOwn(engines, collection) ? engines[collection]! : otherEngine
}

/** A short name for a record; its id if it has none. */
export function nameRecord(collection: string, clear: Fields): string {
  const name = clear.deleted === true ? '' : nameIn(clear, engineOf(collection))
  return name || textOf(clear.id)
}

/** Describes a record in one line; never shows a password. Empty for a deletion, which has no content. */
export function describeRecord(collection: string, clear: Fields): string {
  if (clear.deleted === true) return ''
  const engine = engineOf(collection)
  return engine.line?.(clear) ?? nameIn(clear, engine)
}

/** How a record differs from what its engine writes, such as `"children" is not a list of ids`; null if it does not. */
export function faultOf(collection: string, clear: Fields): string | null {
  if (clear.deleted === true) return null
  const { fields, required } = engineOf(collection)
  for (const [field, type] of Object.entries(fields)) {
    const value = clear[field]
    if (value !== undefined && value !== null && !types[type].is(value))
      return `"${field}" is not ${types[type].called}`
  }
  const missing = required?.(clear).find((field) => textOf(clear[field]) === '')
  return missing === undefined ? null : `"${missing}" is missing`
}

/** Whether a record has the fields without which it means nothing. */
export function isUsable(collection: string, clear: Fields): boolean {
  const { required } = engineOf(collection)
  return required?.(clear).every((field) => textOf(clear[field]) !== '') ?? true
}
