import { addressOf } from '../../client/addresses.ts'
import { applyEdits, sameField } from '../../client/edit/apply-edits.ts'
import { requestsOf, type RecordWrite } from '../../client/edit/edit-requests.ts'
import {
  isRoot,
  longestTag,
  longestTitle,
  normalFields,
  uniqueTags,
  type Problem,
} from '../../client/edit/edit.ts'
import { editsBetween, type WantedTree } from '../../client/edit/edits-between.ts'
import { textOf, textsOf } from '../../client/fields.ts'
import { topId } from '../../client/bookmark-places.ts'
import { below, readTree, versionOf, type Item, type Tree } from '../../client/edit/tree.ts'
import type { SyncRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'

/** Which items of a backup to restore. */
export interface Selection {
  isWanted(id: string): boolean
  /** Only those that were deleted after this time, in ms since 1970; null for all. */
  deletedSince: number | null
  /** Whether to restore items that exist and differ, too. */
  overwrites: boolean
}

/** What a restore wants. */
export interface RestoredTree {
  wanted: WantedTree
  /** The ids of the items that are restored, whether they differ or not. */
  restored: ReadonlySet<string>
  /** The number of restored items whose folder does not exist any more, by its id: they go to Other Bookmarks. */
  orphans: ReadonlyMap<string, number>
  /** Folders that are left as they are because their former folder is in them now, with the id of that. */
  unmoved: ReadonlyMap<string, string>
  /** The ids that items of another kind have now: Firefox syncs no bookmarks any more if a kind changes. */
  retyped: string[]
}

/** Where items that have no folder go. */
const strayFolder = 'unfiled'

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
  const { tree, problems } = applyEdits(current, editsBetween(current, result.wanted))
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

/**
 * The tree that a restore wants: what is there now, with the selected items of a backup at their former places.
 */
export function restoreTree(current: Tree, saved: Tree, selection: Selection): RestoredTree {
  const { restored, retyped } = select(current, saved, selection)
  const unmoved = leaveCycles(current, saved, restored)
  const parents = new Map<string, string>()
  const orphans = new Map<string, number>()
  for (const id of new Set([...current.items.keys(), ...restored])) {
    const parent = parentOf(id, current, saved, restored)!
    parents.set(id, parent)
    const former = saved.items.get(id)?.parent ?? parent
    const isOrphan = restored.has(id) && !current.items.has(id) && parent !== former
    if (isOrphan) orphans.set(former, (orphans.get(former) ?? 0) + 1)
  }
  returnStrays(current, saved, restored, parents)
  const items = new Map<string, Item>(current.items)
  for (const [id, parent] of parents)
    if (parent !== topId)
      items.set(
        id,
        restored.has(id) ? mergedItem(id, parent, current, saved) : { ...current.items.get(id)!, parent },
      )
  shareFields(items, restored, current)
  listChildren(items, parents, restored, current, saved, selection.isWanted)
  return { wanted: { items }, restored, orphans, unmoved, retyped }
}

/** The folder that an item will be in: of a restored one the former, if that exists. */
function parentOf(id: string, current: Tree, saved: Tree, restored: ReadonlySet<string>): string | undefined {
  const now = current.items.get(id)?.parent
  if (!restored.has(id)) return now
  const { parent } = saved.items.get(id)!
  const isThere = parent === topId || isFolderThere(parent, current, saved, restored)
  return isThere ? parent : (now ?? strayFolder)
}

/** Gives items that were left without a folder back to it, if it is restored. */
function returnStrays(
  current: Tree,
  saved: Tree,
  restored: ReadonlySet<string>,
  parents: Map<string, string>,
): void {
  for (const { id, parent, record } of current.items.values()) {
    const named = textOf(record.parentid)
    if (restored.has(id) || named === parent || current.items.has(named) || !restored.has(named)) continue
    if (saved.items.get(named)?.kind !== 'folder') continue
    let above: string | undefined = named
    while (above !== undefined && above !== id) above = parents.get(above)
    if (above === undefined) parents.set(id, named)
  }
}

function mergedItem(id: string, parent: string, current: Tree, saved: Tree): Item {
  const item = saved.items.get(id)!
  const now = current.items.get(id)
  const { address, tags, keyword } = normalFields({
    address: item.address,
    tags: item.tags.filter((tag) => tag.trim().length <= longestTag),
    keyword: item.keyword,
  })
  // Firefox gives separators no title.
  const title = item.kind === 'separator' ? (now?.title ?? '') : item.title.slice(0, longestTitle)
  const base = now ?? { ...item, version: current.deleted.get(id) ?? null }
  return { ...base, title, address: item.address === '' ? '' : address, tags, keyword, parent }
}

/** The selected items, each folder before its contents. */
function select(
  current: Tree,
  saved: Tree,
  { isWanted, deletedSince, overwrites }: Selection,
): { restored: Set<string>; retyped: string[] } {
  const restored = new Set<string>()
  const retyped: string[] = []
  const roots = [...saved.items.values()].filter(isRoot)
  for (const { id, kind } of roots.flatMap((root) => [root, ...below(saved, root.id)])) {
    if (!isWanted(id)) continue
    const now = current.items.get(id)
    if (now === undefined) {
      if (deletedSince !== null && !((current.deleted.get(id) ?? 0) > deletedSince)) continue
    } else if (isRoot(now)) {
      // Its order is restored with it, if the backup has its record.
      if ((!overwrites && now.version !== null) || saved.items.get(id)!.version === null) continue
    } else if (!overwrites || deletedSince !== null) continue
    else if (now.kind !== kind) {
      retyped.push(id)
      continue
    }
    restored.add(id)
  }
  return { restored, retyped }
}

function isFolderThere(id: string, current: Tree, saved: Tree, restored: ReadonlySet<string>): boolean {
  const item = current.items.get(id) ?? (restored.has(id) ? saved.items.get(id) : undefined)
  return item?.kind === 'folder'
}

/** Takes out folders that would be inside themselves; returns them, each with its former folder. */
function leaveCycles(current: Tree, saved: Tree, restored: Set<string>): Map<string, string> {
  const unmoved = new Map<string, string>()
  const above = (id: string) => parentOf(id, current, saved, restored)
  const isInItself = (id: string) => {
    const passed = new Set<string>()
    let folder = above(id)
    for (; folder !== undefined && folder !== id && !passed.has(folder); folder = above(folder))
      passed.add(folder)
    return folder === id
  }
  for (let isChanged = true; isChanged;) {
    isChanged = false
    // Each that is left may close another cycle where it is.
    for (const id of restored) {
      if (!current.items.has(id) || !isInItself(id)) continue
      unmoved.set(id, saved.items.get(id)!.parent)
      restored.delete(id)
      isChanged = true
    }
  }
  return unmoved
}

/**
 * Gives restored bookmarks the tags and the keyword of their address: what the bookmarks that stay have, else what all restored ones have.
 * Firefox keeps both for the address, and each keyword for one.
 */
function shareFields(items: Map<string, Item>, restored: ReadonlySet<string>, current: Tree): void {
  const staying = new Map<string, Item[]>()
  const keywords = new Map<string, string>()
  const addTo = (groups: Map<string, Item[]>, item: Item) => {
    if (item.address === '') return
    const address = addressOf({ bmkUri: item.address })
    const group = groups.get(address)
    if (group) group.push(item)
    else groups.set(address, [item])
  }
  for (const item of current.items.values()) if (!restored.has(item.id)) addTo(staying, item)
  // Of several for one address, the first is what Firefox has.
  for (const [address, group] of staying) {
    const keyword = sharedKeyword(group)
    if (keyword !== '') keywords.set(keyword, address)
  }
  const groups = new Map<string, Item[]>()
  for (const id of restored) if (items.has(id)) addTo(groups, items.get(id)!)
  for (const [address, group] of groups) {
    const present = staying.get(address)
    const source = present ?? group
    const tags = uniqueTags(source.flatMap((item) => item.tags))
    const found = sharedKeyword(source)
    const isFree = present !== undefined || (keywords.get(found) ?? address) === address
    const keyword = isFree ? found : ''
    if (keyword !== '') keywords.set(keyword, address)
    for (const item of group) items.set(item.id, { ...item, tags, keyword })
  }
}

function sharedKeyword(items: readonly Item[]): string {
  return items.map((item) => normalFields(item).keyword).find((each) => each !== '') ?? ''
}

/**
 * Lists the contents of each folder: in the order of the backup if the folder is restored, else in the present one, with restored items, and
 * those that the folder does not list yet, at their former places.
 */
function listChildren(
  items: Map<string, Item>,
  parents: ReadonlyMap<string, string>,
  restored: ReadonlySet<string>,
  current: Tree,
  saved: Tree,
  isWanted: (id: string) => boolean,
): void {
  const contents = new Map<string, Set<string>>()
  for (const [id, parent] of parents) {
    const folder = contents.get(parent)
    if (folder) folder.add(id)
    else contents.set(parent, new Set([id]))
  }
  for (const [id, item] of items) {
    if (item.kind !== 'folder') continue
    const own = contents.get(id) ?? new Set()
    const now = current.items.get(id)?.children ?? []
    const before = saved.items.get(id)?.children ?? []
    const stored = new Set(textsOf(current.items.get(id)?.record.children))
    const known = new Set(before)
    const isListed = (child: string) => stored.has(child) || !known.has(child) || !isWanted(child)
    const listed = restored.has(id) ? before : now.filter(isListed)
    // What is new in a restored folder stays at its end.
    const order = restored.has(id) ? now : before
    const children = listed.filter((child) => own.has(child))
    const others = own.difference(new Set(children))
    const merged = restored.has(id)
      ? [...children, ...order.filter((child) => others.has(child))]
      : mergeChildren(children, order, others)
    items.set(id, { ...item, children: [...new Set([...merged, ...others])] })
  }
}

/**
 * Merges further children into a list: each after its predecessor in another list that is in this one, first if there is none, and last if it
 * is not in the other list.
 */
export function mergeChildren(
  now: readonly string[],
  before: readonly string[],
  more: ReadonlySet<string>,
): string[] {
  const present = new Set(now)
  const following = new Map<string | null, string[]>()
  let anchor: string | null = null
  const known = new Set(before)
  for (const id of known) {
    if (present.has(id)) anchor = id
    else if (more.has(id)) following.getOrInsertComputed(anchor, () => []).push(id)
  }
  const unknown = [...more].filter((id) => !known.has(id))
  const takeAfter = (id: string | null) => following.get(id) ?? []
  return [...takeAfter(null), ...[...present].flatMap((id) => [id, ...takeAfter(id)]), ...unknown]
}

/** How an item differs from the wanted one, such as `title "Now" → "Before", tags`; empty if it does not. */
export function describeItem(now: Item, wanted: Item, { items }: Pick<Tree, 'items'>): string {
  const folder = (id: string) => items.get(id)?.title ?? id
  const differences = (['title', 'address'] as const)
    .filter((name) => !sameField(name, now, wanted))
    .map((name) => `${name} ${shown(now[name])} → ${shown(wanted[name])}`)
  if (now.parent !== wanted.parent)
    differences.push(`folder ${shown(folder(now.parent))} → ${shown(folder(wanted.parent))}`)
  for (const name of ['tags', 'keyword'] as const) if (!sameField(name, now, wanted)) differences.push(name)
  return differences.join(', ')
}

const maxShown = 60

function shown(text: string): string {
  return JSON.stringify(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text)
}
