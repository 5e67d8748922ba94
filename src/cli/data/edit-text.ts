/**
 * Bookmarks as lines of text that people and scripts edit. Each item is a line, indented by two spaces for each folder, with its id at the end:
 *
 *     Folder/                                     ^id
 *       Title <address> #tag @keyword             ^id
 *       ---                                       ^id
 *
 * A backslash makes the next character an ordinary one, so a title may contain anything.
 */
import { rootTitles } from '../../client/bookmark-places.ts'
import { normalAddress, normalKeyword } from '../../client/edit/draft-tree.ts'
import { itemLabel } from '../../client/edit/edit.ts'
import { newId } from '../../client/edit/models.ts'
import { below, type Item, type ItemKind, type Tree } from '../../client/edit/tree.ts'
import { textOf } from '../../client/fields.ts'
import { PrintedLines, type PrintedLine } from './printed-lines.ts'

/** A line that can't be read. */
export class TextError extends Error {
  constructor(
    /** Starting at 1. */
    readonly line: number,
    problem: string,
  ) {
    super(`line ${line}: ${problem}`)
  }
}

const header = `# One bookmark a line, two spaces for each folder. Change, move, add or delete lines; the mark at the end says which is which.
#   Folder/
#     Title <https://example.org/> #tag @keyword
#     ---
# Write \\ before a character that would mean something else: \\<  \\>  \\#  \\@  \\^  \\\\, a space at an end, a / at the end of a folder's name.
# \\n is a line break, \\u{202e} any character. Lines that begin with # are ignored. An empty file changes nothing.
# Keep the last line, which says what the others were.
`

/** The column of the marks. */
const markColumn = 72

/** Formats the bookmarks, or one folder; `asOfMs` is the timestamp of the collection. */
export function formatBookmarks(tree: Tree, folder: Item | null, asOfMs: number): string {
  const lines: string[] = []
  const printed: PrintedLine[] = []
  const add = (item: Item, depth: number, parent?: string) => {
    const text = lineTextOf(item)
    const line = '  '.repeat(depth) + text
    lines.push(`${line.padEnd(markColumn - 2)}  ${markOf(item.id)}\n`)
    printed.push({ id: item.id, text, folder: parent })
  }
  const tops = folder ? [folder] : [...rootTitles.keys()].flatMap((id) => tree.items.get(id) ?? [])
  for (const top of tops) {
    const depths = new Map([[top.id, 0]])
    add(top, 0)
    for (const item of below(tree, top.id)) {
      const depth = depths.get(item.parent)! + 1
      depths.set(item.id, depth)
      add(item, depth, item.parent)
    }
  }
  return `${header}\n${lines.join('')}\n# As of ${asOfMs}: ${PrintedLines.of(printed)}\n`
}

const asOfLine = /^# As of [1-9]\d*: ([\w-]*)\r?$/m

/** What the lines were when they were formatted; null if the text does not say. */
export function printedIn(text: string): PrintedLines | null {
  const found = asOfLine.exec(text)
  return found && PrintedLines.parse(found[1]!)
}

function markOf(id: string): string {
  return `^${escaped(id, idSpecial)}`
}

/** A line without its indent and the mark of this id; null if it has another one. */
function textBefore(line: string, id: string): string | null {
  const text = line.trimEnd()
  return text.endsWith(markOf(id)) ? text.slice(0, -markOf(id).length).trimEnd() : null
}

