import { applyEdits } from '../../client/edit/apply-edits.ts'
import { requestsOf, type RecordWrite } from '../../client/edit/edit-requests.ts'
import type { Problem } from '../../client/edit/edit.ts'
import { editsBetween } from '../../client/edit/edits-between.ts'
import { readTree, versionOf, type Item, type Tree } from '../../client/edit/tree.ts'
import { textsOf } from '../../client/fields.ts'
import { restoreTree, type RestoredTree, type Selection } from './restored-tree.ts'
import type { SyncRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'

/** What a restore writes. */
export interface TreeRestore extends RestoredTree {
  tree: Tree
  problems: Problem[]
  writes: RecordWrite[]
}

/** Invalid records around what was written may be elsewhere afterwards, so more has to be written; rarely twice. */
const maxRounds = 5

/** Restores items of a backup; pure. Restored into its own result, a backup writes nothing. */
export function restoreItems(stored: Tree, saved: Tree, selection: Selection): TreeRestore {
  const first = restoreOnce(stored, saved, selection)
  const writes = new Map(first.writes.map((write) => [write.id, write]))
  let tree = stored
  let last = first.writes
  for (let round = 1; last.length > 0 && round < maxRounds; round += 1) {
    tree = afterWrites(tree, last)
    last = restoreOnce(tree, saved, selection).writes
    for (const write of last) writes.set(write.id, { ...write, version: versionOf(stored, write.id) })
  }
  return { ...first, writes: [...writes.values()] }
}

/** The tree that is read when these records have been written. */
function afterWrites(tree: Tree, writes: readonly RecordWrite[]): Tree {
  const records = new Map<string, SyncRecord>()
  const add = (id: string, version: number | null, clear: ClearRecord | null) => {
    const stored = { id, last_modified: version ?? 0 }
    records.set(id, { collection: 'bookmarks', stored, clear, problem: null })
  }
  for (const { id, version, record } of tree.items.values()) if (version !== null) add(id, version, record)
  for (const [id, version] of tree.deleted) add(id, version, { id, deleted: true })
  for (const id of tree.unreadable) add(id, 0, null)
  for (const { id, version, record } of writes) add(id, version, record)
  return readTree(records.values())
}

function restoreOnce(stored: Tree, saved: Tree, selection: Selection): TreeRestore {
  const current = withoutMissing(stored)
  const result = restoreTree(current, saved, selection)
  const edits = editsBetween(current, result.wanted, true)
  const { tree, problems } = applyEdits(current, edits, current, true)
  // The account of a Firefox that has never synced has no roots.
  const isMissingRoot = (id: string) =>
    current.items.get(id)?.version === null && saved.items.get(id)?.version !== null
  const roots = [...result.restored].filter((id) => isMissingRoot(id))
  const writes = requestsOf(current, tree, [
    ...roots,
    ...foldersWithLost(tree, saved, result.restored, selection),
  ])
  return { ...result, tree, problems, writes }
}

/** Folders whose records don't list what is restored in them: an earlier restore has not come so far, or a program has forgotten it. */
function foldersWithLost(
  { items }: Tree,
  saved: Tree,
  restored: ReadonlySet<string>,
  { isWanted }: Selection,
): string[] {
  const hasLost = ({ id: folder, children, record }: Item) => {
    const listed = new Set(textsOf(record.children))
    // What the folder did not list when it was saved was lost before.
    if (Bun.deepEquals(record.children, saved.items.get(folder)?.record.children)) return false
    return children.some(
      (id) =>
        !listed.has(id) &&
        items.has(id) &&
        (restored.has(folder) ||
          (isWanted(id) &&
            saved.items.get(id)?.parent === folder &&
            items.get(id)?.record.parentid === folder)),
    )
  }
  return [...items.values()].filter((item) => item.kind === 'folder' && hasLost(item)).map(({ id }) => id)
}

/** The tree without the listed ids that no record has: a restored one may belong elsewhere. */
function withoutMissing(tree: Tree): Tree {
  const items = new Map(tree.items)
  const isThere = (id: string) => items.has(id) || tree.unreadable.has(id)
  for (const [id, item] of tree.items) {
    const children = item.children.filter(isThere)
    if (children.length < item.children.length) items.set(id, { ...item, children })
  }
  return { ...tree, items }
}
