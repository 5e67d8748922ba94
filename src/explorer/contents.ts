import { isReadable, type SyncRecord } from '../client/collection.ts'
import { textsOf } from '../client/fields.ts'
import type { LoadedRecords } from './loaded-records.ts'
import type { Group } from './items.ts'
import { inOrder, type Order } from './order.ts'
import { Search } from './search.ts'
import { countOf, otherView, unreadableView, views, type View } from './views.ts'

/** A view and its items. */
export interface Content {
  view: View
  groups: Group[]
  count: number
}

interface Arranged extends Content {
  /** What the items were made from: as many changes of the view's collections. */
  changes: number
  /** The items that a search covers: each page once, at its last visit. */
  findable: Group[]
}

/** What the user has searched for, sorted by and filtered by. */
export interface Choice {
  /** @see wordsOf in `client/spelling.ts` */
  words: string[]
  order: Order
  /** A tag of bookmarks; empty: no filter. */
  tag: string
}

/** The items of all views, made from the records read so far. Cached, because every keystroke in the search uses them. */
export class Contents {
  /** The tags of bookmarks, with the number of bookmarks for each. */
  readonly tags: Map<string, number>
  /** Records that the key does not decrypt. */
  readonly unreadable: SyncRecord[]
  readonly #all: Arranged[]
  readonly #search = new Search()
  /** The last sorted and filtered contents. */
  #arranged: { order: Order; tag: string; contents: Arranged[] }

  /** `before`: earlier contents of the same records; views whose records have not changed since are taken from there. */
  constructor(loaded: LoadedRecords, before: Contents | null = null) {
    const known = new Set(views.flatMap(({ collections }) => collections))
    const others = loaded.collections.filter((collection) => !known.has(collection)).toSorted()
    this.unreadable = loaded.records().filter(({ clear }) => clear === null)
    const problems = this.unreadable.length > 0 ? [unreadableView(this.unreadable)] : []
    const arranged = before === null ? [] : before.#all
    const reusable = new Map(arranged.map((each) => [each.view.id, each]))
    this.#all = [...views, ...others.map(otherView), ...problems].map((view) => {
      const same = reusable.get(view.id)
      const changes = loaded.changesOf(view.collections)
      if (same?.changes === changes && view.collections.length > 0) return same
      const records = view.collections.map((name) => loaded.records([name]).filter(isReadable))
      return arrange(view, view.groups(...records), changes)
    })
    this.#arranged = { order: '', tag: '', contents: this.#all }
    const tags = loaded
      .records(['bookmarks'])
      .filter(isReadable)
      .flatMap(({ clear }) => textsOf(clear.tags))
    const counts = [...Map.groupBy(tags, (tag) => tag)].map(([tag, all]) => [tag, all.length] as const)
    this.tags = new Map(counts.toSorted(([left], [right]) => left.localeCompare(right)))
  }

  choose({ words, order, tag }: Choice): Content[] {
    if (order !== this.#arranged.order || tag !== this.#arranged.tag) {
      const contents = this.#all.map(({ view, groups, changes }) => {
        const tagged = tag !== '' && view.id === 'bookmarks' ? withTag(groups, tag) : groups
        return arrange(view, inOrder(tagged, order, view.isSortedFlat ?? false), changes)
      })
      this.#arranged = { order, tag, contents }
    }
    if (words.length === 0) return this.#arranged.contents
    return this.#arranged.contents.map(({ view, findable }) => {
      const groups = this.#search.matching(findable, words)
      return { view, groups, count: countOf(view, groups) }
    })
  }
}

function arrange(view: View, groups: Group[], changes: number): Arranged {
  const findable = groups.map((group) => ({
    ...group,
    items: group.items.filter(({ isRepeated }) => !isRepeated),
  }))
  return { view, groups, findable, count: countOf(view, findable), changes }
}

function withTag(groups: Group[], tag: string): Group[] {
  return groups.map(({ title, items }) => ({
    title,
    items: items.filter(({ record }) => textsOf(record.clear?.tags).includes(tag)),
  }))
}
