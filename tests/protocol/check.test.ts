import { Type } from '@sinclair/typebox'
import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import { compileBodyCheck } from '../../src/protocol/check.ts'

describe('compileBodyCheck', () => {
  const check = compileBodyCheck(Type.Object({}, { additionalProperties: false }))
  /** The names of the invalid members that a check finds; none if it returns. */
  function namesOf(value: unknown): string[] {
    try {
      check(value)
      return []
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      return error.extras.problems!.map(({ name }) => name)
    }
  }

  it('truncates names chosen by a client', () => {
    expect(namesOf({ ['x'.repeat(1000)]: 1 })).toEqual(['x'.repeat(64)])
  })

  it('stops after 20 problems', () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`x${index}`, 1]))

    expect(namesOf(many)).toHaveLength(20)
  })
})
