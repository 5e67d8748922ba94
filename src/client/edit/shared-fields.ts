/** Tags and keyword belong to an address: Firefox keeps them once for all its bookmarks, and each keyword for one address. */
import { normalAddress, normalKeyword } from './draft-tree.ts'
import { itemLabel, uniqueTags, type AddEdit, type ChangeEdit, type ItemFields } from './edit.ts'
import { sameTags, type Item } from './tree.ts'
import { hasChanged, isChanged, report, sameField, type Work } from './work.ts'

/** Sets tags and keyword of a bookmark, and of all others of its address. */
export function setShared(work: Work, one: Item, shared: Pick<ItemFields, 'tags' | 'keyword'>): void {
  const { tags, keyword } = shared
  for (const item of one.address === '' ? [one] : sharing(work, one.address, one.id))
    if (!sameTags(item.tags, tags) || item.keyword !== keyword) work.draft.change(item.id, { tags, keyword })
}

/** Moves a bookmark to another address, as Firefox does: its tags go along, and so does its keyword if it was the last bookmark. */
export function changeAddress(
  work: Work,
  edit: ChangeEdit,
  item: Item,
  address: string,
  given?: string,
): void {
  const { id, address: former, keyword } = item
  const others = giving(work, address, id)
  work.draft.change(id, { address })
  const isLast = work.draft.withAddress(former).every((other) => other.id === id)
  const moved = work.draft.get(id)!
  const isPutBack = work.wasStored && given === undefined && !hasChanged(work, id, ['keyword'])
  const own = isPutBack ? takeKeyword(work, edit, moved, keyword) : isLast ? keyword : ''
  setShared(work, moved, {
    tags: sharedTags([...others, item]),
    keyword: sharedKeyword(others) || own,
  })
}

/** Takes a keyword from the bookmarks of other addresses; an undo leaves it to those that got it since. Returns the one that the item gets. */
export function takeKeyword(work: Work, edit: ChangeEdit, item: Item, keyword: string): string {
  if (keyword === '') return ''
  const others = withKeywordOf(work, { ...item, keyword })
  if (work.wasStored && others.length > 0) {
    const message = `${itemLabel(item, item.id)} does not get its keyword ${JSON.stringify(keyword)} back, which another address has`
    report(work, edit, 'changed', item.id, message)
    return ''
  }
  for (const { id } of others) work.draft.change(id, { keyword: '' })
  return keyword
}

/** The keyword, unless another address has it, which would lose it. */
export function freeKeyword(
  work: Work,
  edit: AddEdit,
  given: Pick<ItemFields, 'address' | 'keyword'>,
): string {
  const { keyword } = given
  if (keyword === '' || withKeywordOf(work, given).length === 0) return keyword
  const message = `Added without its keyword ${JSON.stringify(keyword)}, which another address has`
  report(work, edit, 'changed', edit.id!, message)
  return ''
}

/**
 * The bookmarks of other addresses that have the keyword of this one. For an undo, only those that got it since, or that stay because they were
 * changed since: the others had it then, too.
 */
function withKeywordOf(work: Work, item: Pick<ItemFields, 'address' | 'keyword'>): Item[] {
  const { draft, tree, shown, goals, wasStored } = work
  const isIn = (each: Item | undefined) => each && normalKeyword(each) === normalKeyword(item)
  const isNew = (id: string) => {
    const [now, was] = [tree.items.get(id), shown.items.get(id)]
    if (!isIn(now)) return false
    const isKept = goals.get(id)?.isRemoved === true && isChanged(work, id)
    return isKept || !isIn(was) || !sameField('address', now!, was!)
  }
  const others = draft.withKeyword(item.keyword).filter((each) => normalAddress(each) !== normalAddress(item))
  return others.filter(({ id }) => !wasStored || isNew(id))
}

/**
 * The bookmarks that share the tags and the keyword of an address, the one with this id included. An undo puts back what each had, also if they
 * disagreed: there, only those share that others have added or changed since.
 */
function sharing(work: Work, address: string, own: string): Item[] {
  const same = work.draft.withAddress(address)
  if (!work.wasStored) return same
  const known = normalAddress({ address })
  const isLeaving = (id: string) =>
    (work.goals.get(id)?.address ?? known) !== known && !hasChanged(work, id, ['address'])
  const isLate = isLater(work, own)
  return same.filter(({ id }) => id === own || (!isLeaving(id) && (isLate || isLater(work, id))))
}

/** The bookmarks of which one that comes to their address gets tags and keyword. */
export function giving(work: Work, address: string, own: string): Item[] {
  const isLeaving = (id: string) => work.wasStored && work.goals.get(id)?.isRemoved === true
  return sharing(work, address, own).filter(({ id }) => id !== own && !isLeaving(id))
}

/** Whether a bookmark was not at its address, or not with its tags and keyword, when what an undo puts back was there. */
function isLater(work: Work, id: string): boolean {
  const { tree, shown, goals } = work
  if (!tree.items.has(id)) return false
  if (!shown.items.has(id)) return !goals.has(id)
  return goals.get(id)?.isRemoved === true || hasChanged(work, id, ['address', 'tags', 'keyword'])
}

/** The tags of all; as they are if all have the same. */
export function sharedTags(items: readonly Pick<ItemFields, 'tags'>[]): readonly string[] {
  const { tags } = items.at(-1)!
  const isShared = items.every((item) => sameTags(item.tags, tags))
  return isShared ? tags : uniqueTags(items.flatMap((item) => item.tags))
}

export function sharedKeyword(items: Item[]): string {
  return items.find(({ keyword }) => keyword !== '')?.keyword ?? ''
}

/**
 * A written bookmark must have what the others of its address have: Firefox would take it from them. What an undo puts back may disagree as it
 * did before.
 */
export function shareFields(work: Work): void {
  const { draft } = work
  for (const { id, address } of draft.changed()) {
    const same = address === '' ? [] : draft.withAddress(address)
    if (same.length < 2 || (work.wasStored && !same.some((each) => isLater(work, each.id)))) continue
    const tags = sharedTags(same)
    const keyword = sharedKeyword(same)
    const item = draft.get(id)!
    if (!sameTags(item.tags, tags) || item.keyword !== keyword) draft.change(id, { tags, keyword })
  }
}
