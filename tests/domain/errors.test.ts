import { describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'

describe('UpstreamError', () => {
  it('is certain of no effect only when nothing was sent', () => {
    const failures = [
      'unreachable',
      'overload',
      'connection-lost',
      'timeout',
      'refused',
      'bad-response',
    ] as const

    const applied = failures.map((failure) => new UpstreamError(failure, 'x').applied)

    expect(applied).toEqual(['no', 'no', 'unknown', 'unknown', 'unknown', 'unknown'])
  })
})
