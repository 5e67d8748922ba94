import { isReadable, type SyncRecord } from '../client/collection.ts'
import { rootTitles } from '../client/bookmark-places.ts'
import { readBookmark, readLogin } from '../client/engines.ts'
import { textOf } from '../client/fields.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import type { Field } from './edit-dialogs.ts'

/** The collections whose records a user can delete one by one. */
const deletable = new Set(['bookmarks', 'history', 'passwords', 'forms', 'addresses', 'creditcards'])

/** Whether a record can be deleted by itself: root folders can't, nor what the key does not open. */
export function isDeletable(record: SyncRecord): boolean {
  if (!isReadable(record) || !deletable.has(record.collection)) return false
  return record.collection !== 'bookmarks' || !rootTitles.has(record.stored.id)
}

/** The fields of a record that a user can change; none if there are none. */
export function editableFields(record: SyncRecord): Field[] {
  if (!isDeletable(record) || !record.clear) return []
  const { clear } = record
  if (record.collection === 'passwords') {
    const { userName, password } = readLogin(clear)
    return [
      { name: 'username', label: 'User name', value: userName },
      { name: 'password', label: 'Password', value: password, type: 'password' },
    ]
  }
  if (record.collection !== 'bookmarks' || clear.type === 'separator') return []
  const { title, url, tags, keyword } = readBookmark(clear)
  const name = { name: 'title', label: 'Title', value: title }
  if (clear.type === 'folder' || clear.type === 'livemark') return [name]
  return [
    name,
    { name: 'address', label: 'Address', value: url },
    {
      name: 'tags',
      label: 'Tags',
      value: tags.join(', '),
      hint: 'separated by commas; for every bookmark of this address',
    },
    { name: 'keyword', label: 'Keyword', value: keyword, hint: 'opens it from the address bar' },
  ]
}

/** The edits for what was typed into these fields; none if nothing differs. */
export function editsFor(
  record: SyncRecord,
  values: Record<string, string>,
  now: number,
): (Edit | RecordEdit)[] {
  const { id } = record.stored
  const changed = editableFields(record).filter(({ name, value }) => values[name] !== value)
  if (changed.length === 0) return []
  const fields: Record<string, unknown> = Object.fromEntries(changed.map(({ name }) => [name, values[name]]))
  if ('tags' in fields)
    fields.tags = textOf(fields.tags)
      .split(',')
      .map((tag) => tag.trim())
      .filter(Boolean)
  if ('address' in fields) fields.address = textOf(fields.address).trim()
  // Firefox keeps the password that was changed last.
  if ('password' in fields) fields.timePasswordChanged = now
  return [{ op: 'change', id, fields }]
}
