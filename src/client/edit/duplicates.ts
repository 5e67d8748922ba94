import { addressOf } from '../addresses.ts'
import { readLogin } from '../record-readers.ts'
import { below, type Item, type Tree } from './tree.ts'
import { rootTitles } from '../bookmark-places.ts'
import type { ReadableRecord } from '../collection.ts'
import type { Edit, RecordEdit } from './edit.ts'

/** The bookmarks of each address that has several, in the order of the tree. */
export function duplicateBookmarks(tree: Tree): Item[][] {
  const items = [...rootTitles.keys()].flatMap((root) => below(tree, root))
  const links = items.filter(({ kind, address }) => kind === 'bookmark' && address !== '')
  return [...Map.groupBy(links, ({ address }) => addressOf({ bmkUri: address })).values()].filter(isSeveral)
}

/** The edits that keep one bookmark of an address; it has the tags and the keyword of all of them already, or gets them. */
export function keepBookmark(kept: Item, all: readonly Item[]): Edit[] {
  const tags = all.flatMap((item) => item.tags)
  const keyword = kept.keyword || (all.find((item) => item.keyword !== '')?.keyword ?? '')
  const others = all.filter(({ id }) => id !== kept.id)
  return [
    { op: 'change', id: kept.id, fields: { tags, keyword } },
    ...others.map(({ id }) => ({ op: 'remove', id, shown: [id] }) as const),
  ]
}

/** The logins of each form or area of a site that have the same user name, the one used last first. */
export function duplicateLogins(records: readonly ReadableRecord[]): ReadableRecord[][] {
  const logins = records.map((record) => ({ record, login: readLogin(record.clear) }))
  const usable = logins.filter(({ login }) => login.site !== '')
  const place = ({ login }: (typeof usable)[number]) =>
    JSON.stringify([login.site, login.realm, login.userName])
  return [...Map.groupBy(usable, place).values()]
    .filter(isSeveral)
    .map((same) =>
      same.toSorted((one, other) => latest(other.login) - latest(one.login)).map(({ record }) => record),
    )
}

function latest({ createdMs, lastUsedMs, passwordChangedMs }: ReturnType<typeof readLogin>): number {
  return Math.max(createdMs, lastUsedMs, passwordChangedMs)
}

/** The edits that keep one of these logins. */
export function keepLogin(kept: ReadableRecord, all: readonly ReadableRecord[]): RecordEdit[] {
  const others = all.filter(({ stored }) => stored.id !== kept.stored.id)
  return others.map(({ stored }) => ({ op: 'remove', id: stored.id }))
}

function isSeveral<Each>(list: readonly Each[]): boolean {
  return list.length > 1
}
