/** What the fields of records say. Synced data may come from anybody, so that every field may be of any type. */

/** What a record says. */
export type Fields = Record<string, unknown>

/** What is no text becomes an empty one. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** What is no number, and no text of one, becomes NaN. Other values may not even be convertible. */
export function numberOf(value: unknown): number {
  return typeof value === 'object' ? NaN : Number(value)
}

/** What is no list becomes an empty one. */
export function listOf<T>(value: unknown): T[] {
  return Array.isArray(value) ? value : []
}

export function tagsOf({ tags }: Fields): string[] {
  return listOf(tags).filter((tag) => typeof tag === 'string')
}

/** An address that may become a link. */
export function webAddress(value: unknown): string | null {
  return typeof value === 'string' && /^https?:\/\//i.test(value) ? value : null
}

export function isMoment(ms: number): boolean {
  return ms > 0 && ms < 8.64e15
}

/** When a page was visited, in ms since 1970, the latest first. */
export function visitTimes({ visits }: Fields): number[] {
  return listOf<Fields | null>(visits)
    .map((visit) => numberOf(visit?.date) / 1000)
    .filter(isMoment)
    .toSorted((left, right) => right - left)
}

/** The year 5138: what is later is no time in ms. */
const latestMs = 100_000_000_000_000

/** When a bookmark was made, in ms since 1970, or 0. Some programs write microseconds, as Firefox has them in its database. */
export function addedMsOf({ dateAdded }: Fields): number {
  const added = numberOf(dateAdded)
  const addedMs = added > latestMs ? added / 1000 : added
  return isMoment(addedMs) ? addedMs : 0
}

/** An open tab of a device. */
export interface Tab {
  title: string
  url: string
  /** In ms since 1970; 0 where it is not known. */
  lastUsedMs: number
}

/** The tabs of a record of the collection `tabs`, without those that have no address. */
export function tabsOf({ tabs }: Fields): Tab[] {
  return listOf<Fields | null>(tabs).flatMap((tab) => {
    const [url] = listOf(tab?.urlHistory)
    if (typeof url !== 'string') return []
    const lastUsedMs = numberOf(tab?.lastUsed) * 1000
    return [{ title: textOf(tab?.title), url, lastUsedMs: isMoment(lastUsedMs) ? lastUsedMs : 0 }]
  })
}
