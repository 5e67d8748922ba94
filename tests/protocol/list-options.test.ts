import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import { readListOptions } from '../../src/protocol/list-options.ts'
import { writePageToken } from '../../src/protocol/page-token.ts'
import { RandomTexts } from './random.ts'

function problemsOf(query: string): string[] {
  try {
    readListOptions(query)
    return []
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return error.extras.problems!.map(({ name }) => name)
  }
}

describe('readListOptions', () => {
  it('asks for everything, newest first, when nothing is said', () => {
    for (const query of ['', '?', '?&&', '?unknown=1&=2&='])
      expect(readListOptions(query)).toEqual({ sort: 'newest' })
  })

  it('reads every parameter', () => {
    const position = { offset: '12:3', firstTimestamp: timestamp(990) }
    const query = `?_since=%22123%22&_before=456&_sort=index&_limit=9&_token=${writePageToken(position)}&in_ids=a,b&exclude_id=c`

    expect(readListOptions(query)).toEqual({
      newer: timestamp(120),
      older: timestamp(450),
      sort: 'index',
      limit: 9,
      position,
      ids: ['a', 'b'],
      excludedIds: new Set(['c']),
    })
  })

  it('takes 5000 ids in a parameter, and no more', () => {
    const ids = (count: number) => Array.from({ length: count }, (_, index) => `i${index}`).join(',')

    for (const name of ['in_ids', 'in_id', 'exclude_id']) {
      expect(problemsOf(`?${name}=${ids(5000)}`)).toEqual([])
      expect(problemsOf(`?${name}=${ids(5001)}`)).toEqual([name])
    }
  })

  it('floors every moment to 10 ms, never up', () => {
    for (let ms = 0; ms < 2000; ms += 7) {
      const { newer } = readListOptions(`?_since=${ms}`)
      expect(Number(newer)).toBe(ms - (ms % 10))
    }
  })

  it('takes ids for given even when none is named', () => {
    expect(readListOptions('?in_ids=').ids).toEqual([])
    expect(readListOptions('?in_ids=,%20,').ids).toEqual([])
    expect(readListOptions('?in_ids=a&in_id=b').ids).toEqual([])
    expect(readListOptions('?in_ids').ids).toEqual([])
  })

  it('takes null for an id, where it is no absent value', () => {
    expect(readListOptions('?in_ids=null').ids).toEqual(['null'])
    expect(readListOptions('?_since=null&_limit=null&_token=null&_sort=null')).toEqual({ sort: 'newest' })
  })

  it('counts the last of repeated parameters', () => {
    expect(readListOptions('?_limit=1&_limit=2&in_ids=a&in_ids=b')).toEqual({
      sort: 'newest',
      limit: 2,
      ids: ['b'],
    })
  })

  it('names all problems, each parameter once', () => {
    expect(problemsOf('?_since=x&_before=y&_sort=z&_limit=0&_token=!&in_ids=.&exclude_id=%00')).toEqual(
      ['_since', '_before', '_sort', '_limit', '_token', 'in_ids', 'exclude_id'].toSorted(),
    )
  })

  it('repeats no value in its complaints', () => {
    try {
      readListOptions('?_sort=canary&_since=canary&in_ids=canary%00')
      expect.unreachable()
    } catch (error) {
      expect(JSON.stringify([(error as Error).message, (error as ServiceError).extras])).not.toContain(
        'canary',
      )
    }
  })

  it('only ever yields what a storage can be asked, whatever the query', () => {
    const pieces = [
      '_since',
      '_limit',
      'in_ids',
      '_sort',
      '_token',
      'exclude_id',
      '=',
      '&',
      '%22',
      '1',
      '0',
      '-',
      'a',
      ',',
      '%',
      '%00',
      '%2C',
      '..',
      '+',
      'null',
      '"',
      '\u0001',
      '[]',
    ]
    const texts = new RandomTexts(pieces, 11)
    let read = 0
    for (let turn = 0; turn < 50_000; turn++) {
      const query = `?${texts.next(8)}`
      if (problemsOf(query).length > 0) continue
      const { newer, limit, ids, sort } = readListOptions(query)
      read++
      expect(['newest', 'oldest', 'index']).toContain(sort)
      if (newer !== undefined)
        expect(Number.isSafeInteger(newer) && newer >= 0 && newer % 10 === 0).toBe(true)
      if (limit !== undefined) expect(Number.isSafeInteger(limit) && limit >= 1).toBe(true)
      for (const id of ids ?? []) expect(id).toMatch(/^(?!\.{1,2}$)[ -~]{1,64}$/)
      expect(new Set(ids).size).toBe(ids?.length ?? 0)
    }
    expect(read).toBeGreaterThan(2000)
  })
})
