import type { Tree } from './tree.ts'

/** Most of the children that are in the folder already, and in the same order: the longest increasing run of their places. */
export function stayingChildren(shown: Tree, folder: string, children: readonly string[]): Set<string> {
  const staying = children.filter((id) => shown.items.get(id)?.parent === folder)
  const places = staying.map((id) => shown.items.get(id)!.place)
  /** By the length of a run: the index of its smallest last place. */
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
