import { Type } from '@sinclair/typebox'
import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import type { Problem } from '../../src/domain/errors.ts'
import { compileBodyCheck } from '../../src/protocol/check.ts'
import { BatchBody, RecordBody } from '../../src/protocol/schemas.ts'

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

  it('returns the value itself, neither changed nor copied', () => {
    const value = { text: 'x', count: 1 }

    expect(check(value)).toBe(value)
    expect(value).toEqual({ text: 'x', count: 1 })
  })

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

  it('names the body when it is no object at all', () => {
    for (const value of [null, [], 'x', 1, undefined]) expect(namesOf(check, value)).toEqual(['body'])
  })

  it('describes what is wanted, never what was found', () => {
    const problems = problemsOf(check, { text: { secret: 'canary' }, count: 'canary', list: ['canary'] })

    expect(problems).toHaveLength(3)
    expect(JSON.stringify(problems)).not.toContain('canary')
    for (const { description } of problems) expect(description).toMatch(/^(is|must)/)
  })

  it('cuts the names that a client chose', () => {
    expect(namesOf(check, { ['x'.repeat(1000)]: 1 })).toContain('x'.repeat(64))
  })

  it('stops after 20 problems', () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`x${index}`, 1]))

    expect(namesOf(check, many)).toHaveLength(20)
  })
})

describe('the schemas of bodies', () => {
  const record = compileBodyCheck(RecordBody)
  const batch = compileBodyCheck(BatchBody)

  it.each([
    {},
    { payload: '' },
    { sortindex: -999_999_999, ttl: 0 },
    { id: 5, last_modified: null, payload: 'x' },
  ])('accept the record %j', (data) => {
    expect(namesOf(record, { data })).toEqual([])
    expect(namesOf(record, { data, permissions: { write: [] } })).toEqual([])
  })

  it('accept a batch of requests that leave out what they may', () => {
    expect(namesOf(batch, { requests: [{}, { path: '/', method: 'HEAD', headers: {}, body: {} }] })).toEqual(
      [],
    )
  })

  it.each(['x', '', '//x', '/\\x', '/a#b', 'http://x/'])('refuse the path %j', (path) => {
    expect(namesOf(batch, { requests: [{ path }] })).toEqual(['requests.0.path'])
  })
})
