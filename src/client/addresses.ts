import { textOf, textsOf, type Fields } from './fields.ts'

/** A bookmark's address in the form that Firefox stores; empty if it has none. */
export function addressOf({ bmkUri }: Fields): string {
  const url = textOf(bmkUri)
  if (url === '') return ''
  // Parsing is slow: asking first whether it can be parsed would do it twice.
  try {
    return new URL(url).href
  } catch {
    return url
  }
}

/**
 * The tags and the keyword of bookmarks with the same `addressOf`, from all of them. Firefox keeps both for the address: if it receives one of
 * these bookmarks without them, all lose them. It compares tags without case: the first spelling remains.
 */
export function sharedFields(bookmarks: Fields[]): { tags: string[]; keyword?: string } {
  const tags = new Map<string, string>()
  for (const tag of bookmarks.flatMap(({ tags }) => textsOf(tags)))
    if (!tags.has(tag.toLowerCase())) tags.set(tag.toLowerCase(), tag)
  const keyword = bookmarks.map((bookmark) => textOf(bookmark.keyword)).find((each) => each !== '')
  return { tags: [...tags.values()], ...(keyword !== undefined && { keyword }) }
}
