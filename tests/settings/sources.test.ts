import { describe, expect, it } from 'bun:test'

import { parseIni } from '../../src/settings/sources.ts'

/** The key and value, or key and problem, of each line. */
function linesOf(text: string): [string | null, string][] {
  return parseIni(text).map(({ key, reading }) => [key, 'value' in reading ? reading.value : reading.problem])
}

describe('parseIni', () => {
  it('accepts only whole lines as comments', () => {
    const text = '# x = 1\n; y = 2\n  # z = 3\nurl = redis://h/?a=1;b=2#c ; d\n'

    expect(linesOf(text)).toEqual([['url', 'redis://h/?a=1;b=2#c ; d']])
  })

  it.each([
    ['http://h/?x=1', 'http://h/?x=1'],
    ['%(c)s', '%(c)s'],
    ['', ''],
    ['"b c"', 'b c'],
    ["'b'", 'b'],
    ['""', ''],
    ['"', '"'],
    [`"b'`, `"b'`],
    ['"b" or "c"', '"b" or "c"'],
    ['"b" # c', '"b" # c'],
    [`"it's"`, `it's`],
  ])('reads the value %j as %j', (written, value) => {
    expect(linesOf(`a = ${written}\n`)).toEqual([['a', value]])
  })

  it('reads files of other operating systems', () => {
    const lines = parseIni('\uFEFF[s]\r\na = 1\r\nb = 2\r')

    expect(lines.map(({ key, line, reading }) => [key, line, reading])).toEqual([
      ['a', 2, { value: '1' }],
      ['b', 3, { value: '2' }],
    ])
  })

  it('does not accept an indented line as a setting', () => {
    expect(linesOf('[r]\nz = 0\n[s]\n  a = 1\nb = 2\n\tc = 3\n')).toEqual([
      ['z', '0'],
      ['a', '1'],
      ['b', '2'],
      [
        'b',
        'is indented, as if it continued the line above: write the value on one line, and every setting at the start of its line',
      ],
    ])
  })
})
