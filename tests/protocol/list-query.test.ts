import { describe, expect, it } from 'bun:test'
import type { Problem } from '../../src/domain/errors.ts'
import type { ListOptions } from '../../src/domain/record-storage.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import { readQuery } from '../../src/protocol/find.ts'
import { readListOptions, readPageToken, writePageToken } from '../../src/protocol/list-query.ts'
import { listRecords } from '../../src/protocol/lists.ts'
import { RandomTexts } from './random.ts'

const params = { bucket_id: 'b', collection_id: 'c' }

/** Reads a query string as a sub-request's is: strictly, and checked by the schemas of a list. */
function read(search: string): { options: ListOptions; problems: Problem[] } {
  const problems: Problem[] = []
  const query = readQuery(search, problems)
  problems.push(...listRecords.check({ params, query, headers: {} }))
  for (const { name } of problems) delete query[name]
  return { options: readListOptions(query, problems), problems }
}

const optionsOf = (search: string): ListOptions => read(search).options
const problemsOf = (search: string): string[] =>
  read(search)
    .problems.map(({ name }) => name)
    .toSorted()

describe('readListOptions', () => {
  it('asks for everything, newest first, when nothing is said', () => {
    for (const query of ['', '?', '?&&', '?unknown=1&=2&='])
      expect(optionsOf(query)).toEqual({ sort: 'newest' })
  })

  it('reads every parameter', () => {
    const position = { offset: '12:3', firstTimestamp: timestamp(990) }
    const query = `?_since=%22123%22&_before=456&_sort=index&_limit=9&_token=${writePageToken(position)}&in_ids=a,b&exclude_id=c`

    expect(optionsOf(query)).toEqual({
      newer: timestamp(120),
      older: timestamp(460),
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

  it('floors _since to 10 ms, and raises _before', () => {
    for (let ms = 0; ms < 2000; ms += 7) {
      const { newer, older } = optionsOf(`?_since=${ms}&_before="${ms}"`)
      expect(Number(newer)).toBe(Math.floor(ms / 10) * 10)
      expect(Number(older)).toBe(Math.ceil(ms / 10) * 10)
    }
  })

  it('reads a version in every spelling that headers have', () => {
    for (const spelling of ['120', '"120"', 'W/"120"'])
      expect(optionsOf(`?_since=${spelling}`).newer).toBe(timestamp(120))
    for (const spelling of ['W/120', "'120'", '"120', '*', '1e3', '-1', '1'.repeat(16)])
      expect(problemsOf(`?_since=${spelling}`)).toEqual(['_since'])
  })

  it('takes ids for given even when none is named', () => {
    expect(optionsOf('?in_ids=').ids).toEqual([])
    expect(optionsOf('?in_ids=,%20,').ids).toEqual([])
    expect(optionsOf('?in_ids=a&in_id=b').ids).toEqual([])
    expect(optionsOf('?in_ids').ids).toEqual([])
  })

  it('takes null for an id, where it is no absent value', () => {
    expect(optionsOf('?in_ids=null').ids).toEqual(['null'])
    expect(optionsOf('?_since=null&_limit=null&_token=null&_sort=null')).toEqual({ sort: 'newest' })
  })

  it('counts the last of repeated parameters', () => {
    expect(optionsOf('?_limit=1&_limit=2&in_ids=a&in_ids=b')).toEqual({
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
    const { problems } = read('?_sort=canary&_since=canary&in_ids=canary%00')

    expect(problems).toHaveLength(3)
    expect(JSON.stringify(problems)).not.toContain('canary')
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
      const { newer, limit, ids, sort } = optionsOf(query)
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

describe('page token', () => {
  it('brings back every offset that a storage may use, as it was', () => {
    const printable = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join('')
    const offsets = [
      '0',
      '1449160540120:1',
      'skip:300',
      'a.b.c',
      '1.2.3',
      printable,
      printable.repeat(11).slice(0, 1024),
    ]
    for (const offset of offsets) {
      for (const ms of [0, 10, 1_700_000_000_000, 999_999_999_999_990]) {
        const position = { offset, firstTimestamp: timestamp(ms) }
        const token = writePageToken(position)

        expect(token).toMatch(/^[\w-]+$/)
        expect(readPageToken(token)).toEqual(position)
      }
    }
  })

  const encode = (text: string) => Buffer.from(text).toString('base64url')

  it.each([
    '',
    'x',
    '!!!!',
    encode('1'),
    encode('1.'),
    encode('1.10'),
    encode('1.10.'),
    encode('2.10.5'),
    encode('1.-1.5'),
    encode('1.1e3.5'),
    encode('1.10.a b'),
    encode('1.10.a\n'),
    encode('1.10.\u00e9'),
    encode(`1.10.${'x'.repeat(1025)}`),
    encode(`1.${'9'.repeat(16)}.5`),
    'a'.repeat(2000),
  ])('is null for %p', (token) => {
    expect(readPageToken(token)).toBeNull()
  })

  it('is null or a sound position for any text', () => {
    const random = new RandomTexts([], 3)
    const real = writePageToken({ offset: '1449160540120:1', firstTimestamp: timestamp(1_700_000_000_000) })
    for (let turn = 0; turn < 20_000; turn++) {
      const at = random.below(real.length)
      const position = readPageToken(
        real.slice(0, at) + String.fromCharCode(33 + random.below(94)) + real.slice(at + random.below(3)),
      )
      if (position === null) continue
      expect(Number.isSafeInteger(position.firstTimestamp) && position.firstTimestamp >= 0).toBe(true)
      expect(position.offset).toMatch(/^[!-~]{1,1024}$/)
    }
  })
})
