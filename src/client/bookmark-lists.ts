/** Bookmarks as JSON, CSV, URLs and Markdown. */
import { walk, type BookmarkNode } from './bookmarks.ts'
import { csv, isoOf, noFormula } from './files.ts'

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

/** Formats bookmarks as nested lists, in folder order. */
export function plainBookmarks<More>(tops: BookmarkNode<More>[]): PlainBookmark[] {
  const made = new Map<BookmarkNode<More>, PlainBookmark>()
  const nodes = walk(tops)
  for (const node of nodes) made.set(node, plain(node))
  for (const node of nodes) if (node.parent) made.get(node.parent)?.children?.push(made.get(node)!)
  return tops.map((top) => made.get(top)!)
}

function plain<More>({ record, bookmark, kind, title }: BookmarkNode<More>): PlainBookmark {
  const { tags, url, keyword, description, addedMs } = bookmark
  const texts = {
    title,
    url,
    keyword,
    description,
    added: isoOf(addedMs),
  }
  return {
    id: record.stored.id,
    type: kind,
    ...Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== '')),
    ...(tags.length > 0 && { tags }),
    ...(kind === 'folder' && { children: [] }),
  }
}

/** Formats bookmarks as CSV with their folder paths, without folders and separators. */
export function bookmarksCsv<More>(tops: BookmarkNode<More>[]): string {
  const rows = linksOf(tops).map(({ bookmark: { url, tags, keyword, addedMs }, title, path }) => [
    noFormula(url),
    noFormula(title),
    noFormula(path),
    noFormula(tags.join(',')),
    noFormula(keyword),
    isoOf(addedMs),
  ])
  return csv([['url', 'title', 'folder', 'tags', 'keyword', 'added'], ...rows])
}

/** Lists the URLs, one per line, without duplicates. */
export function bookmarkUrls<More>(tops: BookmarkNode<More>[]): string {
  const urls = new Set(linksOf(tops).map(({ bookmark }) => inOneLine(bookmark.url)))
  return [...urls].map((url) => `${url}\n`).join('')
}

/** Encodes white space and control characters, so that a URL is one line and safe for a terminal. */
export function inOneLine(url: string): string {
  return url.replaceAll(/[\s\p{Cc}]/gu, '%20')
}

/** Formats bookmarks as nested Markdown lists, with a heading for each top-level folder. */
export function bookmarksMarkdown<More>(tops: BookmarkNode<More>[]): string {
  const lines: string[] = []
  const add = ({ bookmark: { url }, kind, title }: BookmarkNode<More>, depth: number) => {
    const indent = '  '.repeat(Math.max(0, depth - 2))
    if (kind === 'folder' && depth === 1)
      lines.push(`${lines.length > 0 ? '\n' : ''}# ${inMarkdown(title)}\n`)
    else if (kind === 'folder') lines.push(`${indent}- **${inMarkdown(title)}**`)
    else if (kind === 'bookmark' && url) lines.push(`${indent}- ${markdownLink(title, url)}`)
  }
  for (const top of tops) for (const node of walk([top])) add(node, node.level - top.level + 1)
  return lines.map((line) => `${line}\n`).join('')
}

function linksOf<More>(tops: BookmarkNode<More>[]): BookmarkNode<More>[] {
  return walk(tops).filter(({ kind, bookmark }) => kind === 'bookmark' && bookmark.url !== '')
}

/** Formats a Markdown link; escapes its title and URL. */
export function markdownLink(title: string, url: string): string {
  const address = url
    .replaceAll(/[<>\s\p{Cc}]/gu, encodeURIComponent)
    .replaceAll(/\\|&(?=#?\w{1,32};)/g, '\\$&')
  return `[${inMarkdown(title || url)}](<${address}>)`
}

/** Escapes a title for Markdown, on one line, without control characters. */
export function inMarkdown(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, ' ').replaceAll(/[\\`*_[\]<>#]|&(?=#?\w{1,32};)/g, '\\$&')
}
