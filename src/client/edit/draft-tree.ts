import { addressOf } from '../addresses.ts'
import { below, type Item, type Tree } from './tree.ts'
import type { Place } from './edit.ts'

/** An item that may be changed. */
export type DraftItem = { -readonly [Field in keyof Item]: Item[Field] }

/**
 * A tree while edits are applied to it. Copies only what changes; siblings are linked lists, so that thousands of moves in a large folder
 * take linear time.
 */
export class DraftTree {
  readonly #tree: Tree
  readonly #items: Map<string, Item>
  readonly #deleted: Map<string, number>
  /** The ids of items that are copies. */
  readonly #copied = new Set<string>()
  /** The neighbours of each id in a folder that was opened; null at the ends. */
  readonly #next = new Map<string, string | null>()
  readonly #previous = new Map<string, string | null>()
  readonly #ends = new Map<string, { first: string | null; last: string | null }>()
  /** The opened folder that lists an id. */
  readonly #listedIn = new Map<string, string>()
  #byAddress: Map<string, Set<string>> | null = null
  #byKeyword: Map<string, Set<string>> | null = null

  constructor(tree: Tree) {
    this.#tree = tree
    this.#items = new Map(tree.items)
    this.#deleted = new Map(tree.deleted)
  }

  get(id: string): Item | undefined {
    return this.#items.get(id)
  }

