import { Type } from '@sinclair/typebox'
import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import type { Problem } from '../../src/domain/errors.ts'
import { compileBodyCheck } from '../../src/protocol/check.ts'

/** The problems that a check finds in a body; none where it returns. */
function problemsOf(check: (value: unknown) => unknown, value: unknown): Problem[] {
  try {
    check(value)
    return []
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return error.extras.problems!
  }
}

const namesOf = (check: (value: unknown) => unknown, value: unknown) =>
  problemsOf(check, value).map(({ name }) => name)

describe('compileBodyCheck', () => {
  const check = compileBodyCheck(
    Type.Object(
      {
        text: Type.Optional(Type.String()),
        count: Type.Optional(Type.Integer({ minimum: 1 })),
        list: Type.Optional(
          Type.Array(Type.Object({ path: Type.String() }, { additionalProperties: false })),
        ),
      },
      { additionalProperties: false },
    ),
  )

  it('coerces nothing', () => {
    expect(namesOf(check, { count: '1' })).toEqual(['count'])
    expect(namesOf(check, { text: 1 })).toEqual(['text'])
    expect(namesOf(check, { count: 1.5 })).toEqual(['count'])
    expect(namesOf(check, { text: null })).toEqual(['text'])
  })

  it('names every member that is wrong once, by its path', () => {
    expect(
      namesOf(check, {
        text: 1,
        count: 0,
        list: [{}, { path: 1 }, { path: '', more: 1 }],
        other: 1,
      }).toSorted(),
    ).toEqual(['count', 'list.0.path', 'list.1.path', 'list.2.more', 'other', 'text'])
  })

  it('cuts the names that a client chose', () => {
    expect(namesOf(check, { ['x'.repeat(1000)]: 1 })).toContain('x'.repeat(64))
  })

  it('stops after 20 problems', () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`x${index}`, 1]))

    expect(namesOf(check, many)).toHaveLength(20)
  })
})
