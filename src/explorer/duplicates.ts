import { duplicateBookmarks, duplicateLogins, keepBookmark, keepLogin } from '../client/edit/duplicates.ts'
import { pathOf, readTree } from '../client/edit/tree.ts'
import { readLogin } from '../client/record-readers.ts'
import type { ReadableRecord } from '../client/collection.ts'
import { button, make } from './elements.ts'
import { LongList } from './long-list.ts'
import { ago } from './dates.ts'
import { itemOf, login } from './record-items.ts'
import type { Group, Item, RowEditor } from './items.ts'
import { drawText, mainLink, markOf } from './rows.ts'

/** The addresses that are bookmarked more than once, and the logins that a site has more than once for one user. */
export function duplicates(bookmarks: ReadableRecord[], logins: ReadableRecord[]): Group[] {
  const tree = readTree(bookmarks)
  const recordOf = new Map(bookmarks.map((record) => [record.stored.id, record]))
  const addresses = duplicateBookmarks(tree).map((same): Group => {
    const items = same.map((kept): Item => {
      const record = recordOf.get(kept.id)!
      const item = itemOf(record, kept.title, kept.tags.map((tag) => `#${tag}`).join('  '), kept.address)
      const keep = { collection: 'bookmarks', edits: () => keepBookmark(kept, same) }
      return { ...item, path: pathOf(tree, kept).join(' / '), keep }
    })
    return { title: same[0]!.address, items }
  })
  const sites = duplicateLogins(logins).map((same): Group => {
    const items = same.map((record): Item => {
      const keep = { collection: 'passwords', edits: () => keepLogin(record, same) }
      const item = login(record)
      const { createdMs, lastUsedMs } = readLogin(record.clear)
      const usedMs = Math.max(createdMs, lastUsedMs)
      const used = usedMs > 0 && `last used ${ago(usedMs)}`
      return { ...item, subtitle: [item.subtitle, used].filter(Boolean).join('  ·  '), keep }
    })
    return { title: items[0]!.title, items }
  })
  return [...addresses, ...sites]
}

/** Each with a button that keeps it and deletes the others; `editor`: null if nothing can be changed. */
export function drawDuplicates(groups: Group[], editor: RowEditor | null): HTMLElement {
  const list = new LongList<Item>(
    'Duplicates',
    'list',
    groups.map(({ title, items }) => ({ title: String(title), items })),
    (item) => {
      const { keep, title } = item
      const canKeep = keep !== undefined && (editor?.canEdit(keep.collection) ?? false)
      const act = () => void editor!.save(keep!.collection, keep!.edits(), `Kept one “${title}”`)
      return make(
        'div',
        { class: 'row', role: 'listitem' },
        mainLink(item, markOf(item), drawText(item)),
        canKeep &&
          button(
            {
              class: 'quiet',
              'aria-label': `Keep this: ${title} in ${item.path ?? item.subtitle}`,
              onclick: act,
            },
            'Keep this',
          ),
      )
    },
  )
  return list.element
}
