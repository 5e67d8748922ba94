import { describe, expect, it } from 'bun:test'
import { readEndpoint, storageAddress } from '../../src/upstream/signed-address.ts'

const base = 'https://node.example.com/1.5/7'
const endpoint = readEndpoint(base)

describe('storageAddress', () => {
  it('encodes each segment once', () => {
    const url = storageAddress(endpoint, ['storage', 'passwords', "{a}/b?c#d%2e'(*)"])

    expect(url.href).toBe(`${base}/storage/passwords/%7Ba%7D%2Fb%3Fc%23d%252e%27%28%2A%29`)
  })

  it('encodes the values of a query, and leaves the commas between the items of a list', () => {
    const url = storageAddress(
      endpoint,
      ['storage', 'tabs'],
      [
        ['full', '1'],
        ['ids', ['a', "{b}'", 'c,d']],
        ['offset', 'a=+/'],
      ],
    )

    expect(url.target).toBe('/1.5/7/storage/tabs?full=1&ids=a,%7Bb%7D%27,c%2Cd&offset=a%3D%2B%2F')
  })

  it('keeps the prefix and the port of an endpoint', () => {
    const url = storageAddress(readEndpoint('http://127.0.0.1:5000/sync/1.5/7'), ['info', 'collections'])

    expect(url.href).toBe('http://127.0.0.1:5000/sync/1.5/7/info/collections')
  })

  it.each(['.', '..', ''])('refuses the segment "%s", which URL parsers remove', (segment) => {
    expect(() => storageAddress(endpoint, ['storage', 'tabs', segment])).toThrow(RangeError)
    expect(() => storageAddress(endpoint, ['storage', segment, 'storage'])).toThrow(RangeError)
  })

  it('refuses text that is no Unicode', () => {
    expect(() => storageAddress(endpoint, ['storage', 'tabs', '\ud800'])).toThrow()
  })

  it('keeps whatever is in an id within one segment', () => {
    const atoms = [
      '.',
      '..',
      '%2e',
      '%2E',
      '%',
      '/',
      '\\',
      '?',
      '#',
      '@',
      ':',
      ' ',
      '&',
      '=',
      '+',
      ';',
      ',',
      "'",
      '"',
      '\t',
      '\n',
      '\0',
    ]
    const letters = [
      'a',
      'Z',
      '0',
      '-',
      '_',
      '~',
      '{',
      '}',
      'ä',
      '\u{1f600}',
      'storage',
      '\u202e',
      '|',
      '^',
      '`',
      '<',
    ]
    const parts = [...atoms, ...letters]
    const prefix = '/1.5/7/storage/tabs/'
    let escaped = ''
    let tried = 0

    for (const ids of combinations(parts)) {
      for (const id of ids) {
        if (id === '.' || id === '..') continue
        tried += 1
        const { href } = storageAddress(endpoint, ['storage', 'tabs', id])
        const url = new URL(href)
        const rest = url.pathname.slice(prefix.length)
        const isKept =
          url.href === href &&
          url.origin === 'https://node.example.com' &&
          url.pathname.startsWith(prefix) &&
          !/[/?#\\]/.test(rest) &&
          url.search === '' &&
          url.hash === '' &&
          decodeURIComponent(rest) === id
        if (!isKept) escaped ||= id
      }
    }

    expect(escaped).toBe('')
    expect(tried).toBeGreaterThan(100_000)
  })
})

/** All sequences of one to three parts, and many longer ones. */
function* combinations(parts: string[]): Generator<string[]> {
  for (const first of parts) {
    yield [first]
    for (const second of parts) {
      yield [first + second]
      yield parts.map((third) => first + second + third)
      yield parts.map((third, index) => first + third + parts[(index * 7 + 3) % parts.length] + second)
    }
  }
}
