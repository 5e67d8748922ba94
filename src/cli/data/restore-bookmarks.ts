import { isRoot } from '../../client/edit/edit.ts'
import { readTree, type Tree } from '../../client/edit/tree.ts'
import { faultOf } from '../../client/engine-records.ts'
import { textOf, textsOf } from '../../client/fields.ts'
import { describeItem } from './differing-fields.ts'
import { someOf } from './phrases.ts'
import {
  emptyPlan,
  isWanted,
  recordLabel,
  type Plan,
  type Source,
  type Wanted,
  type Write,
} from './restore-plan.ts'
import { restoreItems } from './restored-items.ts'
import { restoreTree, type RestoredTree } from './restored-tree.ts'
import type { ReadableRecord, SyncRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'

/** Plans a restore of bookmarks: the edits that lead from what is there to what the backup has, as records. */
export async function planBookmarks(source: Source, wanted: Wanted): Promise<Plan> {
  const plan = emptyPlan()
  const read = await readSaved(source, wanted, plan)
  const current = await readCurrent(source, wanted, readTree(read.records))
  const isNew = (clear: ClearRecord) => !Bun.deepEquals(current.items.get(clear.id)?.record, clear)
  plan.faulty.push(...read.faulty.filter(({ clear }) => isNew(clear)).map(({ clear }) => clear.id))
  const mended = read.mended.filter(isNew).map(({ id }) => id)
  // What is there as it was saved has its place among the others.
  const present = read.faulty.filter(({ clear }) => !isNew(clear))
  const saved = { tree: readTree([...read.records, ...present]), others: read.others }
  if (mended.length > 0)
    plan.problems.push(`restored without fields that are not what Firefox writes: ${someOf(mended)}`)
  const selection = { ...wanted, isWanted: (id: string) => isWanted(id, wanted) }
  const result = restoreItems(current, saved.tree, selection)
  report(result, plan)
  for (const { code, message } of result.problems)
    (code === 'invalid' ? plan.problems : plan.notes).push(message)
  for (const { id, record, version } of result.writes) {
    const now = current.items.get(id)
    const kind = kindOf(id, current, result)
    const write: Write = { id, savedId: id, kind, version, clear: record }
    const after = result.tree.items.get(id)
    if (now && after) write.differences = describeItem(now, after, result.tree) || 'contents'
    plan.writes.push(write)
  }
  for (const id of saved.others)
    if (!current.items.has(id) && !current.deleted.has(id) && !current.unreadable.has(id))
      plan.writes.push({ id, savedId: id, kind: 'missing', version: null })
  if (!wanted.overwrites && wanted.deletedSince === null) {
    const all = restoreTree(current, saved.tree, { ...selection, overwrites: true })
    for (const id of all.restored) {
      const now = current.items.get(id)
      const differences = now && !isRoot(now) && describeItem(now, all.wanted.items.get(id)!, current)
      if (differences) plan.different.push({ title: recordLabel('bookmarks', now.record, id), differences })
    }
    for (const id of current.unreadable)
      if (saved.tree.items.has(id) && isWanted(id, wanted))
        plan.different.push({ title: id, differences: 'cannot be decrypted in the storage' })
  }
  return plan
}

/** The bookmarks of a backup. */
interface SavedBookmarks {
  records: SyncRecord[]
  /** The ids of records that are restored as they are: not encrypted, or for a key that was unknown then, too. */
  others: string[]
  /** Records that are not what Firefox writes, and so not restored; and folders that are, without what Firefox does not write. */
  faulty: ReadableRecord[]
  mended: ClearRecord[]
}

/** Reads the bookmarks of a backup; notes those that are left out. */
async function readSaved(
  { file, savedKeys, keys }: Source,
  wanted: Wanted,
  plan: Plan,
): Promise<SavedBookmarks> {
  const records: SyncRecord[] = []
  const others: string[] = []
  const faulty: ReadableRecord[] = []
  const mended: ClearRecord[] = []
  for (const id of file.ids) {
    const stored = await file.read(id)
    const { kind, clear } = await savedKeys.openRecord('bookmarks', stored)
    if (clear === null) {
      if (!isWanted(id, wanted)) continue
      if (kind === 'plain' || savedKeys.payload === keys.payload) others.push(id)
      else plan.unreadable.push(id)
      continue
    }
    const isFaulty = faultOf('bookmarks', clear) !== null
    const isFolder = clear.type === 'folder'
    if (isFaulty && isWanted(id, wanted)) {
      if (isFolder) mended.push(clear)
      else faulty.push({ collection: 'bookmarks', stored, clear, problem: null })
    }
    // What is in a folder should not suffer from it.
    if (!isFaulty || isFolder)
      records.push({
        collection: 'bookmarks',
        stored,
        clear: isFaulty ? mendedFolder(clear) : clear,
        problem: null,
      })
  }
  return { records, others, faulty, mended }
}

function mendedFolder({ id, type, title, parentid, children, dateAdded }: ClearRecord): ClearRecord {
  const isDate = typeof dateAdded === 'number'
  const fields = { title: textOf(title), parentid: textOf(parentid), children: textsOf(children) }
  return { id, type, ...fields, ...(isDate && { dateAdded }) }
}

/** Reads the present bookmarks; what can't be decrypted and is overwritten counts as deleted. */
async function readCurrent({ client, keys }: Source, wanted: Wanted, saved: Tree): Promise<Tree> {
  const records: SyncRecord[] = []
  for await (const page of client.collection('bookmarks').storedPages()) {
    for (const stored of page.records) {
      const { id } = stored
      const { clear } = await keys.openRecord('bookmarks', stored)
      const isReplaced = clear === null && wanted.overwrites && isWanted(id, wanted) && saved.items.has(id)
      records.push({
        collection: 'bookmarks',
        stored,
        clear: isReplaced ? { id, deleted: true } : clear,
        problem: null,
      })
    }
  }
  const tree = readTree(records)
  const items = new Map(tree.items)
  // An empty account has no records of the roots yet.
  for (const item of tree.items.values()) {
    const root = isRoot(item) && item.version === null ? saved.items.get(item.id) : undefined
    if (root) items.set(item.id, { ...item, record: { ...root.record, children: [] } })
  }
  return { ...tree, items }
}

function kindOf(id: string, { items, deleted }: Tree, { restored }: RestoredTree): Write['kind'] {
  if (!items.has(id)) return deleted.has(id) ? 'deleted' : 'missing'
  if (isRoot(items.get(id)!)) return items.get(id)!.version === null ? 'missing' : 'repaired'
  return restored.has(id) ? 'differs' : 'repaired'
}

/** Says where items go, and which are left. */
function report({ orphans, unmoved, retyped, unkeyed }: RestoredTree, plan: Plan): void {
  for (const [folder, count] of orphans)
    plan.notes.push(
      `${count} of them will be in Other Bookmarks, because their folder was deleted: restore it, too, with --id ${folder}`,
    )
  for (const [folder, former] of unmoved)
    plan.problems.push(
      `${folder} is not restored, because its former folder is in it now: restore that, too, with --id ${former}`,
    )
  if (unkeyed.length > 0)
    plan.problems.push(`restored without a keyword that another address has now: ${someOf(unkeyed)}`)
  if (retyped.length > 0)
    plan.problems.push(`not restored, because something of another type has the id now: ${someOf(retyped)}`)
}
