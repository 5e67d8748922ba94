import { describe, expect, it } from 'bun:test'
import type { SyncRecord } from '../../src/client/collection.ts'
import type { ClearRecord } from '../../src/client/crypto.ts'
import { editableFields, editsFor, isDeletable } from '../../src/explorer/editable-fields.ts'

function record(collection: string, clear: ClearRecord | null): SyncRecord {
  const stored = { id: clear?.id ?? 'unreadable', last_modified: 10 }
  return { collection, stored, clear, problem: clear === null ? 'wrong key' : null } as SyncRecord
}

const link = record('bookmarks', {
  id: 'a',
  type: 'bookmark',
  title: 'A',
  bmkUri: 'https://a.example/',
  tags: ['one', 'two'],
  keyword: 'key',
})
const login = record('passwords', {
  id: '{1}',
  hostname: 'https://a.example',
  username: 'anna',
  password: 'secret',
})

describe('editableFields', () => {
  it.each<[string, SyncRecord, string[], boolean]>([
    ['a bookmark', link, ['title', 'address', 'tags', 'keyword'], true],
    ['a folder', record('bookmarks', { id: 'f', type: 'folder', title: 'F' }), ['title'], true],
    ['a separator', record('bookmarks', { id: 's', type: 'separator' }), [], true],
    ['a root folder', record('bookmarks', { id: 'toolbar', type: 'folder', title: 'toolbar' }), [], false],
    ['a login', login, ['username', 'password'], true],
    ['a page', record('history', { id: 'h', histUri: 'https://a.example/' }), [], true],
    ['a form entry', record('forms', { id: 'e', name: 'city', value: 'Rome' }), [], true],
    ['a device', record('clients', { id: 'c', name: 'Desk' }), [], false],
    ['a record that the key does not open', record('bookmarks', null), [], false],
  ])('of %s', (_, given, names, canDelete) => {
    expect(editableFields(given).map(({ name }) => name)).toEqual(names)
    expect(isDeletable(given)).toBe(canDelete)
  })

  it('hide a password', () => {
    expect(editableFields(login).map(({ type }) => type)).toEqual([undefined, 'password'])
  })
})

describe('editsFor', () => {
  const fieldsOf = (given: SyncRecord, typed: Record<string, string>): unknown[] =>
    editsFor(given, typed, 1234).map((edit) => edit.op === 'change' && edit.fields)

  it.each<[string, SyncRecord, Record<string, string>, unknown[]]>([
    ['nothing', link, {}, []],
    ['a title', link, { title: 'B' }, [{ title: 'B' }]],
    [
      'an address, without spaces',
      link,
      { address: ' https://b.example/ ' },
      [{ address: 'https://b.example/' }],
    ],
    ['tags', link, { tags: 'two, three words,, ' }, [{ tags: ['two', 'three words'] }]],
    ['no tags', link, { tags: '' }, [{ tags: [] }]],
    ['a user name', login, { username: 'bob' }, [{ username: 'bob' }]],
    [
      'a password, with its time',
      login,
      { password: ' x ' },
      [{ password: ' x ', timePasswordChanged: 1234 }],
    ],
  ])('change only what was typed: %s', (_, given, typed, expected) => {
    expect(fieldsOf(given, typed)).toEqual(expected)
  })
})
