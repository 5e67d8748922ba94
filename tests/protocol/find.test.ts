import { describe, expect, it } from 'bun:test'
import type { Problem } from '../../src/domain/errors.ts'
import { findResources, isBucketResource, resourceFor } from '../../src/protocol/find.ts'
import { Chance } from '../fuzz/chance.ts'

/** The operation for a path; null if nothing is there, or it is rejected. */
function operationOf(method: string, path: string) {
  const found = findResources(path, { readableCollections: null })
  const resource = found && resourceFor(method, found.resources)
  if (!resource || !isBucketResource(resource)) return null
  const input = { params: found.params, query: {}, headers: {}, body: { data: {} } }
  const problems: Problem[] = resource.check(input)
  const operation = resource.operation({ ...input, address: { host: 'h', path, query: '' } }, problems)
  return problems.length === 0 ? operation : null
}

describe('the operation of a path', () => {
  const pieces = [
    '/', '//', '/v1', '/v1/', '/v2/', '/v1/buckets/', 'b', '/collections/', 'c', '/records/', 'r', '.', '..', '...', '%2e',
    '%2E', '%252e', '%2f', '%5c', '\\', ';', '?', '%3f', '#', '%23', '%00', '%0d%0a', '%09', '%7f', '%ff', '%c0%af', '%zz', '%',
    '\u0000', '\n', '\r', '\u007f', '\u0085', '\uff0e', '\u2024', '%ef%bc%8e', '\u00e9', '\ud800', ' ', '+', '@', ':', '{x}', '__proto__',
    '/batch', '/docs/', '/v1/buckets/b/collections/c/records/',
  ] // prettier-ignore

  it('is never ambiguous for a storage, for 50 000 malicious paths', () => {
    const chance = new Chance(1)
    const faults: string[] = []
    const prefixes = ['/', '/buckets/b/collections/c/records/', '/buckets/b/collections/', '/buckets/']
    let read = 0

    for (let turn = 0; turn < 50_000; turn++) {
      const path = chance.of(prefixes) + chance.text(pieces, 5)
      const operation = operationOf('DELETE', path) ?? operationOf('GET', path)
      if (!operation) continue
      read += 1
      if ('collection' in operation && !/^(?!\.{1,2}$)[a-z0-9._-]{1,32}$/.test(operation.collection))
        faults.push(path)
      if (!('id' in operation)) continue
      const raw = path.slice(path.indexOf('/records/') + '/records/'.length)
      const isSound =
        /^[ -~]{1,64}$/.test(operation.id) && !operation.id.split('/').some((part) => /^\.{1,2}$/.test(part))
      if (!isSound || decodeURIComponent(raw) !== operation.id) faults.push(path)
    }

    expect(faults).toEqual([])
    expect(read).toBeGreaterThan(1000)
  })
})
