import { describe, expect, it } from 'bun:test'
import { timestamp } from '../../src/domain/record.ts'
import { chunkIds, listQuery, storageAddress } from '../../src/upstream/request.ts'

const base = 'https://node.example.com/1.5/7'

describe('storageAddress', () => {
  it.each([
    'https://node.example.com/1.5/7',
    'https://node.example.com:8443/sync/1.5/7',
    'http://127.0.0.1/1.5/7',
    'http://[::1]/1.5/7',
    'http://[::1]:5000/1.5/7',
  ])('takes %s apart as a URL would', (endpoint) => {
    const { origin, host, hostname, port, protocol, pathname } = new URL(endpoint)

    expect(storageAddress(endpoint, [])).toEqual({
      href: endpoint,
      origin,
      host,
      hostname,
      port: port || (protocol === 'https:' ? '443' : '80'),
      target: pathname,
    })
  })

  it('encodes each segment once', () => {
    const url = storageAddress(base, ['storage', 'passwords', "{a}/b?c#d%2e'(*)"])

    expect(url.href).toBe(`${base}/storage/passwords/%7Ba%7D%2Fb%3Fc%23d%252e%27%28%2A%29`)
  })

  it('encodes the values of a query, and leaves the commas between the items of a list', () => {
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

  it('keeps the prefix and the port of an endpoint', () => {
    const url = storageAddress('http://127.0.0.1:5000/sync/1.5/7', ['info', 'collections'])

    expect(url.href).toBe('http://127.0.0.1:5000/sync/1.5/7/info/collections')
  })

  it.each(['.', '..', ''])('rejects the segment "%s", which URL parsers remove', (segment) => {
    expect(() => storageAddress(base, ['storage', 'tabs', segment])).toThrow(RangeError)
    expect(() => storageAddress(base, ['storage', segment, 'storage'])).toThrow(RangeError)
  })

  it('rejects text that is no Unicode', () => {
    expect(() => storageAddress(base, ['storage', 'tabs', '\ud800'])).toThrow()
  })

  it('keeps whatever is in an id within one segment', () => {
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
  it('writes moments as seconds with two decimals, rounded down', () => {
    const query = listQuery(
      {
        sort: 'newest',
        newer: timestamp(1_234_567_890_129),
        older: timestamp(1_234_567_891_000),
        ids: ['a', 'b'],
        limit: 5,
      },
      '12:3',
    )

    expect(query.slice(2)).toEqual([
      ['newer', '1234567890.12'],
      ['older', '1234567891.00'],
      ['ids', ['a', 'b']],
      ['limit', '5'],
      ['offset', '12:3'],
    ])
  })

  it('rejects an empty list of ids, which the storage would take for all', () => {
    expect(() => listQuery({ sort: 'newest', ids: [] })).toThrow(RangeError)
  })
})

describe('chunkIds', () => {
  it('makes portions of at most 100 ids, in order', () => {
    const ids = Array.from({ length: 250 }, (_, index) => `id${index}`)

    const chunks = chunkIds(ids)

    expect(chunks.map((chunk) => chunk.length)).toEqual([100, 100, 50])
    expect(chunks.flat()).toEqual(ids)
  })

  it('makes smaller ones of long ids, so that a request line stays below 4 KB', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `{${index}}`.padEnd(64, ' '))

    const chunks = chunkIds(ids)

    expect(chunks.flat()).toEqual(ids)
    expect(Math.max(...chunks.map((chunk) => encodeURIComponent(chunk.join('')).length))).toBeLessThan(3600)
  })

  it('makes none of none', () => {
    expect(chunkIds([])).toEqual([])
  })
})
