/** What Firefox's engines write into their collections: the types of fields, and what a record is called. */
import { fieldsOf, isFields, numberOf, textOf, textsOf, type Fields } from './fields.ts'
import { readBookmark, readPreferences, readTabs } from './record-readers.ts'

/** What an engine writes. */
interface Engine {
  /** What its records are, in a few words. */
  contents: string
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

const entry = {
  fields: { entry: 'record' },
  names: ['name', 'cc-name', 'title'],
  namesIn: 'entry',
} as const satisfies Partial<Engine>

/**
 * One description for each engine; a collection that is not listed may have any record. `make pages` writes the fields and names for the Python
 * package; `line` and `required` are also in its `engines.py`.
 */
export const engines: Record<string, Engine> = {
  bookmarks: {
    contents: 'bookmarks, folders and separators',
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
    contents: 'visited pages',
    fields: { histUri: 'text', title: 'text', visits: 'records' },
    required: () => ['histUri'],
    names: ['title'],
    line: ({ title, histUri }) => joined(textOf(title), `<${textOf(histUri)}>`),
  },
  passwords: {
    contents: 'logins',
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
    contents: 'texts that were typed into forms',
    fields: { name: 'text', value: 'text' },
    required: () => ['name'],
    names: ['name'],
    line: ({ name, value }) => `${textOf(name)}: ${textOf(value)}`,
  },
  tabs: {
    contents: 'devices with their open tabs',
    fields: { clientName: 'text', tabs: 'records' },
    names: ['clientName'],
    line(clear) {
      const { device, tabs } = readTabs(clear)
      return `${device}: ${tabs.length} tabs`
    },
  },
  clients: {
    contents: 'devices',
    fields: { name: 'text', type: 'text', formfactor: 'text', os: 'text', version: 'text' },
    names: ['name'],
  },
  addresses: { contents: 'addresses', ...entry },
  creditcards: { contents: 'credit cards', ...entry },
  prefs: {
    contents: 'preferences',
    fields: { value: 'record' },
    names: [],
    line: (clear) => `${readPreferences(clear).length} preferences`,
  },
  'extension-storage': {
    contents: 'data of extensions',
    fields: { extId: 'text', data: 'text' },
    names: ['extId'],
  },
  addons: {
    contents: 'extensions and themes',
    fields: { addonID: 'text' },
    names: ['addonID'],
  },
  meta: {
    contents: 'which collections Firefox syncs',
    fields: { engines: 'record', declined: 'texts' },
    names: ['id'],
    line({ engines: synced, declined }) {
      const not = textsOf(declined).toSorted().join(', ')
      return (Object.keys(fieldsOf(synced)).toSorted().join(', ') || 'nothing') + (not && `; not ${not}`)
    },
  },
  crypto: { contents: 'the keys', fields: {}, names: ['id'] },
}

export const otherEngine: Engine = { contents: '', fields: {}, names: ['title', 'name', 'guid'] }

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

/** What the records of a collection are, in a few words; empty for an unknown one. */
export function contentsOf(collection: string): string {
  return engineOf(collection).contents
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
