import { isRoot, type Edit, type ItemFields, type Place } from './edit.ts'
import { applyEdits } from './apply-edits.ts'
import { sameField } from './work.ts'
import { normalAddress, normalKeyword } from './draft-tree.ts'
import { rootTitles } from '../bookmark-places.ts'
import { stayingChildren } from './order.ts'
import { below, isLink, sameTags, type Item, type Tree } from './tree.ts'

/** The tree that edits should lead to: items that are new have an empty record or that of a backup, and no version. */
export type WantedTree = Pick<Tree, 'items'>

/**
 * The edits that lead from the tree that was shown to the one that is wanted: as few moves as possible, folders before their contents.
 * Applied to the tree that was shown, they result in the wanted one; applied to a later one, they keep what others have changed.
 * `wasStored`: whether they lead to what was stored before, and so to its spelling; see `applyEdits`.
 */
export function editsBetween(shown: Tree, given: WantedTree, wasStored = false): Edit[] {
  const wanted = wasStored ? given : withMovedKeywords(shown, given)
  const places: Edit[] = []
  const changes: Edit[] = []
  const isSame = wasStored ? hasSameField : sameField
  const formOf = ({ record }: Item) => (wasStored ? { record } : {})
  const withKeyword = [...shown.items.values()].filter(({ keyword }) => keyword !== '' && !wasStored)
  const taken = new Map(withKeyword.map((item) => [normalKeyword(item), normalAddress(item)]))
  const folders = [...rootTitles.keys()].filter((id) => wanted.items.has(id))
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const children = wanted.items.get(folder)!.children.filter((id) => wanted.items.has(id))
    const staying = stayingChildren(shown, folder, children)
    const positions = placesOf(folder, children, staying)
    for (const [index, id] of children.entries()) {
      const item = wanted.items.get(id)!
      const was = shown.items.get(id)
      if (!was) places.push(addOf(wasStored ? item : spelled(item), positions[index]!, taken))
      else if (!staying.has(id)) places.push({ op: 'move', id, ...positions[index]!, ...formOf(item) })
      const fields = was ? changedFields(was, item, isSame) : {}
      if (Object.keys(fields).length > 0) changes.push({ op: 'change', id, fields, ...formOf(item) })
      if (item.kind === 'folder') folders.push(id)
    }
  }
  // First, because a bookmark takes its tags to its new address, and gives none to bookmarks that are added to the former one.
  const hasAddress = (edit: Edit) => edit.op === 'change' && edit.fields.address !== undefined
  const addresses = changes.filter(hasAddress)
  // A keyword must be free before another bookmark has it again.
  const isFreeing = (edit: Edit) => wasStored && edit.op === 'change' && edit.fields.keyword === ''
  const others = changes.filter((edit) => !hasAddress(edit))
  const [first, last] = [others.filter(isFreeing), others.filter((edit) => !isFreeing(edit))]
  const edits = [...first, ...addresses, ...places, ...last, ...removals(shown, wanted)]
  const result = applyEdits(shown, edits, shown, wasStored).tree
  for (const [item, fields] of sharedChanges(result, wanted, isSame))
    edits.push({ op: 'change', id: item.id, fields, ...formOf(item) })
  return edits
}

type SameField = typeof sameField

function hasSameField(name: keyof ItemFields, one: ItemFields, other: ItemFields): boolean {
  return name === 'tags' ? sameTags(one.tags, other.tags) : one[name] === other[name]
}

/** With the address as Firefox stores it. */
function spelled(item: Item): Item {
  return { ...item, address: normalAddress(item) }
}

/** A keyword belongs to one address: where one gets it, the one that had it is wanted without it. */
function withMovedKeywords(shown: Tree, wanted: WantedTree): WantedTree {
  const targets = new Map<string, string>()
  const withKeyword = [...wanted.items.values()].filter(({ keyword }) => keyword !== '')
  for (const item of withKeyword) {
    const was = shown.items.get(item.id)
    const isSame = was && sameField('keyword', was, item) && sameField('address', was, item)
    if (!isSame) targets.set(normalKeyword(item), normalAddress(item))
  }
  const lost = withKeyword.filter((item) => {
    const address = normalAddress(item)
    return (targets.get(normalKeyword(item)) ?? address) !== address
  })
  if (lost.length === 0) return wanted
  return {
    items: new Map([...wanted.items, ...lost.map((item) => [item.id, { ...item, keyword: '' }] as const)]),
  }
}

/** The tags and keywords that the edits leave otherwise than wanted, because an address gives its own to what is added or moved to it. */
function sharedChanges(
  { items: result }: Tree,
  { items: wanted }: WantedTree,
  isSame: SameField,
): [Item, Partial<ItemFields>][] {
  const changes: [Item, Partial<ItemFields>][] = []
  const shared = new Map<string, Item | null>()
  for (const item of wanted.values()) {
    const address = normalAddress(item)
    const other = shared.get(address)
    // What bookmarks of one address disagree about is not wanted by all.
    shared.set(address, other === undefined || (other && isShared(other, item, isSame)) ? item : null)
  }
  for (const [address, item] of shared) {
    const is = item && result.get(item.id)
    if (address !== '' && is && !isShared(is, item, isSame))
      changes.push([item, changedFields(is, item, isSame)])
  }
  return changes
}

function isShared(one: Item, other: Item, isSame: SameField): boolean {
  return isSame('tags', one, other) && isSame('keyword', one, other)
}

/** Without a keyword that was shown at another address: that one is changed once it is there. */
function addOf(item: Item, place: Place, taken: ReadonlyMap<string, string>): Edit {
  const { id, kind, title, address, tags, keyword, addedMs, record } = item
  const own = normalAddress(item)
  const isFree = keyword !== '' && (taken.get(normalKeyword(item)) ?? own) === own
  return {
    op: 'add',
    id,
    kind,
    ...place,
    ...(kind !== 'separator' && { title }),
    ...(isLink(kind) && { address, tags, ...(isFree && { keyword }) }),
    ...(addedMs > 0 && { addedMs }),
    ...(Object.keys(record).length > 1 && { record }),
  }
}

function changedFields(was: Item, item: Item, isSame: SameField): Partial<ItemFields> {
  if (isRoot(was)) return {}
  const names = ['title', 'address', 'tags', 'keyword'] as const
  const changed = names.filter((name) => !isSame(name, was, item))
  return Object.fromEntries(changed.map((name) => [name, item[name]]))
}

/** The place of each child: after the one before it, and before the next one that stays. */
function placesOf(folder: string, children: readonly string[], staying: ReadonlySet<string>): Place[] {
  const places: Place[] = []
  let next: string | null = null
  for (let index = children.length - 1; index >= 0; index -= 1) {
    const after = index === 0 ? null : children[index - 1]!
    places[index] = { folder, after, ...(next !== null && { before: next }) }
    if (staying.has(children[index]!)) next = children[index]!
  }
  return places
}

/** One edit for each removed item whose folder stays, with what was shown below it and is removed, too. */
function removals(shown: Tree, wanted: WantedTree): Edit[] {
  const isRemoved = (id: string) => shown.items.has(id) && !wanted.items.has(id)
  return [...shown.items.values()]
    .filter(({ id, parent }) => isRemoved(id) && !isRemoved(parent))
    .map(({ id }) => {
      const contents = below(shown, id).map((item) => item.id)
      return { op: 'remove', id, shown: contents.filter(isRemoved) }
    })
}
