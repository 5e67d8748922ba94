import { describe, expect, it } from 'bun:test'
import { invalidRequest, UpstreamError } from '../../src/domain/errors.ts'

describe('invalidRequest', () => {
  it('sorts all problems once and describes the first', () => {
    const error = invalidRequest([
      { location: 'querystring', name: '_since', description: 'is wrong' },
      { location: 'querystring', name: '_limit', description: 'is wrong, too' },
      { location: 'body', name: 'body', description: 'is no JSON' },
    ])

    expect(error.status).toBe(400)
    expect(error.errno).toBe(109)
    expect(error.message).toBe('body: is no JSON')
    expect(error.extras.problems!.map(({ name }) => name)).toEqual(['body', '_limit', '_since'])
  })

  it('has an error number of its own for headers', () => {
    expect(invalidRequest([{ location: 'header', name: 'If-Match', description: 'is wrong' }]).errno).toBe(
      107,
    )
  })
})

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
