import { isReadable, type SyncRecord } from '../client/collection.ts'
import { rootTitles } from '../client/bookmark-places.ts'
import { readBookmark, readLogin } from '../client/record-readers.ts'
import type { Fields } from '../client/fields.ts'
import type { Edit, ItemFields, RecordEdit } from '../client/edit/edit.ts'
import type { Field } from './field-form.ts'

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
  return record.collection === 'bookmarks' ? bookmarkFields(clear) : []
}

/** The fields of a bookmark or folder; none for a separator. A new one has only a type. */
export function bookmarkFields(clear: Fields): Field[] {
  const { kind, title, url, tags, keyword } = readBookmark(clear)
  if (kind === 'separator') return []
  const name = { name: 'title', label: 'Title', value: title }
  if (kind === 'folder' || clear.type === 'livemark') return [name]
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

/** The values of what was typed into the fields of a bookmark. */
export function itemFields(typed: Record<string, string>): Partial<ItemFields> {
  const { title, address, tags, keyword } = typed
  return {
    ...(title !== undefined && { title }),
    ...(address !== undefined && { address: address.trim() }),
    ...(tags !== undefined && { tags: tags.split(',').flatMap((tag) => tag.trim() || []) }),
    ...(keyword !== undefined && { keyword }),
  }
}

/** The edits for what was typed into the fields of a record; none if nothing was. */
export function editsFor(
  { collection, stored: { id } }: SyncRecord,
  typed: Record<string, string>,
  now: number,
): (Edit | RecordEdit)[] {
  if (Object.keys(typed).length === 0) return []
  if (collection === 'bookmarks') return [{ op: 'change', id, fields: itemFields(typed) }]
  // Firefox keeps the password that was changed last.
  return [
    { op: 'change', id, fields: { ...typed, ...('password' in typed && { timePasswordChanged: now }) } },
  ]
}
