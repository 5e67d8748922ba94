/** History, passwords, tabs and whole accounts as files for other programs. */
import { readTabs, type Tab, type Visit, type VisitedPage } from './record-readers.ts'
import { textOf } from './fields.ts'
import { forMarkdown, forUrlList, jsonText, markdownLink } from './safe-text.ts'
import { csv, isoOf, jsonLines, jsonList, type FormatOptions } from './tables.ts'
import type { ReadableRecord, SyncRecord } from './collection.ts'

/** The formats of each kind of data by name, the default first. The Python package has the same. */
export const historyFormats = { csv: historyCsv, json: historyJson }
export const passwordFormats = { csv: passwordsCsv, json: passwordsJson }
export const tabFormats = { json: tabsJson, csv: tabsCsv, urls: tabUrls, markdown: tabsMarkdown }
export const everythingFormats = { json: everythingJson }

const noVisit: Visit = { atMs: 0, kind: '' }

/** Formats visits as CSV, latest first; includes pages without visits. */
export function historyCsv(pages: VisitedPage[], options?: FormatOptions): Generator<string> {
  const visits: { visit: Visit; page: VisitedPage }[] = []
  for (const page of pages)
    for (const visit of page.visits.length > 0 ? page.visits : [noVisit]) visits.push({ visit, page })
  visits.sort((left, right) => right.visit.atMs - left.visit.atMs)
  return csv(['visited', 'kind', 'url', 'title'], visitRows(visits), options)
}

// Generators, because iterators have no `map` in Node 20.
function* visitRows(visits: { visit: Visit; page: VisitedPage }[]): Generator<string[]> {
  for (const { visit, page } of visits) yield [isoOf(visit.atMs), visit.kind, page.url, page.title]
}

/** Formats pages as JSON, each with its visits. */
export function historyJson(pages: VisitedPage[]): Generator<string> {
  return jsonList(plainPages(pages))
}

function* plainPages(pages: VisitedPage[]): Generator<object> {
  for (const { url, title, visits } of pages)
    yield { url, title, visits: visits.map(({ atMs, kind }) => ({ at: isoOf(atMs), kind })) }
}

/** The columns of Firefox's own password export, and the record fields for them. */
const loginColumns = {
  url: 'hostname',
  username: 'username',
  password: 'password',
  httpRealm: 'httpRealm',
  formActionOrigin: 'formSubmitURL',
  guid: 'id',
  timeCreated: 'timeCreated',
  timeLastUsed: 'timeLastUsed',
  timePasswordChanged: 'timePasswordChanged',
}

/** Formats passwords as the CSV that Firefox exports and imports, in plain text. Always exact: a password may begin like a formula. */
export function passwordsCsv(logins: ReadableRecord[]): Generator<string> {
  const cellOf = (value: unknown) => (typeof value === 'number' ? value : textOf(value))
  const rows = logins.map(({ clear }) => Object.values(loginColumns).map((field) => cellOf(clear[field])))
  return csv(Object.keys(loginColumns), rows, { isRaw: true })
}

/** Formats passwords as JSON, with all fields of their records. */
export function passwordsJson(logins: ReadableRecord[]): Generator<string> {
  return jsonList(logins.map(({ clear }) => clear))
}

/** The open tabs of a device. */
export interface DeviceTabs {
  device: string
  /** In ms since 1970. */
  syncedMs: number
  tabs: Tab[]
}

/** Reads a record of the collection `tabs`; with `sinceMs`, only tabs used since. */
export function deviceTabs({ clear, stored }: ReadableRecord, sinceMs = 0): DeviceTabs {
  const { device, tabs } = readTabs(clear)
  const recent = tabs.filter(({ lastUsedMs }) => lastUsedMs >= sinceMs)
  return { device, syncedMs: stored.last_modified, tabs: recent }
}

/** Formats tabs as JSON, by device. */
export function tabsJson(devices: DeviceTabs[]): Generator<string> {
  return jsonList(
    devices.map(({ device, syncedMs, tabs }) => {
      const plain = tabs.map(({ title, url, lastUsedMs }) => ({ title, url, used: isoOf(lastUsedMs) }))
      return { device, synced: isoOf(syncedMs), tabs: plain }
    }),
  )
}

/** Formats tabs as CSV. */
export function tabsCsv(devices: DeviceTabs[], options?: FormatOptions): Generator<string> {
  const rows = devices.flatMap(({ device, tabs }) =>
    tabs.map(({ title, url, lastUsedMs }) => [device, title, url, isoOf(lastUsedMs)]),
  )
  return csv(['device', 'title', 'url', 'used'], rows, options)
}

/** Lists the URLs of tabs, one per line. */
export function tabUrls(devices: DeviceTabs[]): string {
  return devices.flatMap(({ tabs }) => tabs.map(({ url }) => `${forUrlList(url)}\n`)).join('')
}

/** Formats tabs as Markdown lists, with a heading for each device. */
export function tabsMarkdown(devices: DeviceTabs[]): string {
  return devices
    .map(({ device, tabs }) => {
      const links = tabs.map(({ title, url }) => `- ${markdownLink(title, url)}\n`)
      return `# ${forMarkdown(device)}\n\n${links.join('')}`
    })
    .join('\n')
}

/** What `everythingJson` writes. */
export interface Everything {
  records: Iterable<SyncRecord>
  /** The collections that could not be read, with the reason. */
  incomplete: ReadonlyMap<string, string>
  exportedAt: Date
}

/**
 * Formats all decrypted records by collection, the ids of undecryptable records, and the collections that could not be read, with a record
 * on each line.
 */
export function* everythingJson({ records, incomplete, exportedAt }: Everything): Generator<string> {
  const writer = new EverythingWriter()
  const collections = new Map<string, SyncRecord[]>()
  // Not `Map.groupBy`, which Node 20 lacks.
  for (const record of records) {
    const found = collections.get(record.collection)
    if (found) found.push(record)
    else collections.set(record.collection, [record])
  }
  yield writer.begin(exportedAt)
  for (const [collection, found] of collections) {
    yield writer.collection(collection)
    for (const record of found) yield writer.record(record)
  }
  yield writer.end(incomplete)
}

/** Formats the same piece by piece, for records that do not fit into memory together. */
export class EverythingWriter {
  readonly #unreadable: object[] = []
  #collections = 0
  #records = 0

  begin(exportedAt: Date): string {
    return `{"exported":${jsonText(exportedAt.toISOString())},\n"collections":{`
  }

  /** Begins a collection. */
  collection(name: string): string {
    const before = this.#collections === 0 ? '' : '\n],'
    this.#collections += 1
    this.#records = 0
    return `${before}\n${jsonText(name)}:[`
  }

  /** A record of the collection that was begun; empty for one that can't be decrypted, which follows at the end. */
  record({ collection, clear, stored, problem }: SyncRecord): string {
    const { id, last_modified } = stored
    if (clear === null) {
      this.#unreadable.push({ collection, id, last_modified, problem })
      return ''
    }
    const before = this.#records === 0 ? '' : ','
    this.#records += 1
    return `${before}\n${jsonText({ ...clear, last_modified })}`
  }

  end(incomplete: ReadonlyMap<string, string>): string {
    const last = this.#collections === 0 ? '' : '\n]'
    const unreadable = [...jsonLines(this.#unreadable)].join('')
    return `${last}},\n"unreadable":${unreadable},\n"incomplete":${jsonText(Object.fromEntries(incomplete))}}\n`
  }
}
