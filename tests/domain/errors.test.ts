import { describe, expect, it } from 'bun:test'
import { UpstreamError, type UpstreamFailure } from '../../src/domain/errors.ts'

describe('UpstreamError', () => {
  it('is certain of no effect only when nothing was sent', () => {
    const appliedOf = (failure: UpstreamFailure) => new UpstreamError(failure, 'x').applied

    expect((['unreachable', 'overload'] as const).map(appliedOf)).toEqual(['no', 'no'])
    for (const failure of ['connection-lost', 'timeout', 'refused', 'bad-response'] as const)
      expect(appliedOf(failure)).toBe('unknown')
  })
})
