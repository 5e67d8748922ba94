/** The candidate with the smallest edit distance to a word; null if none is close. */
export function nearest(word: string, candidates: string[]): string | null {
  const allowed = Math.max(1, Math.min(4, Math.floor(word.length / 3)))
  const ranked = candidates.map((candidate) => {
    return { candidate, distance: editDistance(word.toLowerCase(), candidate) }
  })
  const near = ranked.filter(({ distance }) => distance <= allowed)
  return near.toSorted((a, b) => a.distance - b.distance)[0]?.candidate ?? null
}

/** Counts letters that are added, missing, replaced, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  // Each row belongs to a beginning of `a`, and has the distances to all beginnings of `b`.
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  for (let row = 1; row <= a.length; row++) {
    const [above, current] = [rows[row - 1]!, [row]]
    for (let column = 1; column <= b.length; column++) {
      const replaced = above[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      const isSwapped = row > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      const swapped = isSwapped ? rows[row - 2]![column - 2]! + 1 : Infinity
      current.push(Math.min(above[column]! + 1, current[column - 1]! + 1, replaced, swapped))
    }
    rows.push(current)
  }
  return rows[a.length]![b.length]!
}
