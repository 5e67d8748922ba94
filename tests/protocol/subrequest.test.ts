import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import { readBatch, type MergedRequest } from '../../src/protocol/subrequest.ts'
import type { Problem } from '../../src/protocol/problems.ts'
import type { Settings } from '../../src/settings/settings.ts'

const settings = { httpApiVersion: '1.5', batchMaxRequests: 3, maxRequestBytes: 100_000 } as Settings
const merge = (body: unknown, envelope: Record<string, string> = {}): MergedRequest[] =>
  readBatch(body, envelope, settings)

function problemsOf(body: unknown, batchMaxRequests = 3): string[] {
  try {
    readBatch(body, {}, { ...settings, batchMaxRequests })
    return []
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return (error.extras.details as Problem[]).map(({ name }) => name)
  }
}

describe('readBatch', () => {
  it('replaces non-objects as a whole, and does not change the defaults', () => {
    const defaults = { path: '/x', body: { list: [1, 2], value: 1, map: { a: 1 } } }
    const [first, second] = merge({
      defaults,
      requests: [{ body: { list: [3], value: { b: 1 }, map: null } }, {}],
    })

    expect(first!.body).toEqual({ list: [3], value: { b: 1 }, map: null })
    expect(second!.body).toEqual({ list: [1, 2], value: 1, map: { a: 1 } })
  })

  it('rejects and names what is too large to process, including defaults', () => {
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

  it('accepts exactly what it allows, and not one more', () => {
    const members = (count: number) => ({
      defaults: {
        path: '/',
        body: { data: Object.fromEntries(Array.from({ length: count - 1 }, (_, at) => [at, 1])) },
      },
      requests: [],
    })
    // Two copies of 50 000 characters each; the text around the payload has 24.
    const body = (characters: number) => ({
      defaults: {
        path: '/',
        body: { data: { payload: 'x'.repeat(characters - '{"data":{"payload":""}}'.length) } },
      },
      requests: [{}, {}],
    })
    // 64 requests with 16 KiB of path and headers each are 1 MiB.
    const paths = (more: number) => ({
      requests: Array.from({ length: 64 }, (_, at) => ({
        path: `/${'x'.repeat(16_000 - 1)}`,
        headers: { X: 'x'.repeat(384 - 1 + (at === 0 ? more : 0)) },
      })),
    })

    expect([problemsOf(members(100)), problemsOf(members(101))]).toEqual([[], ['defaults.body']])
    expect([problemsOf(body(50_000)), problemsOf(body(50_001))]).toEqual([[], ['defaults.body']])
    expect([problemsOf(paths(0), 64), problemsOf(paths(1), 64)]).toEqual([[], ['requests']])
  })

  it('counts the body of the defaults as often as it is copied', () => {
    const defaults = { path: '/', body: { data: { payload: 'x'.repeat(30_000) } } }

    expect(problemsOf({ defaults, requests: [{}, {}, {}] })).toEqual([])
    expect(problemsOf({ defaults, requests: [{}, {}, {}, {}] }, 4)).toEqual(['defaults.body'])
  })
})
