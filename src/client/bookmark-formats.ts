/** Bookmarks as files for other programs. A tree that is deeper than `deepestLevel` is written flat below that. */
import { bookmarkTree, flattened, isRoot, missingRoot, type BookmarkNode, type Placed } from './bookmarks.ts'
import { forHtml, forMarkdown, forUrlList, jsonText, markdownLink } from './safe-text.ts'
import { csv, isoOf, type FormatOptions } from './tables.ts'

/** The formats by name, the default first. The Python package has the same. */
export const bookmarkFormats = {
  html: bookmarksHtml,
  json: bookmarksJson,
  'firefox-json': bookmarksFirefoxJson,
  csv: bookmarksCsv,
  urls: bookmarkUrls,
  markdown: bookmarksMarkdown,
}

/**
 * Formats bookmarks as the HTML file that every browser imports. Like in Firefox's own file, the contents of the menu come first and in no
 * folder, because Firefox imports the file into the menu.
 */
export function bookmarksHtml<More>(tops: BookmarkNode<More>[]): string {
  const menu = tops.find((top) => isRoot(top, 'menu'))
  return [
    '<!DOCTYPE NETSCAPE-Bookmark-file-1>',
    '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">',
    '<TITLE>Bookmarks</TITLE>',
    '<H1>Bookmarks Menu</H1>',
    '',
    '<DL><p>',
    ...htmlLines([...(menu?.children ?? []), ...tops.filter((top) => top !== menu)]),
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

function htmlLines<More>(tops: BookmarkNode<More>[]): string[] {
  const lines: string[] = []
  const write = (level: number, line: string) => {
    lines.push('    '.repeat(Math.min(level, deepestIndent)) + line)
  }
  let open = 0
  const closeTo = (level: number) => {
    for (; open > level; open -= 1) write(open, '</DL><p>')
  }
  for (const { node, level } of flattened(tops)) {
    const { record, bookmark, kind, title } = node
    const { url, siteUrl, tags, keyword, addedMs } = bookmark
    closeTo(level - 1)
    const date = addedMs > 0 && { ADD_DATE: Math.floor(addedMs / 1000) }
    if (kind === 'separator') write(level, '<HR>')
    else if (kind === 'folder') {
      write(level, `<DT>${element('H3', { ...date, ...rootRoles[record.stored.id] }, title)}`)
      write(level, '<DL><p>')
      open = level
    } else if (url !== '') {
      // A feed is stated like in the files of earlier versions of Firefox.
      const address =
        record.clear.type === 'livemark' ? { FEEDURL: url, HREF: siteUrl || url } : { HREF: url }
      const tagged = tags.length > 0 && { TAGS: tags.join(',') }
      const named = keyword !== '' && { SHORTCUTURL: keyword }
      write(level, `<DT>${element('A', { ...address, ...date, ...tagged, ...named }, title || url)}`)
    }
  }
  closeTo(0)
  return lines
}

function element(name: string, attributes: object, text: string): string {
  const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${forHtml(String(value))}"`)
  return `<${name}${written.join('')}>${forHtml(text)}</${name}>`
}

/** A bookmark as JSON. Only folders have `children`; separators have neither `children` nor `url`. */
export interface PlainBookmark {
  id: string
  type: 'bookmark' | 'folder' | 'separator'
  title?: string
  url?: string
  tags?: string[]
  keyword?: string
  description?: string
  added?: string
  children?: PlainBookmark[]
}

/** Formats bookmarks as nested JSON lists, in folder order, with one bookmark on each line. */
export function bookmarksJson<More>(tops: BookmarkNode<More>[]): Generator<string> {
  return nestedJson(flattened(tops), plainBookmark)
}

function plainBookmark<More>({ node }: Placed<More>): PlainBookmark {
  const { record, bookmark, kind, title } = node
  const { tags, url, keyword, description, addedMs } = bookmark
  const texts = { title, url, keyword, description, added: isoOf(addedMs) }
  return {
    id: record.stored.id,
    type: kind,
    ...Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== '')),
    ...(tags.length > 0 && { tags }),
  }
}

/** Formats entries as nested lists: each has its fields, and a folder the entries below it as `children`. */
function* nestedJson<More>(
  entries: Placed<More>[],
  fields: (entry: Placed<More>) => object,
): Generator<string> {
  let open = 0
  let isFirst = true
  yield '['
  for (const entry of entries) {
    const isAfterFolder = entry.level <= open
    if (isAfterFolder) yield `\n${']}'.repeat(open - entry.level + 1)}`
    yield isFirst && !isAfterFolder ? '\n' : ',\n'
    const text = jsonText(fields(entry))
    isFirst = entry.node.kind === 'folder'
    open = isFirst ? entry.level : entry.level - 1
    yield isFirst ? `${text.slice(0, -1)},"children":[` : text
  }
  yield `\n${']}'.repeat(open)}]\n`
}

