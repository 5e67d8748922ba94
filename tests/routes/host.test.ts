import { describe, expect, it } from 'bun:test'
import { publicOrigin } from '../../src/protocol/origin.ts'
import { checkHost } from '../../src/routes/call.ts'
import { RandomTexts } from '../protocol/random.ts'

const none = { httpHost: null, httpScheme: null }

describe('publicOrigin', () => {
  it('is as configured, or else made of the Host', () => {
    expect(publicOrigin('a.example:81', none)).toBe('http://a.example:81')
    expect(publicOrigin('a.example', { httpHost: null, httpScheme: 'https' })).toBe('https://a.example')
    expect(publicOrigin('a.example', { httpHost: 'b.example', httpScheme: 'https' })).toBe(
      'https://b.example',
    )
    expect(publicOrigin(null, { httpHost: 'b.example', httpScheme: null })).toBe('http://b.example')
  })

  it('is always an origin and nothing else, for every Host that is accepted', () => {
    const pieces = [
      'a', '.', '-', '_', ':', '80', '99999', '/', '\\', '@', '?', '#', ' ', ',', '[', ']', '::1', '%',
      '\n', '\u00e9', 'evil.example',
    ] // prettier-ignore
    const texts = new RandomTexts(pieces, 9)
    let accepted = 0
    for (let turn = 0; turn < 20_000; turn++) {
      const host = texts.next(5)
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
