import { describe, expect, it } from 'bun:test'
import type { SyncRecord } from '../../src/client/collection.ts'
import type { EditClient, SaveResult } from '../../src/client/edit/save.ts'
import type { Problem } from '../../src/client/edit/edit.ts'
import { ClientError } from '../../src/client/errors.ts'
import type { OpenedAccount } from '../../src/explorer/opened-account.ts'
import { Editing } from '../../src/explorer/editing.ts'
import { LoadedRecords } from '../../src/explorer/loaded-records.ts'
import { readingChanges } from '../../src/explorer/reading-changes.ts'

function record(id: string, title: string, last_modified = 10): SyncRecord {
  return { collection: 'bookmarks', stored: { id, last_modified }, clear: { id, title }, problem: null }
}

/** What an edit returns that has written these records. */
function written(...records: SyncRecord[]): SaveResult {
  const after = records.map(({ stored }) => ({ id: stored.id, payload: '' }))
  const saved = {
    keyId: '',
    collection: 'bookmarks',
    keys: { id: 'keys', payload: '' },
    asOfMs: 0,
    before: [],
    after,
  }
  return { problems: [], written: records.length, saved, records }
}

const titlesOf = (records: Iterable<SyncRecord>) => Array.from(records, ({ clear }) => clear!.title)

/** Records on display, and how they are edited; the last edits that an account was asked for. */
async function show(edit: OpenedAccount['edit'], undo?: OpenedAccount['undo']) {
  const account: OpenedAccount = {
    collections: ['bookmarks'],
    writable: new Set(['bookmarks']),
    read: async (_, __, onRecords) => onRecords([record('a', 'A'), record('b', 'B')]),
    edit,
    undo: undo ?? (() => Promise.reject(new Error('not called'))),
  }
  const loaded = new LoadedRecords(account)
  await loaded.read(() => {})
  const changes: boolean[] = []
  const editing = new Editing(account, loaded, (hasNewRecords) => changes.push(hasNewRecords))
  return { loaded, editing, changes }
}

describe('Editing', () => {
  it('shows what was written, and takes the last save back', async () => {
    const { loaded, editing, changes } = await show(
      async () => written(record('a', 'New')),
      async () => written(record('a', 'A')),
    )

    const saving = editing.save('bookmarks', [], 'Changed “A”')
    const during = [editing.isSaving, editing.undoable]
    await saving
    await Promise.resolve()
    const after = [editing.undoable, ...titlesOf(loaded.records())]
    await editing.undo()

    expect(during).toEqual([true, null])
    expect(after).toEqual(['Changed “A”', 'New', 'B'])
    expect([editing.undoable, ...titlesOf(loaded.records())]).toEqual([null, 'A', 'B'])
    expect(await editing.undo()).toBeNull()
    expect(changes).toContain(true)
  })

  it('edits again what an edit before has written, but not what others have changed meanwhile', async () => {
    const shown: unknown[][] = []
    const { editing } = await show(async (_, __, records) => {
      shown.push(titlesOf(records))
      const result = written(record('a', `New ${shown.length}`))
      return { ...result, records: [...result.records, record('b', 'Theirs')] }
    })

    await Promise.all([editing.save('bookmarks', [], 'one'), editing.save('bookmarks', [], 'two')])

    expect(shown).toEqual([
      ['A', 'B'],
      ['New 1', 'B'],
    ])
  })

  it('keeps what is shown and what can be undone when a save fails or writes nothing, and saves the next edits', async () => {
    let outcome = () => written(record('a', 'New'))
    const { loaded, editing } = await show(async () => outcome())
    await editing.save('bookmarks', [], 'Changed “A”')
    outcome = () => {
      throw new ClientError('The storage is down')
    }

    const failure = await editing.save('bookmarks', [], 'Changed “B”').catch((error: Error) => error.message)
    outcome = () => ({ ...written(record('b', 'Theirs')), saved: null })
    await editing.save('bookmarks', [], 'Changed “B”')
    const undoable = editing.undoable
    outcome = () => written(record('a', 'Newer'))
    await editing.save('bookmarks', [], 'Changed “C”')
    await Promise.resolve()

    expect([failure, undoable, editing.undoable]).toEqual([
      'The storage is down',
      'Changed “A”',
      'Changed “C”',
    ])
    expect(titlesOf(loaded.records())).toEqual(['Newer', 'Theirs'])
  })

  it('takes back the save that is under way, and leaves it if others have changed all of it', async () => {
    const undone: string[] = []
    const { editing } = await show(
      async () => written(record('a', 'New')),
      async ({ after }) => {
        undone.push(after[0]!.id)
        return { ...written(), saved: null, problems: [{ code: 'changed', id: 'b' } as Problem] }
      },
    )
    await editing.save('bookmarks', [], 'Changed “A”')

    void editing.save('bookmarks', [], 'Changed “B”')
    await editing.undo()

    expect([undone.length, editing.undoable]).toEqual([1, 'Changed “B”'])
  })
})

describe('readingChanges', () => {
  const never = () => Promise.reject(new Error('not called'))

  it('reads what has changed since the newest record on display, and everything after a write', async () => {
    const asked: unknown[] = []
    const client: EditClient = {
      account: { keyId: '', bucket: '' },
      keysOf: never,
      encrypt: never,
      info: never,
      strictTransaction: async () => ({ responses: [], isStrict: true }),
      collection: (name) => ({
        storedPages: () => {
          throw new Error('not called')
        },
        async *records(options) {
          asked.push([name, options?.since, options?.ids])
          yield record('b', 'Theirs', 30)
        },
      }),
    }
    const shown = [record('a', 'A', 20), record('b', 'B', 10)]
    const reading = readingChanges(client, shown)
    const titles = async (options = {}) =>
      titlesOf(await Array.fromAsync(reading.collection('bookmarks').records(options)))

    const first = await titles()
    const some = await titles({ ids: ['b'] })
    await reading.strictTransaction([])
    const second = await titles()

    expect(asked).toEqual([
      ['bookmarks', 20, undefined],
      ['bookmarks', undefined, ['b']],
      ['bookmarks', undefined, undefined],
    ])
    expect([first, some, second]).toEqual([['A', 'B', 'Theirs'], ['Theirs'], ['Theirs']])
  })
})
