import { printableLine } from '../../client/safe-text.ts'

const maxShown = 10

/** The first ten ids or places, for a message. */
export function someOf(ids: string[]): string {
  const more = ids.length > maxShown ? ' …' : ''
  return ids.slice(0, maxShown).map(printableLine).join(' ') + more
}

/** "1 record", "2 records". */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** What was done of a plan, such as "2 renamed"; what was left because of others' changes was named before. */
export function doneOf(summary: string, problems: readonly unknown[]): string {
  return problems.length === 0 ? summary : `${summary}, except for the above`
}
