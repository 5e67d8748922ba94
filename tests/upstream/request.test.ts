import { describe, expect, it } from 'bun:test'
import { toEndpoint } from '../../src/domain/credentials.ts'
import { chunkIds, storageUrl } from '../../src/upstream/request.ts'

const base = toEndpoint(new URL('https://node.example.com/1.5/7'))

describe('storageUrl', () => {
  it.each([
    'https://node.example.com/1.5/7',
    'https://node.example.com:8443/sync/1.5/7',
    'http://127.0.0.1/1.5/7',
    'http://[::1]/1.5/7',
    'http://[::1]:5000/1.5/7',
  ])('splits %s like a URL', (href) => {
    const url = new URL(href)
    const { origin, host, hostname, port, protocol, pathname } = url
    const endpoint = toEndpoint(url)

    expect(storageUrl(endpoint, [])).toEqual({ href, origin, host, target: pathname })
    expect(endpoint).toMatchObject({ hostname, port: port || (protocol === 'https:' ? '443' : '80') })
  })

  it.each(['.', '..', ''])('rejects the segment "%s", which URL parsers remove', (segment) => {
    expect(() => storageUrl(base, ['storage', 'tabs', segment])).toThrow(RangeError)
    expect(() => storageUrl(base, ['storage', segment, 'storage'])).toThrow(RangeError)
  })
})

describe('chunkIds', () => {
  it('creates smaller chunks for long ids, so that a request line stays below 4 KB', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `{${index}}`.padEnd(64, ' '))

    const chunks = chunkIds(ids)

    expect(chunks.flat()).toEqual(ids)
    expect(Math.max(...chunks.map((chunk) => encodeURIComponent(chunk.join('')).length))).toBeLessThan(3600)
  })
})
