import { addressOf } from '../addresses.ts'
import { readBookmark } from '../record-readers.ts'
import { textOf } from '../fields.ts'
import { DraftTree } from './draft-tree.ts'
import {
  invalidity,
  isRoot,
  itemLabel,
  normalFields,
  type AddEdit,
  type ChangeEdit,
  type Edit,
  type ItemFields,
  type MoveEdit,
  type Problem,
  type ProblemCode,
  type RemoveEdit,
} from './edit.ts'
import { stayingChildren } from './order.ts'
import {
  changeAddress,
  freeKeyword,
  giving,
  setShared,
  sharedKeyword,
  sharedTags,
  shareFields,
  takeKeyword,
} from './shared-fields.ts'
import { below, isLink, versionOf, type Item, type Tree } from './tree.ts'
import { fieldNames, goalsOf, hasChanged, isChanged, report, type Work } from './work.ts'
import type { ClearRecord } from '../crypto.ts'

/** The result of applying edits. */
export interface Applied {
  tree: Tree
  /** The edits, or their parts, that were not applied. */
  problems: Problem[]
}

/**
 * Applies edits in their order; pure. Keeps what Firefox requires: no folder in itself, no item without a folder, roots and kinds as they are,
 * one set of tags and one keyword for each address.
 *
 * `shown`: the tree that the edits were made for. A field that has another value in `tree` was changed by another device, and stays.
 * `wasStored`: whether what the edits set was stored before, as in an undo: it is not checked as new input, and written as it was.
 */
export function applyEdits(
  tree: Tree,
  edits: readonly Edit[],
  shown: Tree = tree,
  wasStored = false,
): Applied {
  const draft = new DraftTree(tree)
  const goals = goalsOf(edits)
  const work: Work = { tree, shown, edits, wasStored, draft, goals, unmoved: new Map(), problems: [] }
  for (const edit of edits) {
    if (edit.op === 'add') add(work, edit)
    else if (edit.op === 'change') change(work, edit)
    else if (edit.op === 'move') move(work, edit)
    else remove(work, edit)
  }
  shareFields(work)
  return { tree: work.draft.finish(), problems: work.problems }
}

function add(work: Work, edit: AddEdit): void {
  const { draft, tree, wasStored } = work
  const { id, kind = 'bookmark', folder = 'unfiled', record = {} } = edit
  const invalid = (reason: string) =>
    report(
      work,
      edit,
      'invalid',
      id ?? '',
      `Cannot add ${itemLabel({ ...blank, ...edit, id: '', kind }, '')}: ${reason}`,
    )
  if (!id) return invalid('it has no id')
  // It was added before.
  if (draft.get(id)) return
  if (tree.unreadable.has(id)) return invalid('a record that cannot be decrypted has its id')
  const { title = '', tags = [], keyword = '' } = edit
  const given = { title, tags, keyword, address: isLink(kind) ? (edit.address ?? '') : '' }
  const fields = wasStored ? given : normalFields(given)
  const { address } = fields
  const reason = wasStored ? null : invalidity(kind, { ...given, keyword: fields.keyword })
  if (reason !== null) return invalid(reason)
  if (!hasFolder(work, edit, id, folder)) return
  const same = isLink(kind) ? giving(work, address, id) : []
  const item: Item = {
    ...blank,
    ...fields,
    id,
    kind,
    keyword: sharedKeyword(same) || freeKeyword(work, edit, fields),
    tags: sharedTags([...same, fields]),
    addedMs: edit.addedMs ?? readBookmark(record).addedMs,
    record: { ...record, id },
    version: versionOf(tree, id),
  }
  draft.add(item, { ...edit, folder })
  setShared(work, item, item)
}

const blank: Item = {
  id: '',
  kind: 'bookmark',
  parent: '',
  place: 0,
  title: '',
  address: '',
  tags: [],
  keyword: '',
  addedMs: 0,
  modifiedMs: 0,
  children: [],
  record: { id: '' },
  version: null,
}

