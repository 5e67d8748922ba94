import { describe, expect, it } from 'bun:test'

import { keySlot, readSlots } from '../../src/credentials/redis-cluster.ts'

describe('keySlot', () => {
  it('is the one that the cluster specification gives', () => {
    expect(keySlot('123456789')).toBe(0x31c3)
    expect(keySlot('')).toBe(0)
    // As CLUSTER KEYSLOT of a server answers.
    expect(keySlot('foo')).toBe(12_182)
    expect(keySlot('añ€𝄞')).toBe(978)
  })

  it('depends on what stands in the first braces alone', () => {
    expect(keySlot('{user}:a')).toBe(keySlot('user'))
    expect(keySlot('a{user}b{other}')).toBe(keySlot('user'))
    expect(keySlot('foo{{bar}}zap')).toBe(keySlot('{bar'))
  })

  it('depends on the whole key when there is nothing in them', () => {
    expect(keySlot('foo{}{bar}')).not.toBe(keySlot('bar'))
    expect(keySlot('foo{bar')).not.toBe(keySlot('bar'))
    expect(keySlot('foo{}')).not.toBe(keySlot(''))
  })
})

describe('readSlots', () => {
  const answeredBy = { host: '10.0.0.1', port: 7000 }

  it('reads masters and replicas', () => {
    const reply = [[0, 16_383, ['10.0.0.2', 7001, 'id', []], ['10.0.0.3', 7002, 'id', []]]]

    expect(readSlots(reply, answeredBy)).toEqual([
      {
        first: 0,
        last: 16_383,
        master: { host: '10.0.0.2', port: 7001 },
        replicas: [{ host: '10.0.0.3', port: 7002 }],
      },
    ])
  })

  it('takes who answered for a member that leaves its host out', () => {
    const reply = [
      [0, 1, ['', 7001]],
      [2, 3, [null, 7002]],
    ]

    expect(readSlots(reply, answeredBy).map(({ master }) => master)).toEqual([
      { host: '10.0.0.1', port: 7001 },
      { host: '10.0.0.1', port: 7002 },
    ])
  })

  it('refuses what is no such answer', () => {
    for (const reply of ['OK', null, 7, [[0, 1]], [[0, 1, ['?', 7000]]]]) {
      expect(() => readSlots(reply, answeredBy)).toThrow()
    }
  })
})
