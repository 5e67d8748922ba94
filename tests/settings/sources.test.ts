import { describe, expect, it } from 'bun:test'

import { parseIni } from '../../src/settings/sources.ts'

describe('parseIni', () => {
  it('reads keys with their sections and lines', () => {
    const text = 'a = 1\n\n[one]\na=2\n  \n[ two ]\nb : 3\n'

    expect(parseIni(text)).toEqual({
      entries: [
        { section: null, key: 'a', value: '1', line: 1 },
        { section: 'one', key: 'a', value: '2', line: 4 },
        { section: 'two', key: 'b', value: '3', line: 7 },
      ],
      problems: [],
    })
  })

  it('takes whole lines for comments only', () => {
    const text = '# x = 1\n; y = 2\n  # z = 3\nurl = redis://h/?a=1;b=2#c ; d\n'

    expect(parseIni(text)).toEqual({
      entries: [{ section: null, key: 'url', value: 'redis://h/?a=1;b=2#c ; d', line: 4 }],
      problems: [],
    })
  })

  it('ends the key at the first separator and leaves the value alone', () => {
    const values = parseIni('a = http://h/?x=1\nb: "q" = %(c)s\nc =\n').entries.map(({ value }) => value)

    expect(values).toEqual(['http://h/?x=1', '"q" = %(c)s', ''])
  })

  it('reads files of other systems', () => {
    const { entries, problems } = parseIni('\uFEFF[s]\r\na = 1\r\nb = 2\r')

    expect(problems).toEqual([])
    expect(entries.map(({ key, value, line }) => [key, value, line])).toEqual([
      ['a', '1', 2],
      ['b', '2', 3],
    ])
  })

  it('keeps the first of two equal keys and names both lines', () => {
    const { entries, problems } = parseIni('a = 1\n[s]\na = 2\n[t]\n[s]\na = 3\n')

    expect(entries.map(({ value }) => value)).toEqual(['1', '2'])
    expect(problems).toEqual([
      {
        section: 's',
        key: 'a',
        line: 6,
        message: 'is given twice, first on line 3',
        remedy: 'keep one of the two',
      },
    ])
  })

  it('does not take an indented line for a setting', () => {
    const { entries, problems } = parseIni('[r]\nz = 0\n[s]\n  a = 1\nb = 2\n\tc = 3\n')

    expect(entries.map(({ key }) => key)).toEqual(['z', 'a', 'b'])
    expect(problems).toMatchObject([
      { section: 's', key: 'b', line: 6, message: 'is indented, as if it continued the line above' },
    ])
  })

  it.each([
    ['secret-without-separator', 'has no "="'],
    ['= 1', 'has no key before "="'],
    ['[s', 'is not a section header'],
    ['[]', 'is not a section header'],
    ['[s] a = 1', 'is not a section header'],
  ])('reports %j', (line, message) => {
    const { entries, problems } = parseIni(`\n${line}\n`)

    expect(entries).toEqual([])
    expect(problems).toMatchObject([{ line: 2, message }])
  })
})
