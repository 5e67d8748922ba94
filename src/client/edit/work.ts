/** What is known while edits are applied: what they want, and what others have changed since they were made. */
import {
  normalFields,
  uniqueTags,
  type Edit,
  type ItemFields,
  type Problem,
  type ProblemCode,
} from './edit.ts'
import { sameTags, type Tree } from './tree.ts'
import type { DraftTree } from './draft-tree.ts'

export interface Work {
  tree: Tree
  shown: Tree
  edits: readonly Edit[]
  wasStored: boolean
  draft: DraftTree
  /** What the edits want in the end, by id: if it is there already, no other device has changed it. */
  goals: Map<string, Partial<ItemFields> & { parent?: string; isRemoved?: boolean }>
  /** What no other device has moved within a folder, by the id of the folder. */
  unmoved: Map<string, ReadonlySet<string>>
  problems: Problem[]
}

export function goalsOf(edits: readonly Edit[]): Work['goals'] {
  const goals: Work['goals'] = new Map()
  for (const edit of edits) {
    if (edit.op === 'add' && edit.id) goals.set(edit.id, {})
    if (edit.op === 'remove')
      for (const id of [edit.id, ...(edit.shown ?? [])]) goals.set(id, { ...goals.get(id), isRemoved: true })
    if (edit.op === 'move') goals.set(edit.id, { ...goals.get(edit.id), parent: edit.folder })
    if (edit.op === 'change') goals.set(edit.id, { ...goals.get(edit.id), ...normalFields(edit.fields) })
  }
  return goals
}

export function report({ problems }: Work, edit: Edit, code: ProblemCode, id: string, message: string): void {
  problems.push({ code, edit, id, message })
}

/** Whether another device has changed an item since it was shown. */
export function isChanged(work: Work, id: string): boolean {
  const now = work.tree.items.get(id)
  const was = work.shown.items.get(id)
  if (now && was && now.parent !== was.parent && now.parent !== work.goals.get(id)?.parent) return true
  return hasChanged(work, id, fieldNames)
}

/** Whether another device has changed one of these fields. */
export function hasChanged(
  { tree, shown, goals }: Work,
  id: string,
  names: readonly (keyof ItemFields)[],
): boolean {
  const now = tree.items.get(id)
  const was = shown.items.get(id)
  if (now === was || !now || !was) return false
  const goal = goals.get(id) ?? {}
  const isOurs = (name: keyof ItemFields) =>
    goal[name] !== undefined && sameField(name, now, { ...now, ...goal })
  return names.some((name) => !sameField(name, now, was) && !isOurs(name))
}

export const fieldNames = ['title', 'address', 'tags', 'keyword'] as const

/** Whether two states of an item have the same value of a field, in the form that Firefox stores. */
export function sameField(name: keyof ItemFields, one: ItemFields, other: ItemFields): boolean {
  if (one[name] === other[name]) return true
  if (name === 'tags') return sameTags(uniqueTags(one.tags), uniqueTags(other.tags))
  if (name === 'title') return false
  return normalFields({ [name]: one[name] })[name] === normalFields({ [name]: other[name] })[name]
}
