import { tabsOf, tagsOf, textOf, type Fields } from '../../client/fields.ts'

/** Where the other collections have a name, and addresses and credit cards in `entry`. */
const names = ['name', 'title', 'cc-name', 'addonID', 'extId']

/** Describes a record in one line; never shows a password. Empty for a deletion, which has no content. */
export function titleOf(collection: string, clear: Fields): string {
  if (clear.deleted === true) return ''
  const { title, bmkUri, histUri, hostname, username, type, name, value, clientName } = clear
  switch (collection) {
    case 'bookmarks': {
      if (type === 'separator') return '----'
      const tags = tagsOf(clear).map((tag) => ` #${tag}`)
      return type === 'folder' ? `${textOf(title)}/` : `${textOf(title)} <${textOf(bmkUri)}>${tags.join('')}`
    }
    case 'history':
      return `${textOf(title)} <${textOf(histUri)}>`
    case 'passwords':
      return `${textOf(hostname)} ${textOf(username)}`
    case 'tabs':
      return `${textOf(clientName)}: ${tabsOf(clear).length} tabs`
    case 'forms':
      return `${textOf(name)}: ${textOf(value)}`
    default:
      return names.map((field) => textOf(Object(clear.entry ?? clear)[field])).find(Boolean) ?? ''
  }
}