function change(work: Work, edit: ChangeEdit): void {
  const { id } = edit
  const { wasStored } = work
  const item = existing(work, edit, id)
  if (!item) return
  const checked = wasStored ? {} : edit.fields
  const invalid = isRoot(item) ? 'it is a root folder' : invalidity(item.kind, checked)
  if (invalid !== null)
    return report(work, edit, 'invalid', id, `Cannot change ${itemLabel(item, id)}: ${invalid}`)
  const fields = unconflicted(work, edit)
  const { title, address, tags, keyword } = fields
  if (title !== undefined && title !== item.title) work.draft.change(id, { title })
  const known = wasStored ? item.address : addressOf({ bmkUri: item.address })
  if (address !== undefined && address !== known) changeAddress(work, edit, item, address, keyword)
  const present = work.draft.get(id)!
  if (tags !== undefined || keyword !== undefined) {
    const free = keyword === undefined ? present.keyword : takeKeyword(work, edit, present, keyword)
    setShared(work, present, { tags: tags ?? present.tags, keyword: free })
  }
  const changed = fieldNames.filter((name) => fields[name] !== undefined)
  takeForm(
    work,
    edit,
    changed.map((name) => (name === 'address' ? 'bmkUri' : name)),
  )
}

/** Gives fields that were put back the form that they had: null, "" and no field are the same in an item. */
function takeForm(
  { draft, tree }: Work,
  { id, record: stored }: ChangeEdit | MoveEdit,
  names: string[],
): void {
  const item = draft.get(id)!
  if (stored === undefined || item === tree.items.get(id)) return
  const record: ClearRecord = { ...item.record }
  for (const name of names) {
    delete record[name]
    if (Object.hasOwn(stored, name)) record[name] = stored[name]
  }
  draft.change(id, { record })
}

/** The fields to change, without those that another device has changed, which are reported. */
function unconflicted(work: Work, edit: ChangeEdit): Partial<ItemFields> {
  const { id, fields } = edit
  const wanted: Partial<ItemFields> = work.wasStored ? { ...fields } : normalFields(fields)
  const now = work.tree.items.get(id)
  const was = work.shown.items.get(id)
  for (const name of fieldNames) {
    if (wanted[name] === undefined || !now || !was) continue
    // Tags and keyword of a former address are not put back at another one.
    const names =
      work.wasStored && (name === 'tags' || name === 'keyword') ? [name, 'address' as const] : [name]
    if (!hasChanged(work, id, names)) continue
    delete wanted[name]
    const message = `The ${name} of ${itemLabel(now, id)} was changed by another device meanwhile: it stays`
    report(work, edit, 'changed', id, message)
  }
  return wanted
}

function move(work: Work, edit: MoveEdit): void {
  const { tree, shown, draft, goals } = work
  const { id, folder } = edit
  const item = existing(work, edit, id)
  if (!item) return
  if (isRoot(item))
    return report(work, edit, 'invalid', id, `Cannot move ${itemLabel(item, id)}: it is a root folder`)
  if (!hasFolder(work, edit, id, folder)) return
  const now = tree.items.get(id)?.parent
  const was = shown.items.get(id)?.parent
  if (now !== undefined && was !== undefined && now !== was && now !== goals.get(id)?.parent) {
    const where = itemLabel(tree.items.get(now), now)
    const message = `${itemLabel(item, id)} was moved to ${where} by another device meanwhile: it stays there`
    return report(work, edit, 'changed', id, message)
  }
  if (now === folder && was === folder && !unmovedIn(work, folder).has(id)) {
    const where = itemLabel(draft.get(folder), folder)
    const message = `${itemLabel(item, id)} was moved within ${where} by another device meanwhile: it stays there`
    return report(work, edit, 'changed', id, message)
  }
  if (draft.isWithin(folder, id)) {
    const message = `Cannot move ${itemLabel(item, id)} into ${itemLabel(draft.get(folder), folder)}, which is in it`
    return report(work, edit, new DraftTree(shown).isWithin(folder, id) ? 'invalid' : 'changed', id, message)
  }
  draft.place(id, edit)
  if (now !== folder && edit.record?.parentid === folder) takeForm(work, edit, ['parentid', 'parentName'])
}

