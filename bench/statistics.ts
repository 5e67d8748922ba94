/** The median; for an even number, the upper of the two middle values. */
export function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

/** The medians of the round-by-round ratios of two series, which common noise does not change. */
export function ratio(values: number[], base: number[]): number {
  return median(values.map((value, round) => value / base[round]!))
}

/** Measures all subjects in turn for that many rounds, so that changes of the machine affect all alike. */
export async function interleave<Subject, Figure>(
  subjects: Subject[],
  rounds: number,
  measure: (subject: Subject) => Promise<Figure>,
): Promise<Figure[][]> {
  const figures: Figure[][] = subjects.map(() => [])
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, subject] of subjects.entries()) figures[index]!.push(await measure(subject))
  }
  return figures
}
