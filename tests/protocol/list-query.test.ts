import { describe, expect, it } from 'bun:test'
import type { Problem } from '../../src/domain/errors.ts'
import type { ListOptions } from '../../src/domain/record-storage.ts'
import { timestamp } from '../../src/domain/record.ts'
import { readQuery } from '../../src/protocol/find.ts'
import { readListOptions, readPageToken, writePageToken, listRecords } from '../../src/protocol/lists.ts'
import { Chance } from '../fuzz/chance.ts'

const params = { bucket_id: 'b', collection_id: 'c' }

/** Reads a query string like that of a sub-request: strictly, and validated by the schemas of a list. */
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
  it('accepts 5000 ids in a parameter, and no more', () => {
    const ids = (count: number) => Array.from({ length: count }, (_, index) => `i${index}`).join(',')

    for (const name of ['in_ids', 'in_id', 'exclude_id']) {
      expect(problemsOf(`?${name}=${ids(5000)}`)).toEqual([])
      expect(problemsOf(`?${name}=${ids(5001)}`)).toEqual([name])
    }
  })

  it('only returns what a storage accepts, whatever the query', () => {
    const pieces = [
      '_since', '_limit', 'in_ids', '_sort', '_token', 'exclude_id', '=', '&', '%22', '1', '0', '-', 'a',
      ',', '%', '%00', '%2C', '..', '+', 'null', '"', '\u0001', '[]',
    ] // prettier-ignore
    const chance = new Chance(11)
    let read = 0
    for (let turn = 0; turn < 20_000; turn++) {
      const query = `?${chance.text(pieces, 8)}`
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
    expect(read).toBeGreaterThan(1000)
  })
})

describe('page token', () => {
  it('preserves every offset that a storage may use', () => {
    const printable = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join('')
    const long = printable.repeat(11).slice(0, 1024)
    for (const offset of ['0', '1449160540120:1', 'skip:300', 'a.b.c', '1.2.3', printable, long]) {
      for (const ms of [0, 10, 1_700_000_000_000, 999_999_999_999_990]) {
        const position = { offset, firstTimestamp: timestamp(ms) }
        const token = writePageToken(position)

        expect(token).toMatch(/^[\w-]+$/)
        expect(readPageToken(token)).toEqual(position)
      }
    }
  })

  const encoded = [
    '1', '1.', '1.10', '1.10.', '2.10.5', '1.-1.5', '1.1e3.5', '1.10.a b', '1.10.a\n', '1.10.\u00e9',
    `1.10.${'x'.repeat(1025)}`, `1.${'9'.repeat(16)}.5`,
  ].map((text) => Buffer.from(text).toString('base64url')) // prettier-ignore

  it.each(['', 'x', '!!!!', ...encoded, 'a'.repeat(2000)])('is null for %p', (token) => {
    expect(readPageToken(token)).toBeNull()
  })

  it('is null or a valid position for any text', () => {
    const random = new Chance(3)
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
