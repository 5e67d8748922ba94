import { describe, expect, it } from 'bun:test'

import { createMemoryStore } from '../support/memory-store.ts'

describe('createMemoryStore', () => {
  it('makes room for a new entry by dropping the least recently used one', async () => {
    const store = createMemoryStore({ clock: () => 0, maxEntries: 2 })
    await store.set('a', '1', 1000)
    await store.set('b', '2', 1000)

    await store.get('a')
    await store.set('c', '3', 1000)

    expect(await store.get('a')).toBe('1')
    expect(await store.get('b')).toBeNull()
    expect(await store.get('c')).toBe('3')
  })

  it('holds 10 000 entries unless told otherwise', async () => {
    const store = createMemoryStore({ clock: () => 0 })

    for (let number = 0; number <= 10_000; number++) await store.set(`key ${number}`, 'value', 1000)

    expect(await store.get('key 0')).toBeNull()
    expect(await store.get('key 1')).toBe('value')
  })
})
