import type { Backup, SavedCollection } from './backup-folder.ts'

/** Devices come and go, and tabs are replaced. */
const changing = new Set(['clients', 'tabs'])
const fewestLiving = 20
const fewestOpened = 0.9

/**
 * What is missing in the collections of a new backup, compared with the complete ones of the account that are kept, oldest first: records
 * that the key does not open, unless they are known, and more than half of the living ones. Those that could not be read, `failed`, are
 * left out.
 */
export function findProblems(
  collections: ReadonlyMap<string, SavedCollection>,
  complete: readonly Backup[],
  failed: ReadonlySet<string>,
): string[] {
  const known = complete.at(-1)?.state.collections
  const problems: string[] = []
  for (const [name, { records, plain, unreadable }] of collections) {
    const listed = new Set(known?.get(name)?.unreadable)
    const news = unreadable.filter((id) => !listed.has(id)).length
    const opened = records - plain - unreadable.length
    if (opened < fewestOpened * (opened + news))
      problems.push(`${name}: the key opens only ${opened} of ${opened + news} records`)
  }
  // One that was incomplete and then renamed is accepted, so it is the measure from then on.
  const accepted = complete.findLastIndex(({ state }) => state.problems.length > 0)
  const measures = complete.slice(Math.max(0, accepted))
  for (const name of new Set(measures.flatMap(({ state }) => [...state.collections.keys()]))) {
    if (changing.has(name) || failed.has(name)) continue
    const now = collections.get(name)
    const sizeOf = ({ records, living }: SavedCollection) =>
      now?.living === null ? records : (living ?? records)
    const sizes = measures.map(({ state }) => {
      const saved = state.collections.get(name)
      return saved ? sizeOf(saved) : 0
    })
    const largest = Math.max(...sizes)
    const left = now ? sizeOf(now) : 0
    if (largest < fewestLiving || left * 2 >= largest) continue
    const what = now?.living === null ? 'records' : 'living records'
    problems.push(
      `${name}: only ${left} of ${largest} ${what} in ${measures[sizes.indexOf(largest)]!.name} are left`,
    )
  }
  return problems
}