/** The line of an item, without indent and mark. */
export function lineTextOf(item: Item): string {
  const { kind, title, tags, keyword } = item
  if (kind === 'separator') return '---'
  const name = escaped(title, titleSpecial).replaceAll(/^[\s#-]|\s$/gu, '\\$&')
  if (kind === 'folder') return `${name.endsWith('/') ? name.replace(/\/$/, '\\/') : name}/`
  const marks = [
    ...tags.map((tag) => `#${escaped(tag, wordSpecial)}`),
    ...(keyword === '' ? [] : [`@${escaped(keyword, wordSpecial)}`]),
  ]
  return [name, `<${escaped(addressOfItem(item), wordSpecial)}>`, ...marks]
    .filter((part) => part !== '')
    .join(' ')
}

/** Of a live bookmark, the address of its feed, which can't be edited. */
function addressOfItem({ kind, address, record }: Item): string {
  return kind === 'livemark' ? textOf(record.feedUri) : address
}

// Characters that a terminal interprets, and those that change the direction of a text.
const hidden = String.raw`\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff`
const titleSpecial = new RegExp(String.raw`[\\<^${hidden}]`, 'gu')
const wordSpecial = new RegExp(String.raw`[\s\\<>^#@${hidden}]`, 'gu')
const idSpecial = new RegExp(String.raw`[\s\\${hidden}]`, 'gu')
const isHidden = new RegExp(`^[${hidden}]$`, 'u')

function escaped(text: string, special: RegExp): string {
  return text.replaceAll(special, (char) => {
    if (char === '\n') return '\\n'
    return isHidden.test(char) ? `\\u{${char.codePointAt(0)!.toString(16)}}` : `\\${char}`
  })
}

/** What a file says. */
export interface ParsedBookmarks {
  items: Map<string, Item>
  /** The line of each item. */
  lineOf: ReadonlyMap<string, number>
  /** The ids of the lines without a mark, in order. */
  newIds: string[]
  /** The ids of the marks in each folder, in order. */
  contents: ReadonlyMap<string, readonly string[]>
  /** What happened to items of changed lines that are not there any more, as sentences. */
  gone: string[]
}

/**
 * Reads the wanted tree from a file; `shown` is the present tree, `folder` the only one that was formatted, and `printed` what the lines were.
 * What has no line, or an unchanged one, stays as it is. `knownIds`: those that lines without a mark got when this file was read before. Null
 * for a file without any item. Throws `TextError`.
 */
export function parseBookmarks(
  text: string,
  shown: Tree,
  folder: Item | null,
  printed: PrintedLines,
  knownIds: readonly string[] = [],
): ParsedBookmarks | null {
  const scope = new Set(
    (folder ? [folder.id] : [...rootTitles.keys()]).flatMap((id) => [
      id,
      ...below(shown, id).map((item) => item.id),
    ]),
  )
  const items = new Map([...shown.items].filter(([id]) => !scope.has(id)))
  const lineOf = new Map<string, number>()
  const newIds: string[] = []
  const gone: string[] = []
  /** The ids of the lines that get a keyword. */
  const given = new Map<string, string>()
  /** How deep the contents of a folder that is gone are indented, at least. */
  let goneDepth = Infinity
  /** The folders that contain the next line, by depth. */
  const open: { id: string; children: string[] }[] = []
  /** The marks of these folders, also of those that are gone. */
  const above: (string | null)[] = []
  const contents = new Map<string, string[]>()
  for (const [index, line] of text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .entries()) {
    const number = index + 1
    if (line.trim() === '' || line.startsWith('#')) continue
    const { depth, content } = indentOf(line, number)
    const { mark, body } = readLine(content, number)
    const marked = mark === null || !scope.has(mark) ? undefined : shown.items.get(mark)
    const folderMark = above[depth - 1] ?? null
    above.length = depth
    above.push(mark)
    if (mark !== null && folderMark !== null) contents.getOrInsertComputed(folderMark, () => []).push(mark)
    // Accounts have bookmarks that Firefox would refuse now: what is unchanged is not checked.
    const isUnchanged = mark !== null && printed.hasText(mark, textBefore(content, mark) ?? '')
    const isInPlace =
      mark !== null && (folderMark === null || printed.placeIn(folderMark, mark) !== undefined)
    if (depth < goneDepth) goneDepth = Infinity
    // Another device has deleted it, or moved it out of what was formatted.
    if (isUnchanged && isInPlace && (!marked || depth >= goneDepth)) {
      if (marked) items.set(mark, marked)
      if (marked) lineOf.set(mark, number)
      else goneDepth = Math.min(goneDepth, depth + 1)
      continue
    }
    const fields = marked && isUnchanged ? marked : readContent(body, number)
    const isMoved = mark !== null && !marked && shown.items.has(mark) && printed.has(mark)
    if (isMoved || (mark !== null && shown.deleted.has(mark))) {
      const what = isMoved ? 'moved out of this folder' : 'deleted'
      gone.push(`${JSON.stringify(fields.title || fields.address)} was ${what} by another device meanwhile`)
      goneDepth = Math.min(goneDepth, depth + 1)
      continue
    }
    if (depth >= goneDepth)
      throw new TextError(number, 'another device has deleted or moved its folder: put it into another one')
    const id = mark ?? newIdOf(knownIds[newIds.length], shown, scope)
    if (mark === null) newIds.push(id)
    else checkMark(mark, shown, scope, number)
    if (lineOf.has(id))
      throw new TextError(number, `^${id} is in line ${lineOf.get(id)}, too. Remove the mark of a copy`)
    lineOf.set(id, number)
    const parent = open[depth - 1]
    if (depth > 0 && !parent) throw new TextError(number, 'it is indented below a line that is no folder')
    if (depth === 0 && !isTop(id, folder))
      throw new TextError(
        number,
        folder
          ? 'only the folder itself can be at the left'
          : 'put it into one of the folders at the left, with two spaces before it',
      )
    if (depth > 0 && isTop(id, folder)) throw new TextError(number, 'this folder must be at the left')
    const place = parent?.children.length ?? 0
    parent?.children.push(id)
    const was = scope.has(id) ? shown.items.get(id) : undefined
    const item = itemOf(id, fields, was, number)
    const keyword = normalKeyword(item)
    if (keyword !== '' && keyword !== (was && normalKeyword(was))) {
      const other = given.get(keyword) ?? id
      if (other !== id && normalAddress(items.get(other)!) !== normalAddress(item))
        throw new TextError(
          number,
          `@${keyword} is in line ${lineOf.get(other)}, too, and belongs to one address`,
        )
      given.set(keyword, id)
    }
    const children: string[] = []
    items.set(id, {
      ...item,
      parent: depth === 0 ? item.parent : parent!.id,
      place: depth === 0 ? item.place : place,
      children,
    })
    open.length = depth
    if (item.kind === 'folder') open[depth] = { id, children }
  }
  if (lineOf.size === 0) return null
  // The roots can't be deleted; with the folder that is edited, its contents can.
  for (const id of folder ? [folder.id] : rootTitles.keys()) {
    const root = shown.items.get(id)
    if (root && !items.has(id)) items.set(id, { ...root, children: [] })
  }
  return { items, lineOf, newIds, contents, gone }
}

function isTop(id: string, folder: Item | null): boolean {
  return folder ? id === folder.id : rootTitles.has(id)
}

/** Two spaces or a tab for each level. */
function indentOf(line: string, number: number): { depth: number; content: string } {
  const content = line.trimStart()
  const indent = line.slice(0, line.length - content.length).replaceAll('\t', '  ')
  if (indent.trim() !== '' || indent.length % 2 !== 0 || /[^ ]/.test(indent))
    throw new TextError(number, 'indent it by two spaces for each folder')
  return { depth: indent.length / 2, content }
}

function checkMark(mark: string, shown: Tree, scope: ReadonlySet<string>, number: number): void {
  if (scope.has(mark)) return
  throw new TextError(
    number,
    shown.items.has(mark)
      ? `^${mark} is not in this folder`
      : `there is no ^${mark}: delete the line, or remove the mark to add it as something new`,
  )
}

/** The id of something new: the one that it got before, unless that is elsewhere now. */
function newIdOf(known: string | undefined, shown: Tree, scope: ReadonlySet<string>): string {
  return known === undefined || (shown.items.has(known) && !scope.has(known)) ? newId() : known
}

interface LineFields {
  kind: ItemKind
  title: string
  address: string
  tags: readonly string[]
  keyword: string
}

function itemOf(id: string, fields: LineFields, was: Item | undefined, number: number): Item {
  if (was && was === fields) return was
  if (fields.kind === 'bookmark' && fields.address === '')
    throw new TextError(number, 'the address is missing')
  if (!was)
    return {
      ...fields,
      id,
      parent: '',
      place: 0,
      children: [],
      addedMs: 0,
      modifiedMs: 0,
      record: { id },
      version: null,
    }
  const kind = was.kind === 'query' || was.kind === 'livemark' ? was.kind : fields.kind
  if (kind !== was.kind || (fields.kind !== 'bookmark' && fields.kind !== was.kind))
    throw new TextError(number, `^${id} is a ${was.kind}, and can't become a ${fields.kind}`)
  const refuse = (reason: string) => {
    throw new TextError(number, `Cannot change ${itemLabel(was, id)}: ${reason}`)
  }
  if (rootTitles.has(id) && fields.title !== was.title) refuse('it is a root folder')
  if (kind !== 'livemark') return { ...was, ...fields, kind }
  if (fields.address !== addressOfItem(was)) refuse("a livemark's address can't be changed")
  return { ...was, ...fields, kind, address: was.address }
}

/** Reads a line without its indent. `body` is what is before the mark. */
function readLine(content: string, number: number): { mark: string | null; body: Line } {
  const line = unescaped(content, number)
  const at = markAt(line.mask)
  const mark =
    at === null
      ? null
      : line.chars
          .slice(at + 1)
          .join('')
          .trim()
  const rest = at === null ? line.mask : line.mask.slice(0, at)
  return { mark, body: trimmed(line, 0, rest.length) }
}

/** A line, as characters, and a mask of the same length in which the escaped ones have no meaning. */
interface Line {
  chars: string[]
  mask: string
}

function unescaped(text: string, number: number): Line {
  const chars: string[] = []
  let mask = ''
  const characters = [...text]
  for (let index = 0; index < characters.length; index += 1) {
    let char = characters[index]!
    let shape = char.length === 1 ? char : 'x'
    if (char === '\\') {
      shape = 'x'
      char = characters[(index += 1)] ?? ''
      if (char === '') throw new TextError(number, 'it ends with a backslash: write \\\\ for one')
      if (char === 'n') char = '\n'
      if (char === 'u' && characters[index + 1] === '{') {
        const end = characters.indexOf('}', index)
        const code = Number.parseInt(characters.slice(index + 2, end).join(''), 16)
        if (end < 0 || !(code <= 0x10_ffff)) throw new TextError(number, 'it has an invalid \\u{…}')
        char = String.fromCodePoint(code)
        index = end
      }
    }
    chars.push(char)
    mask += shape
  }
  return { chars, mask }
}

/** The index of the mark's ^, or null. */
function markAt(mask: string): number | null {
  const end = mask.trimEnd()
  const at = end.lastIndexOf('^')
  const isMark = at >= 0 && !/\s/.test(end.slice(at)) && at < end.length - 1
  return isMark && (at === 0 || /\s/.test(end[at - 1]!)) ? at : null
}

function trimmed({ chars, mask }: Line, from: number, to: number): Line {
  const part = mask.slice(from, to)
  const start = from + part.length - part.trimStart().length
  const end = start + part.trim().length
  return { chars: chars.slice(start, end), mask: mask.slice(start, end) }
}

function readContent(line: Line, number: number): LineFields {
  const blank: LineFields = { kind: 'bookmark', title: '', address: '', tags: [], keyword: '' }
  const { mask } = line
  if (/^-{3,}$/.test(mask)) return { ...blank, kind: 'separator' }
  const [start, end] = [mask.lastIndexOf('<'), mask.lastIndexOf('>')]
  if (start >= 0 && end > start) {
    const title = trimmed(line, 0, start).chars.join('')
    const address = trimmed(line, start + 1, end).chars.join('')
    const { tags, keyword } = readMarks(trimmed(line, end + 1, mask.length), number)
    const kind = /^place:/i.test(address) ? 'query' : 'bookmark'
    return { kind, title, address, tags, keyword }
  }
  if (mask.endsWith('/'))
    return { ...blank, kind: 'folder', title: trimmed(line, 0, mask.length - 1).chars.join('') }
  throw new TextError(number, 'it is no "Title <address>", no "Folder/" and no "---"')
}

function readMarks(line: Line, number: number): { tags: string[]; keyword: string } {
  const tags: string[] = []
  let keyword = ''
  let position = 0
  for (const word of line.mask.split(/\s+/)) {
    if (word === '') continue
    position = line.mask.indexOf(word, position)
    const text = line.chars.slice(position + 1, position + word.length).join('')
    position += word.length
    if (text === '') throw new TextError(number, `there is nothing after ${word}`)
    if (word.startsWith('#')) tags.push(text)
    else if (word.startsWith('@')) keyword = text
    else throw new TextError(number, `after the address, write only #tags and a @keyword: ${word} is neither`)
  }
  return { tags, keyword }
}
