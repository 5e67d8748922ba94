import { describe, expect, it } from 'bun:test'

import { RecentMap } from '../../src/domain/bounded.ts'

describe('RecentMap', () => {
  it('evicts the entry unused for longest', () => {
    const map = new RecentMap<string, number>(2)
    map.set('a', 1)
    map.set('b', 2)

    map.get('a')
    map.set('c', 3)

    expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([1, undefined, 3])
    expect(map.values()).toHaveLength(2)
  })

  it('never grows beyond its bound', () => {
    const map = new RecentMap<number, number>(100)

    for (let key = 0; key < 10_000; key++) {
      map.set(key, key)
      expect(map.values().length).toBeLessThanOrEqual(100)
    }

    for (let key = 9950; key < 10_000; key++) expect(map.get(key)).toBe(key)
  })
})
