/** Formats records as files for other programs. */
import { walk, type BookmarkNode } from './bookmarks.ts'
import { textOf } from './fields.ts'
import type { Visit, VisitedPage } from './engines.ts'
import type { ReadableRecord, SyncRecord } from './collection.ts'

/** Formats bookmarks as the HTML file that every browser imports. */
export function bookmarksHtml<More>(tops: BookmarkNode<More>[]): string {
  return [
    '<!DOCTYPE NETSCAPE-Bookmark-file-1>',
    '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">',
    '<TITLE>Bookmarks</TITLE>',
    '<H1>Bookmarks Menu</H1>',
    '',
    '<DL><p>',
    ...linesOf(tops),
    '</DL>',
    '',
  ].join('\n')
}

const rootRoles: Record<string, object> = {
  toolbar: { PERSONAL_TOOLBAR_FOLDER: true },
  unfiled: { UNFILED_BOOKMARKS_FOLDER: true },
}

// Deeper folders are not indented further, or the file would grow with the square of the depth.
const deepestIndent = 20

function linesOf<More>(tops: BookmarkNode<More>[]): string[] {
  const lines: string[] = []
  const write = (level: number, line: string) => {
    lines.push('    '.repeat(Math.min(level, deepestIndent)) + line)
  }
  let open = 0
  const closeTo = (level: number) => {
    for (; open > level; open -= 1) write(open, '</DL><p>')
  }
  const add = ({ record, bookmark, kind, title }: BookmarkNode<More>, level: number) => {
    closeTo(level - 1)
    const { url, tags, keyword, addedMs } = bookmark
    const date = addedMs > 0 && { ADD_DATE: Math.floor(addedMs / 1000) }
    if (kind === 'separator') write(level, '<HR>')
    else if (kind === 'folder') {
      write(level, `<DT>${tag('H3', { ...date, ...rootRoles[record.stored.id] }, title)}`)
      write(level, '<DL><p>')
      open = level
    } else if (url !== '') {
      const tagged = tags.length > 0 && { TAGS: tags.join(',') }
      const named = keyword !== '' && { SHORTCUTURL: keyword }
      write(level, `<DT>${tag('A', { HREF: url, ...date, ...tagged, ...named }, title || url)}`)
    }
  }
  // Each folder may be at any level.
  for (const top of tops) for (const node of walk([top])) add(node, node.level - top.level + 1)
  closeTo(0)
  return lines
}

function tag(name: string, attributes: object, text: string): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escape(String(value))}"`)
  return `<${name}${written.join('')}>${escape(text)}</${name}>`
}

// HTML can't contain control characters, and many programs parse this file by line.
function escape(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text.replaceAll(/\p{Cc}+/gu, ' ').replaceAll(/[&<>"]/g, (char) => names[char]!)
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

/** Formats passwords as the CSV that Firefox exports and imports, in plain text. */
export function passwordsCsv(logins: ReadableRecord[]): string {
  const rows = logins.map(({ clear }) => Object.values(loginColumns).map((field) => clear[field]))
  return csv([Object.keys(loginColumns), ...rows])
}

/** Formats visits as CSV, latest first; includes pages without visits. Yields parts, because it may be long. */
export function historyCsv(pages: VisitedPage[]): Iterable<string> {
  const visits = pages.flatMap((page) =>
    (page.visits.length > 0 ? page.visits : [noVisit]).map((visit) => ({ ...visit, page })),
  )
  visits.sort((left, right) => right.atMs - left.atMs)
  return csvParts([['visited', 'kind', 'url', 'title']], visitRows(visits))
}

const noVisit: Visit = { atMs: 0, kind: '' }

// A generator, because iterators have no `map` in Node 20.
function* visitRows(visits: (Visit & { page: VisitedPage })[]): Generator<unknown[]> {
  for (const { atMs, kind, page } of visits)
    yield [isoOf(atMs), kind, noFormula(page.url), noFormula(page.title)]
}

/** Formats a time as ISO 8601; empty for 0. */
export function isoOf(atMs: number): string {
  return atMs > 0 ? new Date(atMs).toISOString() : ''
}

/** Makes text from web sites safe for spreadsheets, which would evaluate it as a formula. Removes NUL, at which some programs stop. */
export function noFormula(cell: unknown): string {
  return textOf(cell)
    .replaceAll('\0', '')
    .replace(/^[=+\-@\t\r]/, "'$&")
}

/** Formats CSV (RFC 4180) with quotes around every cell. Other types than strings and numbers become empty. */
export function csv(rows: unknown[][]): string {
  return [...csvParts(rows)].join('')
}

const rowsInPart = 100

function* csvParts(...tables: Iterable<unknown[]>[]): Generator<string> {
  const cellOf = (value: unknown) => (typeof value === 'number' ? String(value) : textOf(value))
  let part = ''
  let count = 0
  for (const rows of tables) {
    for (const row of rows) {
      part += `${row.map((cell) => `"${cellOf(cell).replaceAll('"', '""')}"`).join(',')}\r\n`
      count += 1
      if (count % rowsInPart > 0) continue
      yield part
      part = ''
    }
  }
  yield part
}

/**
 * Formats all decrypted records by collection, the ids of undecryptable records, and the collections that could not be read, with reasons.
 */
export function everythingJson(
  records: Iterable<SyncRecord>,
  incomplete: ReadonlyMap<string, string>,
  exportedAt: Date,
): string {
  // Without a prototype, so that a collection may be called `constructor`.
  const collections: Record<string, unknown[]> = Object.create(null)
  const unreadable: unknown[] = []
  for (const { collection, stored, clear, problem } of records) {
    if (clear === null)
      unreadable.push({ collection, id: stored.id, last_modified: stored.last_modified, problem })
    else (collections[collection] ??= []).push({ ...clear, last_modified: stored.last_modified })
  }
  const exported = exportedAt.toISOString()
  const file = { exported, collections, unreadable, incomplete: Object.fromEntries(incomplete) }
  return jsonText(file, 2)
}

/** Formats JSON that every parser accepts: unpaired surrogates, which jq and others reject, become U+FFFD. */
export function jsonText(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent)
  if (!text.includes('\\ud')) return text
  return text.replaceAll(/\\(?:ud[89a-f][\da-f]{2}|.)/g, (escaped) =>
    escaped.length > 2 ? '\uFFFD' : escaped,
  )
}
