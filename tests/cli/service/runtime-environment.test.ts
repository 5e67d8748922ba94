import { describe, expect, it } from 'bun:test'

import { fetchSlotsOf } from '../../../src/cli/service/runtime-environment.ts'

describe('fetchSlotsOf', () => {
  it.each([
    [undefined, 256],
    ['1024', 1024],
    ['65535', 65_535],
    // The runtime also ignores these.
    ['65536', 256],
    ['0', 256],
    ['1e3', 256],
  ])('reads %p as %d', (given, expected) => {
    expect(fetchSlotsOf({ BUN_CONFIG_MAX_HTTP_REQUESTS: given })).toBe(expected)
  })
})
