import { describe, expect, it } from 'bun:test'
import { assert, integer, property } from 'fast-check'
import { fromSyncSeconds, timestamp, toSyncSeconds } from '../../src/domain/timestamp.ts'

describe('toSyncSeconds', () => {
  it('never writes a later time, nor one that is 10 ms earlier', () => {
    assert(
      property(integer({ min: 0, max: 2 ** 42 }), (milliseconds) => {
        const back = fromSyncSeconds(toSyncSeconds(timestamp(milliseconds)))!

        return back <= milliseconds && milliseconds - back < 10
      }),
    )
  })
})

describe('fromSyncSeconds', () => {
  it.each([
    ['1444385059.19', 1444385059190],
    ['1444385059.1', 1444385059100],
    ['1444385059', 1444385059000],
    ['1444385059.190000', 1444385059190],
    ['0', 0],
    ['0.00', 0],
  ])('reads %s exactly', (text, milliseconds) => {
    expect(fromSyncSeconds(text)).toBe(timestamp(milliseconds))
  })

  it.each([null, undefined, '', '1e9', '-1', 'NaN', '1.234', '1,5', '0x10', '1.', '.5', '1'.repeat(400)])(
    'rejects %p',
    (text) => {
      expect(fromSyncSeconds(text)).toBeNull()
    },
  )
})
