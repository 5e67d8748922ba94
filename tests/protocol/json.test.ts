import { describe, expect, it } from 'bun:test'
import { ServiceError } from '../../src/domain/errors.ts'
import type { Problem } from '../../src/protocol/problems.ts'
import { readJson } from '../../src/protocol/check.ts'
import { Chance } from '../fuzz/chance.ts'

const read = (text: string) => readJson(new TextEncoder().encode(text))

function refusal(text: string): string | undefined {
  try {
    read(text)
    return undefined
  } catch (error) {
    if (error instanceof ServiceError && error.status === 400)
      return (error.extras.details as Problem[])[0]!.name
    throw error
  }
}

describe('readJson', () => {
  it('agrees with JSON.parse about random texts, or rejects them', () => {
    const pieces = [
      '{', '}', '[', ']', ',', ':', '"', '\\', '\\"', '\\\\', '"a"', '"b":', '1', 'null', ' ', '\\u0061',
    ] // prettier-ignore
    const chance = new Chance(7)
    let accepted = 0
    for (let turn = 0; turn < 30_000; turn++) {
      const text = chance.text(pieces, 7)
      if (refusal(text) !== undefined) continue
      accepted++
      expect(read(text)).toEqual(JSON.parse(text))
    }
    expect(accepted).toBeGreaterThan(100)
  })

  it.each([
    '{"a":1,"a":2}',
    '{"a":1,"\\u0061":2}',
    '[{"x":{"k":1,"j":2,"k":3}}]',
    '{"":1,"":2}',
    '{"a" : 1 , "a"\n:2}',
  ])('rejects a duplicate key: %s', (text) => {
    expect(refusal(text)).toBe('body')
  })

  it('finds the end of a string that ends in backslashes', () => {
    expect(refusal(String.raw`{"a":"x\\","__proto__":1}`)).toBe('__proto__')
    expect(refusal(String.raw`{"a":"x\\\\","b":1,"b":2}`)).toBe('body')
    expect(refusal(String.raw`{"a":"x\\\",\"__proto__\":1"}`)).toBeUndefined()
  })

  it('distinguishes keys of different objects, and values, from duplicate keys', () => {
    expect(refusal('{"a":{"a":{"a":"a"}},"b":["a","a",{"a":1},{"a":1}]}')).toBeUndefined()
  })

  it.each(['__proto__', 'constructor', 'prototype'])(
    'rejects the key %s at every depth and in every spelling',
    (key) => {
      const escaped = [...key]
        .map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
        .join('')
      for (const spelled of [key, escaped]) {
        expect(refusal(`{"${spelled}":1}`)).toBe(key)
        expect(refusal(`[[{"a":{"${spelled}" : {}}}]]`)).toBe(key)
      }
      expect(refusal(`{"a":"${key}"}`)).toBeUndefined()
    },
  )

  it('bounds the depth at 32 levels', () => {
    expect(refusal('['.repeat(32) + ']'.repeat(32))).toBeUndefined()
    expect(refusal('['.repeat(33) + ']'.repeat(33))).toBe('body')
    expect(refusal('{"a":'.repeat(33) + '1' + '}'.repeat(33))).toBe('body')
    expect(refusal('['.repeat(1_000_000))).toBe('body')
  })

  it('does not count brackets inside strings as depth', () => {
    expect(refusal(`["${'[{'.repeat(100)}\\"${'['.repeat(100)}"]`)).toBeUndefined()
  })

  it('bounds the number of members', () => {
    expect(refusal(`[${'1,'.repeat(50_000)}1]`)).toBeUndefined()
    expect(refusal(`[${'1,'.repeat(50_001)}1]`)).toBe('body')
  })
})