  /** The items below a folder, each folder before its contents. */
  below(folder: string): Item[] {
    return below({ items: this.#withChildren() }, folder)
  }

  /** Whether an item is this folder or somewhere in it. */
  isWithin(id: string, folder: string): boolean {
    let above: string | undefined = id
    while (above !== undefined && above !== folder) above = this.#items.get(above)?.parent
    return above === folder
  }

  /** The ids in a folder, in order; of unreadable records, too. */
  childrenOf(folder: string): string[] {
    const ends = this.#ends.get(folder)
    if (!ends) return [...(this.#items.get(folder)?.children ?? [])]
    const children: string[] = []
    for (let id = ends.first; id !== null; id = this.#next.get(id) ?? null) children.push(id)
    return children
  }

  /** The bookmarks of an address, in any spelling. */
  withAddress(address: string): Item[] {
    return this.#found((this.#byAddress ??= this.#index(normalAddress)).get(addressOf({ bmkUri: address })))
  }

  withKeyword(keyword: string): Item[] {
    return this.#found((this.#byKeyword ??= this.#index(normalKeyword)).get(normalKeyword({ keyword })))
  }

  add(item: Item, place: Place): void {
    this.#items.set(item.id, item)
    this.#copied.add(item.id)
    this.#enter(item)
    this.place(item.id, place)
  }

  /** Puts an item, which may be elsewhere now, into a place. */
  place(id: string, { folder, after, before }: Place): void {
    this.#open(folder)
    const { first } = this.#ends.get(folder)!
    const isThere = (other: string | null | undefined): other is string =>
      typeof other === 'string' && other !== id && this.#listedIn.get(other) === folder
    if (this.#items.get(id)!.parent !== folder) this.#edit(id).parent = folder
    let previous: string | null
    if (after === null) previous = null
    else if (isThere(after)) previous = after
    else if (isThere(before)) previous = this.#previous.get(before) ?? null
    else previous = this.#ends.get(folder)!.last
    if (previous === id || (after === null && first === id)) return
    this.#detach(id)
    this.#insert(id, folder, previous)
  }

  /** Removes an item from its folder, and from the tree. */
  remove(id: string): void {
    const { parent, version } = this.#items.get(id)!
    this.#open(parent)
    this.#detach(id)
    this.#leave(this.#items.get(id)!)
    this.#items.delete(id)
    if (version !== null) this.#deleted.set(id, version)
  }

  /** Changes fields of an item. */
  change(id: string, fields: Partial<Pick<Item, 'title' | 'address' | 'tags' | 'keyword' | 'record'>>): void {
    this.#leave(this.#items.get(id)!)
    this.#enter(Object.assign(this.#edit(id), fields))
  }

  /** The items that were added or changed so far, without those that only got another place. */
  changed(): Item[] {
    return this.#found(this.#copied)
  }

  finish(): Tree {
    for (const folder of this.#ends.keys()) this.#close(folder)
    return { items: this.#items, deleted: this.#deleted, unreadable: this.#tree.unreadable }
  }

  #edit(id: string): DraftItem {
    if (!this.#copied.has(id)) this.#items.set(id, { ...this.#items.get(id)! })
    this.#copied.add(id)
    return this.#items.get(id)!
  }

  #found(ids: Iterable<string> | undefined): Item[] {
    return [...(ids ?? [])].flatMap((id) => this.#items.get(id) ?? [])
  }

  /** The items with their present children. */
  #withChildren(): ReadonlyMap<string, Item> {
    const get = (id: string) => {
      const item = this.#items.get(id)
      return item && { ...item, children: this.childrenOf(id) }
    }
    return { get } as ReadonlyMap<string, Item>
  }

  #open(folder: string): void {
    if (this.#ends.has(folder)) return
    let last: string | null = null
    const children = this.#items.get(folder)?.children ?? []
    for (const id of children) {
      this.#link(last, id)
      this.#listedIn.set(id, folder)
      last = id
    }
    if (last !== null) this.#next.set(last, null)
    this.#ends.set(folder, { first: children[0] ?? null, last })
  }

  #link(previous: string | null, id: string): void {
    this.#previous.set(id, previous)
    if (previous !== null) this.#next.set(previous, id)
  }

  #detach(id: string): void {
    const { parent } = this.#items.get(id)!
    // The folder that lists it may be another one than its new parent.
    const folder = this.#listedIn.get(id) ?? this.#openLister(id, parent)
    if (folder === undefined) return
    const ends = this.#ends.get(folder)!
    const previous = this.#previous.get(id) ?? null
    const next = this.#next.get(id) ?? null
    if (previous === null) ends.first = next
    else this.#next.set(previous, next)
    if (next === null) ends.last = previous
    else this.#previous.set(next, previous)
    this.#listedIn.delete(id)
  }

  /** Opens the folder that listed an item at first. */
  #openLister(id: string, parent: string): string | undefined {
    this.#open(this.#tree.items.get(id)?.parent ?? parent)
    return this.#listedIn.get(id)
  }

  #insert(id: string, folder: string, previous: string | null): void {
    const ends = this.#ends.get(folder)!
    const next = previous === null ? ends.first : (this.#next.get(previous) ?? null)
    this.#link(previous, id)
    this.#next.set(id, next)
    if (next === null) ends.last = id
    else this.#previous.set(next, id)
    if (previous === null) ends.first = id
    this.#listedIn.set(id, folder)
  }

  /** Writes the order of an opened folder into its items. */
  #close(folder: string): void {
    const item = this.#items.get(folder)
    if (!item) return
    const children = this.childrenOf(folder)
    if (children.length !== item.children.length || children.some((id, at) => id !== item.children[at]))
      this.#edit(folder).children = children
    let place = 0
    for (const id of children) {
      const child = this.#items.get(id)
      if (!child) continue
      if (child.place !== place) this.#edit(id).place = place
      place += 1
    }
  }

  #index(keyOf: (item: Item) => string): Map<string, Set<string>> {
    const index = new Map<string, Set<string>>()
    for (const item of this.#items.values()) enter(index, keyOf(item), item.id)
    return index
  }

  #enter(item: Item): void {
    if (this.#byAddress) enter(this.#byAddress, normalAddress(item), item.id)
    if (this.#byKeyword) enter(this.#byKeyword, normalKeyword(item), item.id)
  }

  #leave(item: Item): void {
    this.#byAddress?.get(normalAddress(item))?.delete(item.id)
    this.#byKeyword?.get(normalKeyword(item))?.delete(item.id)
  }
}

function enter(index: Map<string, Set<string>>, key: string, id: string): void {
  if (key === '') return
  const ids = index.get(key)
  if (ids) ids.add(id)
  else index.set(key, new Set([id]))
}

/** The address of a bookmark in the form that Firefox stores; empty for other items. */
export function normalAddress({ address }: Pick<Item, 'address'>): string {
  return addressOf({ bmkUri: address })
}

/** A keyword in the form that Firefox stores. */
export function normalKeyword({ keyword }: Pick<Item, 'keyword'>): string {
  return keyword.trim().toLowerCase()
}
