import { describe, expect, it } from 'bun:test'
import { toEndpoint } from '../../src/domain/credentials.ts'
import { chunkIds, listQuery, storageAddress } from '../../src/upstream/request.ts'

const base = toEndpoint(new URL('https://node.example.com/1.5/7'))

describe('storageAddress', () => {
  it.each([
    'https://node.example.com/1.5/7',
    'https://node.example.com:8443/sync/1.5/7',
    'http://127.0.0.1/1.5/7',
    'http://[::1]/1.5/7',
    'http://[::1]:5000/1.5/7',
  ])('splits %s like a URL', (href) => {
    const url = new URL(href)
    const { origin, host, hostname, port, protocol, pathname } = url

    expect(storageAddress(toEndpoint(url), [])).toEqual({
      href,
      origin,
      host,
      hostname,
      port: port || (protocol === 'https:' ? '443' : '80'),
      target: pathname,
    })
  })

  it('encodes the values of a query, but not the commas between the items of a list', () => {
    const url = storageAddress(
      base,
      ['storage', 'tabs'],
      [
        ['full', '1'],
        ['ids', ['a', "{b}'", 'c,d']],
        ['offset', 'a=+/'],
      ],
    )

    expect(url.target).toBe('/1.5/7/storage/tabs?full=1&ids=a,%7Bb%7D%27,c%2Cd&offset=a%3D%2B%2F')
  })

  it.each(['.', '..', ''])('rejects the segment "%s", which URL parsers remove', (segment) => {
    expect(() => storageAddress(base, ['storage', 'tabs', segment])).toThrow(RangeError)
    expect(() => storageAddress(base, ['storage', segment, 'storage'])).toThrow(RangeError)
  })

  it('rejects invalid Unicode', () => {
    expect(() => storageAddress(base, ['storage', 'tabs', '\ud800'])).toThrow()
  })

  it('keeps any id within one segment', () => {
    const letters = '%/\\?#@: &=+;,\'"\t\n\0aZ0-_~{}ä\u202e|^`<'
    const parts = ['.', '..', '%2e', '%2E', 'storage', '\u{1f600}', ...letters]
    const prefix = '/1.5/7/storage/tabs/'
    let escaped = ''
    let tried = 0

    for (const ids of combinations(parts)) {
      for (const id of ids) {
        if (id === '.' || id === '..') continue
        tried += 1
        const { href } = storageAddress(base, ['storage', 'tabs', id])
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

describe('listQuery', () => {
  it('rejects an empty list of ids, which the storage would treat as all', () => {
    expect(() => listQuery({ sort: 'newest', ids: [] })).toThrow(RangeError)
  })
})

describe('chunkIds', () => {
  it('creates smaller chunks for long ids, so that a request line stays below 4 KB', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `{${index}}`.padEnd(64, ' '))

    const chunks = chunkIds(ids)

    expect(chunks.flat()).toEqual(ids)
    expect(Math.max(...chunks.map((chunk) => encodeURIComponent(chunk.join('')).length))).toBeLessThan(3600)
  })

  it('creates no chunks for no ids', () => {
    expect(chunkIds([])).toEqual([])
  })
})
