import { addressOf } from '../../client/addresses.ts'
import { strayFolder, topId } from '../../client/bookmark-places.ts'
import { sharedTags } from '../../client/edit/shared-fields.ts'
import { sameField } from '../../client/edit/work.ts'
import { normalKeyword } from '../../client/edit/draft-tree.ts'
import { isRoot, type ItemFields } from '../../client/edit/edit.ts'
import type { WantedTree } from '../../client/edit/edits-between.ts'
import { below, type Item, type Tree } from '../../client/edit/tree.ts'
import { textOf, textsOf } from '../../client/fields.ts'

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
  /** The ids of those whose keyword another address has got since. */
  unkeyed: string[]
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
  const unkeyed = shareFields(items, restored, current, saved)
  listChildren(items, parents, restored, current, saved, selection.isWanted)
  return { wanted: { items }, restored, orphans, unmoved, retyped, unkeyed }
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

/** The item as it was saved; fields that Firefox takes for the same keep their present spelling. */
function mergedItem(id: string, parent: string, current: Tree, saved: Tree): Item {
  const item = saved.items.get(id)!
  const now = current.items.get(id)
  if (!now) return { ...item, version: current.deleted.get(id) ?? null, parent }
  const field = <Name extends keyof ItemFields>(name: Name): Item[Name] =>
    (sameField(name, now, item) ? now : item)[name]
  // Firefox gives separators no title.
  const title = item.kind === 'separator' ? now.title : field('title')
  const [address, tags, keyword] = [field('address'), field('tags'), field('keyword')]
  return { ...now, title, address, tags, keyword, parent, record: item.record }
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
 * Firefox keeps both for the address, and each keyword for one. If none of an address differs from what is there, all of them stay so. Returns
 * the ids of those whose keyword another address has got since.
 */
function shareFields(
  items: Map<string, Item>,
  restored: ReadonlySet<string>,
  current: Tree,
  saved: Tree,
): string[] {
  const unkeyed: string[] = []
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
  const hadKeyword = ({ id, keyword }: Item) =>
    normalKeyword(saved.items.get(id) ?? { keyword: '' }) === normalKeyword({ keyword })
  // Of several for one address, the first is what Firefox has.
  for (const [address, group] of staying) {
    const keyword = sharedKeyword(group)
    if (keyword !== '' && !group.some(hadKeyword)) keywords.set(normalKeyword({ keyword }), address)
  }
  const groups = new Map<string, Item[]>()
  for (const id of restored) if (items.has(id)) addTo(groups, items.get(id)!)
  const isAsNow = (item: Item) => {
    const now = current.items.get(item.id)
    return now && (['address', 'tags', 'keyword'] as const).every((name) => sameField(name, now, item))
  }
  for (const [address, group] of groups) {
    if (group.every(isAsNow)) continue
    const present = staying.get(address)
    const source = present ?? group
    const tags = sharedTags(source)
    const found = sharedKeyword(source)
    const isFree =
      present !== undefined || (keywords.get(normalKeyword({ keyword: found })) ?? address) === address
    const keyword = isFree ? found : ''
    if (!isFree) unkeyed.push(...group.map(({ id }) => id))
    for (const item of group) items.set(item.id, { ...item, tags, keyword })
  }
  return unkeyed
}

function sharedKeyword(items: readonly Item[]): string {
  return items.find((item) => normalKeyword(item) !== '')?.keyword ?? ''
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
    const before = savedOrder(saved.items.get(id), now)
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

/** The saved contents of a folder; what its record did not list has no place of its own, and so the present one. */
function savedOrder(folder: Item | undefined, now: readonly string[]): string[] {
  if (!folder) return []
  const recorded = new Set(textsOf(folder.record.children))
  const contents = new Set(folder.children)
  const others = now.filter((child) => contents.has(child) && !recorded.has(child))
  return [...new Set([...folder.children.filter((child) => recorded.has(child)), ...others, ...contents])]
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
