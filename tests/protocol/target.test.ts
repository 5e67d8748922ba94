import { describe, expect, it } from 'bun:test'
import { readTarget } from '../../src/protocol/target.ts'
import type { Target } from '../../src/protocol/target.ts'
import { RandomTexts } from './random.ts'

const resourceOf = (path: string) => {
  const target = readTarget(path, '', '1')
  return target.outcome === 'resource' ? target.resource : target.outcome
}

describe('readTarget', () => {
  it.each([
    ['/v1', { kind: 'root' }],
    ['/v1/', { kind: 'root' }],
    ['/__heartbeat__', { kind: 'heartbeat' }],
    ['/__lbheartbeat__', { kind: 'lbheartbeat' }],
    ['/v1/__version__', { kind: 'version' }],
    ['/v1/batch', { kind: 'batch' }],
    ['/v1/docs', { kind: 'docs', file: '' }],
    ['/v1/docs/page.js', { kind: 'docs', file: 'page.js' }],
    ['/v1/buckets/b', { kind: 'bucket', bucket: 'b' }],
    ['/v1/buckets/b/collections', { kind: 'collections', bucket: 'b' }],
    ['/v1/buckets/b/collections/C', { kind: 'collection', bucket: 'b', collection: 'c' }],
    ['/v1/buckets/b/collections/C.x/records', { kind: 'records', bucket: 'b', collection: 'c.x' }],
    [
      '/v1/buckets/b/collections/c/records/R%20r',
      { kind: 'record', bucket: 'b', collection: 'c', id: 'R r' },
    ],
  ] as const)('reads %s', (path, resource) => {
    expect(resourceOf(path)).toEqual(resource)
  })

  it.each([
    ['/v2', 'unknown-version'],
    ['/v10/x', 'unknown-version'],
    ['/v1/x', 'unknown-path'],
    ['/v1//x', 'unknown-path'],
    ['//x', 'unknown-path'],
    ['/x%2fy', 'unknown-path'],
    ['/x', 'redirect'],
    ['/v1/x/', 'redirect'],
    ['/v1/buckets/b/collections/c/records/%2e', 'invalid'],
    ['/v1/buckets/b/collections/../records', 'invalid'],
    ['/v1/buckets/b#c', 'invalid'],
  ] as const)('%s: %s', (path, outcome) => {
    expect(resourceOf(path)).toBe(outcome)
  })

  it('believes the dot segments that the router saw, even where the URL has lost them', () => {
    const seen = { bucket_id: 'b', collection_id: 'c', record_id: '..' }

    expect(readTarget('/v1/buckets/b/collections/c', '', '1', seen)).toMatchObject({
      outcome: 'invalid',
      isRecord: true,
      collection: 'c',
      problems: [{ location: 'path', name: 'record_id' }],
    })
  })

  const pieces = [
    '/', '//', '/v1', '/v1/', '/v2/', '/v1/buckets/', 'b', '/collections/', 'c', '/records/', 'r', '.', '..', '...', '%2e',
    '%2E', '%252e', '%2f', '%5c', '\\', ';', '?', '%3f', '#', '%23', '%00', '%0d%0a', '%09', '%7f', '%ff', '%c0%af', '%zz', '%',
    '\u0000', '\n', '\r', '\u007f', '\u0085', '\uff0e', '\u2024', '%ef%bc%8e', '\u00e9', '\ud800', ' ', '+', '@', ':', '{x}', '__proto__',
    '/batch', '/docs/', '/v1/buckets/b/collections/c/records/',
  ] // prettier-ignore

  it('never makes anything of 200 000 nasty targets that a storage could take for something else', () => {
    const texts = new RandomTexts(pieces, 1)
    const outcomes = new Map<Target['outcome'], number>()
    const faults: string[] = []
    const prefixes = [
      '/',
      '/v2',
      '/v1/buckets/b/collections/c/records/',
      '/v1/buckets/b/collections/',
      '/v1/buckets/',
    ]

    for (let turn = 0; turn < 200_000; turn++) {
      const path = prefixes[texts.below(5)]! + texts.next(5)
      const target = readTarget(path, '', '1')
      outcomes.set(target.outcome, (outcomes.get(target.outcome) ?? 0) + 1)
      if (!isSound(target, path)) faults.push(path)
    }

    expect(faults).toEqual([])
    expect([...outcomes.keys()].toSorted()).toEqual([
      'invalid',
      'redirect',
      'resource',
      'unknown-path',
      'unknown-version',
    ])
    expect(outcomes.get('resource')).toBeGreaterThan(5000)
  })

  function isSound(target: Target, path: string): boolean {
    if (target.outcome === 'redirect') {
      return /^\/v1(?:$|[/?])/.test(target.location) && !/^\/[/\\]|\\|\/\//.test(target.location)
    }
    if (target.outcome !== 'resource') return true
    const { resource } = target
    if ('collection' in resource && !/^(?!\.{1,2}$)[a-z0-9._-]{1,32}$/.test(resource.collection)) return false
    if (!('id' in resource)) return true
    // What stands between the slashes is the id, decoded once: a slash in it was an escape, and stays one upstream.
    const raw = path.split('/').at(-1)!
    return (
      /^(?!\.{1,2}$)[ -~]{1,64}$/.test(resource.id) &&
      path.split('/').length === 8 &&
      decodeURIComponent(raw) === resource.id
    )
  }
})