/** The ids that Firefox has for its root folders. */
const rootGuids: Record<string, { guid: string; root: string }> = {
  menu: { guid: 'menu________', root: 'bookmarksMenuFolder' },
  toolbar: { guid: 'toolbar_____', root: 'toolbarFolder' },
  unfiled: { guid: 'unfiled_____', root: 'unfiledBookmarksFolder' },
  mobile: { guid: 'mobile______', root: 'mobileFolder' },
}
const placeTypes = {
  bookmark: 'text/x-moz-place',
  folder: 'text/x-moz-place-container',
  separator: 'text/x-moz-place-separator',
}

/**
 * Formats bookmarks as the JSON that Firefox's Restore reads, which replaces all bookmarks. What is outside of the root folders goes to Other
 * Bookmarks.
 */
export function* bookmarksFirefoxJson<More>(tops: BookmarkNode<More>[]): Generator<string> {
  const [roots, others] = [true, false].map((is) =>
    tops.filter(
      ({ record, kind }) => (Object.hasOwn(rootGuids, record.stored.id) && kind === 'folder') === is,
    ),
  ) as [BookmarkNode<More>[], BookmarkNode<More>[]]
  if (others.length > 0) {
    const index = roots.findIndex((top) => isRoot(top, 'unfiled'))
    const unfiled = roots[index] ?? bookmarkTree<More>([missingRoot('unfiled')])[0]!
    const filled = { ...unfiled, children: [...unfiled.children, ...others] }
    roots.splice(index === -1 ? roots.length : index, 1, filled)
  }
  yield `{"guid":"root________","title":"","index":0,"type":"${placeTypes.folder}","root":"placesRoot","children":`
  const entries = flattened(roots).filter(({ node }) => node.kind !== 'bookmark' || node.bookmark.url !== '')
  yield* nestedJson(entries, firefoxBookmark)
  yield '}\n'
}

function firefoxBookmark<More>({ node, index }: Placed<More>): object {
  const { record, bookmark, kind, title } = node
  const { url, tags, keyword, addedMs } = bookmark
  const { id, last_modified } = record.stored
  const added = addedMs > 0 && { dateAdded: Math.floor(addedMs) * 1000 }
  return {
    ...(/^[\w-]{12}$/.test(id) && { guid: id }),
    ...(kind === 'folder' && rootGuids[id]),
    ...(kind !== 'separator' && { title }),
    index,
    ...added,
    ...(added && last_modified >= addedMs && { lastModified: last_modified * 1000 }),
    type: placeTypes[kind],
    ...(kind === 'bookmark' && { uri: url }),
    ...(tags.length > 0 && { tags: tags.join(',') }),
    ...(keyword !== '' && { keyword }),
  }
}

/** Formats bookmarks as CSV with their folder paths, without folders and separators. */
export function bookmarksCsv<More>(tops: BookmarkNode<More>[], options?: FormatOptions): Generator<string> {
  const rows = linksOf(tops).map(({ node: { bookmark, title }, path }) => {
    const { url, tags, keyword, addedMs } = bookmark
    return [url, title, path, tags.join(','), keyword, isoOf(addedMs)]
  })
  return csv(['url', 'title', 'folder', 'tags', 'keyword', 'added'], rows, options)
}

/** Lists the URLs, one per line, without duplicates. */
export function bookmarkUrls<More>(tops: BookmarkNode<More>[]): string {
  const urls = new Set(linksOf(tops).map(({ node }) => forUrlList(node.bookmark.url)))
  return [...urls].map((url) => `${url}\n`).join('')
}

/** Formats bookmarks as nested Markdown lists, with a heading for each top-level folder. */
export function bookmarksMarkdown<More>(tops: BookmarkNode<More>[]): string {
  const lines: string[] = []
  for (const { node, level } of flattened(tops)) {
    const { kind, title, bookmark } = node
    const indent = '  '.repeat(Math.min(Math.max(0, level - 2), deepestIndent))
    if (kind === 'folder' && level === 1)
      lines.push(`${lines.length > 0 ? '\n' : ''}# ${forMarkdown(title)}\n`)
    else if (kind === 'folder') lines.push(`${indent}- **${forMarkdown(title)}**`)
    else if (bookmark.url !== '') lines.push(`${indent}- ${markdownLink(title, bookmark.url)}`)
  }
  return lines.map((line) => `${line}\n`).join('')
}

function linksOf<More>(tops: BookmarkNode<More>[]): Placed<More>[] {
  return flattened(tops).filter(({ node }) => node.bookmark.url !== '')
}
