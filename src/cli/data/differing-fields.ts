import { sameField } from '../../client/edit/work.ts'
import type { Item, Tree } from '../../client/edit/tree.ts'
import { textOf, type Fields } from '../../client/fields.ts'

/** How people call fields, and fields whose values are shown; never those of a password or a card. */
const shownFields: Record<string, Record<string, string>> = {
  bookmarks: { title: 'title', bmkUri: 'address', parentid: 'folder' },
  history: { title: 'title', histUri: 'address' },
  passwords: { hostname: 'address', username: 'user name' },
}

/** The names of fields whose values are not shown. */
const otherFields: Record<string, string> = {
  children: 'contents',
  formSubmitURL: 'form address',
  httpRealm: 'realm',
  parentName: 'name of the folder',
}

/** The fields in which a record differs from the backup; all of the backup's if the stored one can't be decrypted. */
export function differingFields(now: Fields | null, before: Fields | null): string[] {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(now ?? {})])
  names.delete('id')
  return [...names].filter((name) => !Bun.deepEquals(now?.[name], before?.[name]))
}

/** Describes differences in one line, such as `title "Now" → "Before", tags`. */
export function describeDifferences(collection: string, now: Fields | null, before: Fields | null): string {
  if (now === null) return 'cannot be decrypted in the storage'
  if (before === null) return 'content'
  return differingFields(now, before)
    .map((name) => {
      const label = shownFields[collection]?.[name]
      return label
        ? `${label} ${shown(textOf(now[name]))} → ${shown(textOf(before[name]))}`
        : (otherFields[name] ?? name)
    })
    .join(', ')
}

/** How an item differs from the wanted one, such as `title "Now" → "Before", tags`; empty if it does not. */
export function describeItem(now: Item, wanted: Item, { items }: Pick<Tree, 'items'>): string {
  const folder = (id: string) => items.get(id)?.title ?? id
  const differences = (['title', 'address'] as const)
    .filter((name) => !sameField(name, now, wanted))
    .map((name) => `${name} ${shown(now[name])} → ${shown(wanted[name])}`)
  if (now.parent !== wanted.parent)
    differences.push(`folder ${shown(folder(now.parent))} → ${shown(folder(wanted.parent))}`)
  for (const name of ['tags', 'keyword'] as const) if (!sameField(name, now, wanted)) differences.push(name)
  return differences.join(', ')
}

const maxShown = 60

function shown(text: string): string {
  return JSON.stringify(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text)
}
