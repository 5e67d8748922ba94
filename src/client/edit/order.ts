import type { Tree } from './tree.ts'

/** Most of the children that are in the folder already, and in the same order. */
export function stayingChildren(shown: Tree, folder: string, children: readonly string[]): Set<string> {
  const placeOf = (id: string) => {
    const item = shown.items.get(id)
    return item?.parent === folder ? item.place : undefined
  }
  return inOrder(children, placeOf)
}

/** Most of the ids that have a place, and are in the order of their places. */
export function inOrder(ids: readonly string[], placeOf: (id: string) => number | undefined): Set<string> {
  const staying = ids.filter((id) => placeOf(id) !== undefined)
  const places = staying.map((id) => placeOf(id)!)
  /** The longest increasing run; by the length of a run: the index of its smallest last place. */
  const ends: number[] = []
  const previous: number[] = []
  for (const [index, place] of places.entries()) {
    let [low, high] = [0, ends.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (places[ends[middle]!]! < place) low = middle + 1
      else high = middle
    }
    previous[index] = low > 0 ? ends[low - 1]! : -1
    ends[low] = index
  }
  const found = new Set<string>()
  for (let index = ends.at(-1) ?? -1; index >= 0; index = previous[index]!) found.add(staying[index]!)
  return found
}
