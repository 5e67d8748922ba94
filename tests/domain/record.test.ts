import { describe, expect, it } from 'bun:test'
import { canonicalCollection, isRecordId, timestamp, toExposedJson } from '../../src/domain/record.ts'

describe('canonicalCollection', () => {
  it.each([
    ['bookmarks', 'bookmarks'],
    ['History', 'history'],
    ['a.b_c-9', 'a.b_c-9'],
    ['x'.repeat(32), 'x'.repeat(32)],
  ])('spells %s as %s', (name, canonical) => {
    expect(canonicalCollection(name)).toBe(canonical)
  })

  it.each(['', '.', '..', 'x'.repeat(33), 'a/b', 'a b', 'tabs;x', 'täbs', 'a\n'])(
    'knows none of %p',
    (name) => {
      expect(canonicalCollection(name)).toBeNull()
    },
  )
})

describe('isRecordId', () => {
  it.each(['a', '{1c1e0eea}', 'with space', '...', '100%', '~'.repeat(64)])('takes %s', (id) => {
    expect(isRecordId(id)).toBe(true)
  })

  it.each(['', '.', '..', '~'.repeat(65), 'a\n', 'a\u0000', 'é', '\u007f'])('rejects %p', (id) => {
    expect(isRecordId(id)).toBe(false)
  })
})

describe('toExposedJson', () => {
  it('leaves out a weight that is not there', () => {
    expect(toExposedJson({ id: 'a', lastModified: timestamp(10), payload: '"' })).toBe(
      '{"id":"a","last_modified":10,"payload":"\\""}',
    )
  })
})
