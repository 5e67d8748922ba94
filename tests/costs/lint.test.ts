import { describe, expect, it } from 'bun:test'

import { findings } from '../../.ci/lint-costs.ts'

const messagesOf = (source: string) => findings(source).map(({ message }) => message)

describe('the lint for costs', () => {
  it.each([
    ["text.replace(/(?<=.)\\/+$/, '')", 'is quadratic'],
    ["text.replace(/\\s+$/, '')", 'is quadratic'],
    ['/^(a+)+$/.test(text)', 'is exponential'],
    ['/^(\\w|[a-z])*$/.test(text)', 'is exponential'],
    ["new RegExp('^(a|a)*b$')", 'is exponential'],
    ['new RegExp(`x*x*$`)', 'is quadratic'],
    ["const schema = { pattern: '^(\\\\d+)*$' }", 'is exponential'],
    ["const schema = { pattern: '(' }", 'can not be read'],
  ])('rejects %s', (source, reason) => {
    expect(messagesOf(source)).toEqual([expect.stringContaining(reason)])
  })

  it.each([
    '/^\\/v\\d{1,3}(?=\\/|$)/.test(text)',
    "text.replace(/\\/{1,16}$/, '')",
    "const schema = { pattern: '^[\\\\w.-]{1,256}$' }",
    "const description = 'a+a+$'",
  ])('accepts %s', (source) => {
    expect(messagesOf(source)).toEqual([])
  })

  it.each([
    'const both = (a: string[], b: string[]) => a.filter((id) => b.includes(id))',
    'function both(a, b) { for (const id of a) if (b.indexOf(id) !== -1) return id }',
    'function both(a, options) { while (a.length) if (options.ids.includes(a.pop())) return true }',
    'class Both { all(a) { return a.map((id) => this.ids.includes(id)) } }',
    'const both = (a, b) => a.map(({ id }) => { const list = b; return b.includes(id) })',
  ])('rejects the search in %s', (source) => {
    expect(messagesOf(source)).toEqual([expect.stringContaining('is quadratic: make a Set')])
  })

  it.each([
    'const allowed = (list, method) => list.includes(method)',
    "const quoted = (texts) => texts.filter((text) => text.includes('x'))",
    'const own = (a, part) => a.filter(({ ids }) => ids.includes(part))',
    'function lines(bytes, newline) { for (let at = 0; at !== -1;) at = bytes.indexOf(newline, at) }',
    'function later(a, b) { for (const id of a) { const ids = b.get(id); if (ids.includes(id)) return id } }',
  ])('accepts the search in %s', (source) => {
    expect(messagesOf(source)).toEqual([])
  })

  it('reports the line', () => {
    expect(findings('type A = 1\n\nconst form: RegExp = /a*a*$/\n')).toMatchObject([{ line: 3 }])
  })
})
