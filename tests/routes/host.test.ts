import { describe, expect, it } from 'bun:test'
import { publicOrigin } from '../../src/protocol/origin.ts'
import { checkHost } from '../../src/routes/guard.ts'
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
      'a',
      '.',
      '-',
      '_',
      ':',
      '80',
      '99999',
      '/',
      '\\',
      '@',
      '?',
      '#',
      ' ',
      ',',
      '[',
      ']',
      '::1',
      '%',
      '\n',
      '\u00e9',
      'evil.example',
    ]
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

describe('checkHost', () => {
  it.each([
    null,
    '',
    ' ',
    'a b',
    'a,b',
    'a, b',
    '<x>',
    'u@h',
    'h:',
    'h:x',
    'h:65536',
    'h:1:2',
    '[::1',
    '.a',
    '-a',
    'a/b',
    'a?b',
    '\u00e9',
  ])('refuses %p', (host) => {
    expect(() => checkHost(host, none)).toThrow('Host in header')
  })

  it.each([
    'a',
    'a.example',
    'A.example:65535',
    '127.0.0.1:8000',
    '[::1]',
    '[fe80::1]:80',
    'under_score.example',
  ])('accepts %s', (host) => {
    expect(() => checkHost(host, none)).not.toThrow()
  })

  it('lets it be missing where ours is configured, but never be wrong', () => {
    const configured = { httpHost: 'b.example' }

    expect(() => checkHost(null, configured)).not.toThrow()
    expect(() => checkHost('', configured)).not.toThrow()
    expect(() => checkHost('a b', configured)).toThrow('Host in header')
  })
})
