import { describe, expect, it } from 'bun:test'

import { readArguments, type CommandDescription } from '../../src/cli/command-line.ts'

const command: CommandDescription = {
  usage: 'FORMAT [FILE] [OPTIONS]',
  summary: 'save records',
  options: {
    only: { value: 'COLLECTION', isList: true, meaning: 'only this collection' },
    quiet: { meaning: 'print nothing' },
  },
  words: [
    { name: 'FORMAT', choices: ['csv', 'json'] },
    { name: 'FILE', isOptional: true },
  ],
}

const read = (line: string) => readArguments(command, line.split(' '))

describe('readArguments', () => {
  it.each([
    ['csv', ['csv']],
    ['json history.json', ['json', 'history.json']],
    ['--only tabs csv --quiet tabs.csv', ['csv', 'tabs.csv']],
    ['--help', []],
  ])('takes words between options, of which the last may be left out: %s', (line, words) => {
    expect(read(line)).toMatchObject({ words })
  })

  it('takes an option several times where that is allowed', () => {
    const options = new Map([['only', ['tabs', 'history']]])

    expect(read('csv --only tabs --only=history')).toEqual({ words: ['csv'], options })
  })

  it.each([
    ['--quiet', 'FORMAT is missing: use csv or json'],
    ['xml', 'FORMAT "xml" is unknown: use csv or json'],
    ['csv a.csv b.csv', 'unexpected argument "b.csv"'],
    ['csv --quiet --quiet', '--quiet is given twice'],
  ])('rejects %s', (line, error) => {
    expect(read(line)).toEqual({ error })
  })
})
