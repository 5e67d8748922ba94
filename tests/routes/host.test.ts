import { describe, expect, it } from 'bun:test'
import { publicOrigin } from '../../src/protocol/origin.ts'
import { checkHost } from '../../src/routes/call.ts'
import { Chance } from '../fuzz/chance.ts'

const none = { httpHost: null, httpScheme: null }

describe('publicOrigin', () => {
  it('is always an origin and nothing else, for every accepted Host', () => {
    const pieces = [
      'a', '.', '-', '_', ':', '80', '99999', '/', '\\', '@', '?', '#', ' ', ',', '[', ']', '::1', '%',
      '\n', '\u00e9', 'evil.example',
    ] // prettier-ignore
    const chance = new Chance(9)
    let accepted = 0
    for (let turn = 0; turn < 20_000; turn++) {
      const host = chance.text(pieces, 5)
      try {
        checkHost(host, none)
      } catch {
        continue
      }
      const origin = publicOrigin(host, none)
      accepted++
      expect(origin).toMatch(/^http:\/\/[A-Za-z0-9[\]:._-]+$/)
      expect(URL.parse(`${origin}/v1/x`)?.pathname ?? '/v1/x').toBe('/v1/x')
    }
    expect(accepted).toBeGreaterThan(500)
  })
})
