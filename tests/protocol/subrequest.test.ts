import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import { readBatch, toSubResponse as toText } from '../../src/protocol/subrequest.ts'
import type { MergedRequest } from '../../src/protocol/subrequest.ts'
import type { Reply } from '../../src/protocol/reply.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { RandomTexts } from './random.ts'

const settings = { httpApiVersion: '1.5', batchMaxRequests: 3 } as Settings
const merge = (body: unknown, envelope: Record<string, string> = {}): MergedRequest[] =>
  readBatch(body, envelope, settings)

function problemsOf(body: unknown, batchMaxRequests = 3): string[] {
  try {
    readBatch(body, {}, { ...settings, batchMaxRequests })
    return []
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return error.extras.problems!.map(({ name }) => name)
  }
}

const sameRequests = (count: number) => Array.from({ length: count }, () => ({ path: '/' }))

describe('readBatch', () => {
  it('fills in what is left out', () => {
    expect(merge({ requests: [{ path: '/x?a=1' }] })).toEqual([
      { method: 'GET', path: '/v1/x', query: '?a=1', headers: {}, body: {} },
    ])
  })

  it.each([
    ['/', '/v1'],
    ['/v1', '/v1'],
    ['/v1/', '/v1'],
    ['/x/', '/v1/x'],
    ['/v1/x///', '/v1/x'],
    ['/buckets/b/collections/c/records/', '/v1/buckets/b/collections/c/records'],
    ['/buckets/b/collections/c/records/a/', '/v1/buckets/b/collections/c/records/a/'],
    ['/v2/x', '/v2/x'],
    ['/v1x', '/v1/v1x'],
    ['/version', '/v1/version'],
    ['/a%2Fb/{c}', '/v1/a%2Fb/{c}'],
  ])('prefixes the path %s with the version: %s', (path, expected) => {
    expect(merge({ requests: [{ path }] })[0]!.path).toBe(expected)
  })

  it('lets requests outweigh defaults, and defaults the envelope, header names whatever their case', () => {
    const [first, second] = merge(
      {
        defaults: {
          method: 'PUT',
          path: '/d',
          headers: { PREFER: 'defaults', 'if-match': '"1"' },
          body: { a: { x: 1, y: 1 } },
        },
        requests: [
          {},
          { method: 'GET', path: '/r', headers: { prefer: 'own' }, body: { a: { y: 2 }, b: 3 } },
        ],
      },
      { prefer: 'envelope', authorization: 'Bearer t', 'x-other': 'no' },
    )

    expect(first).toEqual({
      method: 'PUT',
      path: '/v1/d',
      query: '',
      headers: { prefer: 'defaults', authorization: 'Bearer t', 'if-match': '"1"' },
      body: { a: { x: 1, y: 1 } },
    })
    expect([second!.method, second!.path, second!.headers.prefer]).toEqual(['GET', '/v1/r', 'own'])
    expect(second!.body).toEqual({ a: { x: 1, y: 2 }, b: 3 })
  })

  it('replaces what is no mapping as a whole, and changes no defaults', () => {
    const defaults = { path: '/x', body: { list: [1, 2], value: 1, map: { a: 1 } } }
    const [first, second] = merge({
      defaults,
      requests: [{ body: { list: [3], value: { b: 1 }, map: null } }, {}],
    })

    expect(first!.body).toEqual({ list: [3], value: { b: 1 }, map: null })
    expect(second!.body).toEqual({ list: [1, 2], value: 1, map: { a: 1 } })
  })

  it('pollutes no prototype, even with keys that reading JSON would have refused', () => {
    const evil = () =>
      JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}') as object
    try {
      merge({
        defaults: { path: '/', body: evil(), headers: {} },
        requests: [{ body: evil() }, { body: { a: evil() } }],
      })
    } catch {
      // A refusal is as good.
    }

    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
    expect(Object.keys(Object.prototype)).toEqual([])
  })

  it('refuses more requests than are configured', () => {
    expect(() => merge({ requests: sameRequests(4) })).toThrow(ServiceError)
    expect(merge({ requests: sameRequests(3) })).toHaveLength(3)
  })

  it('refuses what is too large to be looked at, in defaults too, and names it', () => {
    const manyHeaders = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`X-${index}`, '1']))
    const manyMembers = {
      data: Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`${index}`, 1])),
    }
    const tooLarge = {
      path: `/${'x'.repeat(16_384)}`,
      headers: manyHeaders,
    }

    expect(problemsOf({ defaults: tooLarge, requests: [tooLarge] })).toEqual([
      'defaults.headers',
      'defaults.path',
      'requests.0.headers',
      'requests.0.path',
    ])
    expect(problemsOf({ defaults: { body: manyMembers }, requests: [] })).toEqual(['defaults.body'])
    const long = { path: `/${'x'.repeat(16_000)}`, headers: { X: 'x'.repeat(16_000) } }
    expect(problemsOf({ defaults: long, requests: Array.from({ length: 33 }, () => ({})) }, 100)).toEqual([
      'requests',
    ])
    expect(problemsOf({ defaults: long, requests: Array.from({ length: 32 }, () => ({})) }, 100)).toEqual([])
    expect(merge({ requests: [{ path: `/x${'/'.repeat(16_382)}`, body: manyMembers }] })[0]!.path).toBe(
      '/v1/x',
    )
  })

  it('never fails on a path but with a refusal', () => {
    const pieces = [
      '/',
      'batch',
      '%62',
      '\t',
      '\n',
      '[',
      ']',
      ':',
      '@',
      '\\',
      '..',
      '?',
      '%',
      ' ',
      '\u0000',
      '\ud800',
      '.',
    ]
    const texts = new RandomTexts(pieces, 5)
    for (let turn = 0; turn < 20_000; turn++) {
      const path = `/${texts.next(6)}`
      try {
        readBatch({ requests: [{ path }] }, {}, settings)
      } catch (error) {
        if (!(error instanceof ServiceError))
          throw new Error(`Cannot read ${JSON.stringify(path)}`, { cause: error })
      }
    }
  })
})

describe('toSubResponse', () => {
  const toSubResponse = (...given: Parameters<typeof toText>): unknown => JSON.parse(toText(...given))
  const request: MergedRequest = { method: 'GET', path: '/v1/x', query: '?a', headers: {}, body: {} }
  const reply = (status: number, body: Reply['body'], more: Partial<Reply> = {}): Reply => ({
    status,
    headers: { ETag: '"1"' },
    body,
    ...more,
  })

  it('shows text and bytes as JSON', () => {
    const bytes = new TextEncoder().encode('{"data":[]}')

    expect(toSubResponse(request, reply(200, '{"a":1}'))).toMatchObject({
      status: 200,
      path: '/v1/x',
      body: { a: 1 },
    })
    expect(toSubResponse(request, reply(200, bytes))).toMatchObject({ body: { data: [] } })
  })

  it('shows an empty body as {}, of HEAD always', () => {
    expect(toSubResponse(request, reply(304, null))).toEqual({
      status: 304,
      path: '/v1/x',
      headers: { ETag: '"1"' },
      body: {},
    })
    expect(toSubResponse({ ...request, method: 'HEAD' }, reply(404, '{"code":404}'))).toMatchObject({
      body: {},
    })
  })

  it('shows the tombstone of a deletion', () => {
    const tombstone = { data: { id: 'x', deleted: true } }

    expect(toSubResponse({ ...request, method: 'DELETE' }, reply(204, null, { tombstone }))).toMatchObject({
      status: 204,
      body: tombstone,
    })
  })
})
