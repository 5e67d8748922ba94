import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import type { CredentialStore } from '../../src/credentials/shared-credentials.ts'

/** A store under test. */
export interface StoreFixture {
  store: CredentialStore
  /** Makes everything in the store older, without waiting. */
  advance(milliseconds: number): Promise<void>
  close(): Promise<void>
}

/** What every credential store does, whatever it is made of. */
export function describeCredentialStore(name: string, open: () => Promise<StoreFixture>): void {
  describe(`${name} as a credential store`, () => {
    let fixture: StoreFixture
    let store: CredentialStore

    beforeAll(async () => {
      fixture = await open()
      store = fixture.store
    })

    afterAll(() => fixture.close())

    it('knows nothing of a key that was never set', async () => {
      expect(await store.get('never-set')).toBeNull()
    })

    it('returns what was set', async () => {
      await store.set('a', 'value of a', 60_000)

      expect(await store.get('a')).toBe('value of a')
    })

    it('replaces what was set before, with its time', async () => {
      await store.set('replaced', 'old', 1000)
      await store.set('replaced', 'new', 60_000)
      await fixture.advance(5000)

      expect(await store.get('replaced')).toBe('new')
    })

    it('keeps keys apart', async () => {
      await store.set('left', '1', 60_000)
      await store.set('right', '2', 60_000)
      await store.delete('left')

      expect(await store.get('left')).toBeNull()
      expect(await store.get('right')).toBe('2')
    })

    it('keeps keys apart that differ in case only', async () => {
      await store.set('Key', 'upper', 60_000)

      expect(await store.get('key')).toBeNull()
    })

    it('returns values byte for byte, empty and long ones too', async () => {
      const values = ['', ' \r\n\0', 'añ€𝄞', 'x'.repeat(8192)]

      for (const value of values) {
        await store.set('bytes', value, 60_000)
        expect(await store.get('bytes')).toBe(value)
      }
    })

    it('forgets a value when its time has passed, and not before', async () => {
      await store.set('short', 'value', 30_000)

      await fixture.advance(20_000)
      expect(await store.get('short')).toBe('value')
      await fixture.advance(10_000)
      expect(await store.get('short')).toBeNull()
    })

    it('counts time in milliseconds, fractions too', async () => {
      await store.set('fraction', 'value', 30_000.75)

      await fixture.advance(20_000)
      expect(await store.get('fraction')).toBe('value')
      await fixture.advance(10_001)
      expect(await store.get('fraction')).toBeNull()
    })

    it('takes it calmly when an unknown key is deleted', async () => {
      await store.delete('never-set')

      expect(await store.get('never-set')).toBeNull()
    })

    it('serves many at once', async () => {
      const keys = Array.from({ length: 200 }, (_, number) => `many-${number}`)

      await Promise.all(keys.map((key) => store.set(key, `value of ${key}`, 60_000)))

      expect(await Promise.all(keys.map((key) => store.get(key)))).toEqual(
        keys.map((key) => `value of ${key}`),
      )
    })

    it('says that it can be used', async () => {
      expect(await store.ping()).toBe(true)
    })
  })
}
