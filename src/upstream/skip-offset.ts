import type { PagePosition } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'

const form = /^skip:(\d{1,9})$/

/** The position after so many records, for a list that has no offset of the storage. */
export function skipPosition(count: number, firstTimestamp: Timestamp): PagePosition {
  return { offset: `skip:${count}`, firstTimestamp }
}

/** How many records lie before such a position; null when its offset is one of the storage. */
export function readSkip({ offset }: PagePosition): number | null {
  const match = form.exec(offset)
  return match ? Number(match[1]) : null
}
