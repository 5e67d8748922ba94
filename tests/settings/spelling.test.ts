import { describe, expect, it } from 'bun:test'

import { nearest } from '../../src/settings/spelling.ts'

describe('nearest', () => {
  it.each([
    ['prot', 'port'],
    ['hots', 'host'],
    ['PORT', 'port'],
    ['pport', 'port'],
    ['cache_hmac_secert', 'cache_hmac_secret'],
    ['metrics_enable', 'metrics_enabled'],
    ['x', null],
    ['colour', null],
  ])('finds for %s: %p', (word, expected) => {
    expect(nearest(word, ['host', 'port', 'cache_hmac_secret', 'metrics_enabled'])).toBe(expected)
  })
})
