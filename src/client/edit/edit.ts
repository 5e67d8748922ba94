import { addressOf } from '../addresses.ts'
import { topId } from '../bookmark-places.ts'
import { isLink, type Item, type ItemKind } from './tree.ts'
import type { ClearRecord } from '../crypto.ts'
import type { RecordFields } from '../record-fields.ts'

/**
 * A change as an intention, and not as a state, so that it can be applied again to what others have changed meanwhile.
 * Applied twice, it has the effect of once.
 */
export type Edit = AddEdit | ChangeEdit | MoveEdit | RemoveEdit

/** A place in a folder: after this item, before that one, or at its end if neither is there (any more). */
export interface Place {
  /** The id of a folder. */
  folder: string
  /** The id of the item before it; null for the first place. */
  after?: string | null
  /** The id of the item behind it. */
  before?: string | null
}

/** The fields of an item that an edit can change. Tags and keyword belong to the address: its other bookmarks get them, too. */
export interface ItemFields {
  title: string
  address: string
  tags: readonly string[]
  keyword: string
}

/** Adds an item. A bookmark gets the tags and the keyword that its address has, besides its own. */
export interface AddEdit extends Partial<ItemFields>, Partial<Place> {
  op: 'add'
  /** 12 characters of base64url; `save` creates one. */
  id?: string
  /** @default bookmark */
  kind?: ItemKind
  /** @default now */
  addedMs?: number
  /** Further fields of its record, such as those of one that is restored. */
  record?: ClearRecord
}

/** Changes fields of an item. */
export interface ChangeEdit {
  op: 'change'
  id: string
  fields: Partial<ItemFields>
  /** The record that had these fields, if they are put back: they get its form, such as null for an empty title. */
  record?: ClearRecord
}

/** Moves an item to another folder, or within its folder. */
export interface MoveEdit extends Place {
  op: 'move'
  id: string
  /** The record that was in this folder, if the item is put back: it names the folder in its form. */
  record?: ClearRecord
}

/** Removes an item; a folder with what was shown in it. What others have put into it meanwhile stays, with its folder. */
export interface RemoveEdit {
  op: 'remove'
  id: string
  /** The ids that were shown below the folder. @default all that the tree that was shown has there */
  shown?: readonly string[]
}

/**
 * Why an edit, or a part of one, was not applied.
 *
 * - `invalid`: Firefox does not accept it
 * - `gone`: the item does not exist (any more)
 * - `folder-gone`: the folder does not exist (any more)
 * - `changed`: another device has changed the same field
 * - `kept`: another device has put an item into a folder that was to be removed
 */
export type ProblemCode = 'invalid' | 'gone' | 'folder-gone' | 'changed' | 'kept'

/** An edit that was not applied. */
export interface Problem {
  code: ProblemCode
  edit: Edit | RecordEdit
  /** The item it is about. */
  id: string
  /** A sentence without a full stop. */
  message: string
}

/** A change of a record in a collection other than bookmarks; `RecordEdit<'passwords'>` knows the fields of logins. */
export type RecordEdit<Collection extends string = string> =
  | { op: 'change'; id: string; fields: FieldsOf<Collection> }
  | { op: 'remove'; id: string }
  | { op: 'add'; id?: string; record: FieldsOf<Collection> }

/** A field that is undefined is removed. */
type FieldsOf<Collection extends string> = Collection extends keyof RecordFields
  ? Partial<RecordFields[Collection]>
  : Record<string, unknown>

/** Firefox removes bookmarks with a longer address. */
const longestAddress = 65_536
/** Firefox truncates longer titles. */
export const longestTitle = 4096
/** Firefox ignores longer tags. */
export const longestTag = 100

/** Why Firefox would not keep these fields; null if it would. */
export function invalidity(kind: ItemKind, fields: Partial<ItemFields>): string | null {
  const { title, address, tags, keyword } = fields
  if (!isLink(kind) && (address || tags?.length || keyword))
    return `a ${kind} has no address, tags or keyword`
  if (kind === 'separator' && title) return 'a separator has no title'
  if (title !== undefined && title.length > longestTitle)
    return `a title of ${title.length} characters is too long: Firefox keeps ${longestTitle}`
  if (address !== undefined && isLink(kind)) {
    // Firefox encodes letters beyond ASCII, which makes it longer.
    const length = Math.max(address.length, addressOf({ bmkUri: address }).length)
    if (length > longestAddress)
      return `an address of ${length} characters is too long: Firefox keeps ${longestAddress}`
    if (!URL.canParse(address))
      return `${shortened(address)} is no address: it must begin with https:// or similar, without spaces in its host`
    if (address.trim().toLowerCase().startsWith('place:') !== (kind === 'query'))
      return `a ${kind} can't have the address ${shortened(address)}`
  }
  const ignored = tags?.find((tag) => tag.trim() === '' || tag.trim().length > longestTag)
  if (ignored !== undefined)
    return `the tag ${shortened(ignored.trim())} is invalid: Firefox ignores blank tags, and those of more than ${longestTag} characters`
  return null
}

/** The fields in the form that Firefox stores. */
export function normalFields<Given extends Partial<ItemFields>>(given: Given): Given {
  const fields = { ...given }
  if (given.address !== undefined) fields.address = addressOf({ bmkUri: given.address })
  // Firefox compares tags without case, and keeps the first spelling.
  if (given.tags) fields.tags = uniqueTags(given.tags)
  if (given.keyword !== undefined) fields.keyword = given.keyword.trim().toLowerCase()
  return fields
}

/** Tags without surrounding spaces and repetitions. */
export function uniqueTags(tags: Iterable<string>): string[] {
  const unique = new Map<string, string>()
  for (const tag of tags) {
    const trimmed = tag.trim()
    if (trimmed !== '' && !unique.has(trimmed.toLowerCase())) unique.set(trimmed.toLowerCase(), trimmed)
  }
  return [...unique.values()]
}

/** Names an item in a message. */
export function itemLabel(
  item: Pick<Item, 'id' | 'title' | 'kind' | 'address'> | undefined,
  id: string,
): string {
  return shortened(item?.title || item?.address || item?.id || id)
}

const longestShown = 100

/** A text in quotes, for a message. */
function shortened(text: string): string {
  return JSON.stringify(text.length > longestShown ? `${text.slice(0, longestShown)}…` : text)
}

/** Whether an item is one of the root folders, which can't be changed. */
export function isRoot({ parent }: Pick<Item, 'parent'>): boolean {
  return parent === topId
}
