import { describe, expect, it } from 'bun:test'
import { timestamp } from '../../src/domain/timestamp.ts'
import { readPageToken, writePageToken } from '../../src/protocol/page-token.ts'
import { RandomTexts } from './random.ts'

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
    `${encode('1.10.5')}=`,
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