/** The items of a folder that are, among the others, where they were shown, or where the edits put them. */
function unmovedIn(work: Work, folder: string): ReadonlySet<string> {
  const { tree, shown, edits, wasStored, unmoved } = work
  const known = unmoved.get(folder)
  if (known) return known
  const { children } = tree.items.get(folder)!
  const befores = tree === shown ? [shown] : [shown, applyEdits(shown, edits, shown, wasStored).tree]
  const found = new Set(befores.flatMap((before) => [...stayingChildren(before, folder, children)]))
  unmoved.set(folder, found)
  return found
}

function remove(work: Work, edit: RemoveEdit): void {
  const { draft, shown, tree } = work
  const { id } = edit
  const item = draft.get(id)
  if (item && isRoot(item))
    return report(work, edit, 'invalid', id, `Cannot remove ${itemLabel(item, id)}: it is a root folder`)
  const contents = draft.below(id)
  const listed = new Set([id, ...(edit.shown ?? below(shown, id).map((each) => each.id))])
  const kept = new Set<string>()
  const keep = (each: Item, code: ProblemCode, reason: string) => {
    kept.add(each.id)
    report(work, edit, code, each.id, `${itemLabel(each, each.id)} ${reason}: it stays`)
  }
  const judge = (each: Item) => {
    if (!listed.has(each.id)) keep(each, 'kept', 'was added by another device meanwhile')
    else if (isChanged(work, each.id)) keep(each, 'changed', 'was changed by another device meanwhile')
    else if (each.children.some((child) => tree.unreadable.has(child)))
      keep(each, 'kept', 'contains a record that cannot be decrypted')
  }
  const present = new Set([id, ...contents.map((each) => each.id)])
  for (const each of listed) {
    const elsewhere = present.has(each) ? undefined : draft.get(each)
    if (elsewhere && isChanged(work, each))
      keep(elsewhere, 'changed', 'was moved by another device meanwhile')
  }
  // It was removed before.
  if (!item) return
  judge(item)
  if (kept.has(id)) return
  for (const each of contents) {
    // What is in a folder that stays, stays, and needs no name.
    if (kept.has(each.parent)) kept.add(each.id)
    else judge(each)
  }
  for (const { id: child, parent } of contents.toReversed()) {
    if (kept.has(child)) kept.add(parent)
    else draft.remove(child)
  }
  if (!kept.has(id)) draft.remove(id)
}

function existing(work: Work, edit: Edit, id: string): Item | undefined {
  const item = work.draft.get(id)
  if (!item) {
    const was = work.shown.items.get(id)
    const reason = work.tree.unreadable.has(id) ? 'cannot be decrypted' : 'does not exist any more'
    report(work, edit, 'gone', id, `${itemLabel(was, id)} ${reason}`)
  }
  return item
}

function hasFolder(work: Work, edit: AddEdit | MoveEdit, id: string, folder: string): boolean {
  const found = work.draft.get(folder)
  if (found?.kind === 'folder') return true
  const was = found ?? work.shown.items.get(folder)
  const title = itemLabel(
    work.draft.get(id),
    textOf(edit.op === 'add' ? edit.title || edit.address : '') || id,
  )
  if (was && was.kind !== 'folder')
    report(work, edit, 'invalid', id, `Cannot put ${title} into ${itemLabel(was, folder)}: it is no folder`)
  else
    report(
      work,
      edit,
      'folder-gone',
      id,
      `Cannot put ${title} into ${itemLabel(was, folder)}: the folder does not exist${was ? ' any more' : ''}`,
    )
  return false
}
