import type { Fields } from '../../client/fields.ts'

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

const maxShown = 60

/** Describes differences in one line, such as `title "Now" → "Before", tags`. */
export function describeDifferences(collection: string, now: Fields | null, before: Fields | null): string {
  if (now === null) return 'cannot be decrypted in the storage'
  if (before === null) return 'content'
  const shown = (value: unknown) => {
    const text = typeof value === 'string' ? value : ''
    return JSON.stringify(text.length > maxShown ? `${text.slice(0, maxShown)}…` : text)
  }
  return differingFields(now, before)
    .map((name) => {
      const label = shownFields[collection]?.[name]
      return label ? `${label} ${shown(now[name])} → ${shown(before[name])}` : (otherFields[name] ?? name)
    })
    .join(', ')
}
