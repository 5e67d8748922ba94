/** The candidate with the smallest edit distance to a word; null when none is near. */
export function nearest(word: string, candidates: string[]): string | null {
  const allowed = Math.max(1, Math.min(4, Math.floor(word.length / 3)))
  let best: { candidate: string; distance: number } | null = null
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate)
    if (distance <= allowed && distance < (best?.distance ?? Infinity)) best = { candidate, distance }
  }
  return best?.candidate ?? null
}

/** Counts letters that are added, missing, replaced, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      let distance = Math.min(
        above[column]! + 1,
        current[column - 1]! + 1,
        above[column - 1]! + (same ? 0 : 1),
      )
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) distance = Math.min(distance, before[column - 2]! + 1)
      current.push(distance)
    }
    before = above
    above = current
  }
  return above[b.length]!
}
