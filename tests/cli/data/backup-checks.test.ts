import { expect, it } from 'bun:test'
import { findProblems } from '../../../src/cli/data/backup-checks.ts'
import type { Backup, SavedCollection } from '../../../src/cli/data/backup-folder.ts'

type Collections = Record<string, Partial<SavedCollection>>

const living = (records: number) => ({ records, living: records })
const counted = (records: number) => ({ records, living: null })
const opened = (records: number, ...unreadable: string[]) => ({ ...living(records), unreadable })

function collectionsOf(given: Collections): Map<string, SavedCollection> {
  const whole = ([name, more]: [string, Partial<SavedCollection>]) =>
    [name, { plain: 0, unreadable: [], ...more } as SavedCollection] as const
  return new Map(Object.entries(given).map(whole))
}

const thirty = { tabs: living(30), clients: living(30), forms: living(30), passwords: living(4) }

it.each<[what: string, kept: Collections[], now: Collections, problems: string[]]>([
  ['nothing, at first', [], { forms: living(1) }, []],
  ['nothing, if half is left', [{ forms: living(20) }], { forms: living(10) }, []],
  [
    'a collection of which less is left',
    [{ forms: living(20) }],
    { forms: living(9) },
    ['only 9 of 20 living records in #0'],
  ],
  [
    'a slow loss, by the largest backup',
    [{ forms: living(38) }, { forms: living(23) }],
    { forms: living(13) },
    ['only 13 of 38 living records in #0'],
  ],
  [
    'a collection that is gone, but not tabs, devices and small ones',
    [thirty],
    {},
    ['only 0 of 30 living records in #0'],
  ],
  [
    'records without the key',
    [{ forms: { records: 38, living: 30 } }],
    { forms: counted(1) },
    ['only 1 of 38 records in #0'],
  ],
  ['nothing, if a tenth cannot be opened', [], { forms: opened(10, 'a') }, []],
  ['more than that', [], { forms: opened(10, 'a', 'b') }, ['the key opens only 8 of 10 records']],
  ['no records of which it is known', [{ forms: opened(10, 'a', 'b') }], { forms: opened(10, 'a', 'b') }, []],
  ['nothing that is not encrypted', [], { forms: { ...living(10), plain: 10 } }, []],
])('a backup lacks %s', (_, kept, now, problems) => {
  const backups = kept.map((collections, index) => {
    return { name: `#${index}`, state: { problems: [], collections: collectionsOf(collections) } as unknown }
  }) as Backup[]

  const found = findProblems(collectionsOf(now), backups, new Set())

  expect(found.map((line) => line.replace(/^forms: | are left$/g, ''))).toEqual(problems)
})

it('a backup does not lack what could not be read, and is the measure once it is accepted', () => {
  const before = {
    name: 'before',
    state: { problems: [], collections: collectionsOf({ forms: living(30) }) },
  }
  const accepted = {
    name: 'accepted',
    state: { problems: ['x'], collections: collectionsOf({ forms: living(3) }) },
  }
  const now = collectionsOf({ forms: living(1) })

  expect(findProblems(now, [before] as unknown as Backup[], new Set(['forms']))).toEqual([])
  expect(findProblems(now, [before, accepted] as unknown as Backup[], new Set())).toEqual([])
})
