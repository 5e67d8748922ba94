import { editsBetween, type WantedTree } from '../../client/edit/edits-between.ts'
import type { Item, Tree } from '../../client/edit/tree.ts'
import { printableLine } from '../../client/safe-text.ts'

/** What would change, for people. */
export interface EditPlan {
  /** Such as "2 renamed, 1 deleted"; empty if nothing would change. */
  summary: string
  /** One line for each change. */
  lines: string[]
  /** The number of items that would be deleted. */
  deleted: number
}

/** Describes what leads from one tree to the other; `wasStored` as in `editsBetween`. */
export function planOf(before: Tree, after: WantedTree, wasStored = false): EditPlan {
  const counts = new Map<string, number>()
  const lines: string[] = []
  const count = (what: string) => void counts.set(what, (counts.get(what) ?? 0) + 1)
  const deletedIds: string[] = []
  for (const edit of editsBetween(before, after, wasStored)) {
    const was = before.items.get(edit.id!)
    const is = after.items.get(edit.id!)
    if (edit.op === 'add') {
      count(`${is!.kind} added`)
      lines.push(`+ ${placeOf(after, is!)}${contentOf(is!)}`)
    } else if (edit.op === 'move') {
      count('moved')
      const target = was!.parent === is!.parent ? 'to another place' : `to ${folderPath(after, is!)}`
      lines.push(`> ${placeOf(before, was!)}${contentOf(was!)} ${target}`)
    } else if (edit.op === 'remove') deletedIds.push(edit.id, ...(edit.shown ?? []))
    else if (was && is) {
      if (edit.fields.title !== undefined) {
        count('renamed')
        lines.push(`~ ${placeOf(before, was)}${quoted(was.title)} to ${quoted(is.title)}`)
      }
      if (edit.fields.address !== undefined) {
        count('with a new address')
        lines.push(`~ ${placeOf(before, was)}${quoted(was.title)} to <${is.address}>`)
      }
      if (edit.fields.tags !== undefined || edit.fields.keyword !== undefined) {
        count('retagged')
        const marks = marksOf(is).join(' ') || 'no tags'
        lines.push(`~ ${placeOf(before, was)}${quoted(was.title)} to ${marks}`)
      }
    }
  }
  const removed = new Set(deletedIds)
  for (const id of removed) {
    const item = before.items.get(id)!
    lines.push(`- ${placeOf(before, item)}${contentOf(item)}`)
  }
  const parts = [...counts].map(([what, number]) => `${number} ${plural(what, number)}`)
  if (removed.size > 0) parts.push(`${removed.size} deleted`)
  return { summary: parts.join(', '), lines: lines.map(printableLine), deleted: removed.size }
}

function plural(what: string, number: number): string {
  return number === 1
    ? what
    : what.replace(/^(bookmark|folder|separator) /, '$1s ').replace(/^query /, 'queries ')
}

/** The innermost folders suffice: in a deep tree, all paths together are long. */
const maxFolders = 5

function folderPath({ items }: Pick<Tree, 'items'>, { parent }: Item): string {
  const path: string[] = []
  for (let above = items.get(parent); above; above = items.get(above.parent)) {
    path.push(path.length < maxFolders ? above.title : '…')
    if (path.length > maxFolders) break
  }
  return path.toReversed().join(' / ')
}

function placeOf(tree: Pick<Tree, 'items'>, item: Item): string {
  return `${folderPath(tree, item)} / `
}

function quoted(title: string): string {
  return JSON.stringify(title)
}

/** An item in one line, without its place. */
function contentOf(item: Item): string {
  if (item.kind === 'separator') return '---'
  if (item.kind === 'folder') return `${item.title}/`
  return [item.title, `<${item.address}>`, ...marksOf(item)].filter(Boolean).join(' ')
}

function marksOf({ tags, keyword }: Item): string[] {
  return [...tags.map((tag) => `#${tag}`), ...(keyword ? [`@${keyword}`] : [])]
}

const maxLines = 40

/** The plan as text of a few lines. */
export function planText({ summary, lines }: EditPlan): string {
  const more = lines.length > maxLines ? [`… and ${lines.length - maxLines} more`] : []
  return [...lines.slice(0, maxLines), ...more, summary].map((line) => `${line}\n`).join('')
}
