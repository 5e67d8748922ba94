import { describe, expect, it } from 'bun:test'
import { timestamp } from '../../src/domain/timestamp.ts'
import { readPageToken, writePageToken } from '../../src/protocol/lists.ts'

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
})
