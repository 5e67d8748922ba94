import { describe, expect, it } from 'bun:test'
import { composePage } from '../../src/batch/list-page.ts'
import { readListDocument } from '../../src/domain/list.ts'
import type { ListOptions } from '../../src/domain/record-storage.ts'
import { timestamp, type SyncRecord } from '../../src/domain/record.ts'

const now = timestamp(900)
const record = (id: string, lastModified: number, sortindex = 0): SyncRecord => ({
  id,
  lastModified: timestamp(lastModified),
  payload: id,
  sortindex,
})
const base = [record('a', 100, 9), record('b', 200, 8), record('c', 300, 7)]
const next = { offset: '3', firstTimestamp: timestamp(300) }

function page(options: ListOptions, more: typeof next | null, written: SyncRecord[]) {
  const overlay = new Map(written.map((one) => [one.id, one]))
  const { document, next: position } = composePage(options, { records: base, next: more }, overlay, now)
  return {
    ids: readListDocument(document)
      .map(({ id }) => id)
      .join(''),
    next: position?.offset ?? null,
  }
}

describe('composePage', () => {
  it('puts what is written behind the oldest, on the last page only', () => {
    const position = { offset: '1', firstTimestamp: timestamp(300) }
    const pageOf = (options: Partial<ListOptions>, more: typeof next | null) =>
      page({ sort: 'oldest', ...options }, more, [record('z', 900)])

    expect(pageOf({}, null)).toEqual({ ids: 'abcz', next: null })
    expect(pageOf({}, next)).toEqual({ ids: 'abc', next: 'skip:3' })
    expect(pageOf({ position }, null)).toEqual({ ids: 'abcz', next: null })
    expect(pageOf({ position }, next)).toEqual({ ids: 'abc', next: '3' })
  })

  it('shows by index only what is sure to come before the records it has not seen', () => {
    const written = [record('y', 900, 8.5), record('z', 900, 1)]

    expect(page({ sort: 'index' }, next, written)).toEqual({ ids: 'aybc', next: 'skip:4' })
    expect(page({ sort: 'index' }, null, written)).toEqual({ ids: 'aybcz', next: null })
  })
})
