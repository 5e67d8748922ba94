/** Reads fields of decrypted records. Other programs also write synced data, so any field may have any type. */

/** The fields of a decrypted record. */
export type Fields = Record<string, unknown>

/** A string, or an empty string for any other type. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** A number or numeric string; NaN for objects, because converting some of them throws. */
export function numberOf(value: unknown): number {
  return typeof value === 'object' ? NaN : Number(value)
}

/** An array, or an empty array for any other type. */
export function listOf<T>(value: unknown): T[] {
  return Array.isArray(value) ? value : []
}

export function tagsOf({ tags }: Fields): string[] {
  return listOf(tags).filter((tag) => typeof tag === 'string')
}

/** An http(s) URL, or null: only these may become links. */
export function webAddress(value: unknown): string | null {
  return typeof value === 'string' && /^https?:\/\//i.test(value) ? value : null
}

export function isMoment(ms: number): boolean {
  return ms > 0 && ms < 8.64e15
}

/** The visits of a page in ms since 1970, latest first. */
export function visitTimes({ visits }: Fields): number[] {
  return listOf<Fields | null>(visits)
    .map((visit) => numberOf(visit?.date) / 1000)
    .filter(isMoment)
    .toSorted((left, right) => right - left)
}

/** The year 5138; larger numbers can't be ms. */
const latestMs = 100_000_000_000_000

/** When a bookmark was added, in ms since 1970; 0 if unknown. Some programs write microseconds, like Firefox's database. */
export function addedMsOf({ dateAdded }: Fields): number {
  const added = numberOf(dateAdded)
  const addedMs = added > latestMs ? added / 1000 : added
  return isMoment(addedMs) ? addedMs : 0
}

/** An open tab. */
export interface Tab {
  title: string
  url: string
  /** In ms since 1970; 0 if unknown. */
  lastUsedMs: number
}

/** The tabs in a record of the collection `tabs`, without tabs that have no URL. */
export function tabsOf({ tabs }: Fields): Tab[] {
  return listOf<Fields | null>(tabs).flatMap((tab) => {
    const [url] = listOf(tab?.urlHistory)
    if (typeof url !== 'string' || url === '') return []
    const lastUsedMs = numberOf(tab?.lastUsed) * 1000
    return [{ title: textOf(tab?.title), url, lastUsedMs: isMoment(lastUsedMs) ? lastUsedMs : 0 }]
  })
}
