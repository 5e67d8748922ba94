import type { Content } from './contents.ts'
import { icon, make } from './elements.ts'
import type { LoadedRecords } from './loaded-records.ts'
import type { DrawContext, Group } from './items.ts'
import { placeAddress } from './tab.ts'
import { drawView } from './views.ts'

/** The links to all views, with the number of items in each. */
export function drawNavigation(contents: Content[], current: Content, loaded: LoadedRecords): HTMLElement[] {
  return contents.map((content) => {
    const { view, groups, count } = content
    const isIncomplete = loaded.failureOf(view.collections) !== null
    const isReading = loaded.isReading(view.collections)
    const small =
      isIncomplete && count === 0
        ? [icon('unreadable'), make('span', { class: 'unseen' }, 'could not be read')]
        : isReading
          ? ['…']
          : [count.toLocaleString(), isIncomplete && '+']
    return make(
      'a',
      {
        class: groups.length === 0 ? 'faint' : '',
        'aria-current': content === current ? 'page' : null,
        'data-view': view.id,
        href: placeAddress(view.id),
      },
      icon(view.icon ?? view.id),
      make('span', {}, view.title),
      make('small', {}, ...small),
    )
  })
}

/** A summary of the search: where something was found, and what could not be searched. */
export function drawFound(
  typed: string,
  contents: Content[],
  current: Content,
  loaded: LoadedRecords,
): HTMLElement[] {
  const elsewhere = othersOf(contents, current)
  const isFound = current.groups.length > 0 || elsewhere.length > 0
  const unread = contents.filter(({ view }) => loaded.failureOf(view.collections) !== null)
  const tell = (text: string) => make('span', {}, text)
  return [
    make('strong', { dir: 'auto' }, typed),
    ...(current.count > 0 ? [tell(`${current.count.toLocaleString()} here`)] : []),
    ...elsewhere.map(viewLink),
    ...(isFound ? [] : [tell('found nowhere')]),
    ...(loaded.isReading() ? [tell('still reading …')] : []),
    ...unread.map(({ view }) => tell(`${view.title} could not be read`)),
  ]
}

/** The current view, or why it is empty. During a search, also the matches in other views. */
export function drawContent(
  typed: string,
  contents: Content[],
  current: Content,
  loaded: LoadedRecords,
  context: DrawContext,
): HTMLElement[] {
  const { view, groups } = current
  const own = () => {
    if (groups.some(({ items, device }) => items.length > 0 || device))
      return [drawView(view, groups, context)]
    if (loaded.isReading(view.collections)) return [nothing('Reading and decrypting …')]
    // Only a collection that was read can be called empty.
    if (loaded.failureOf(view.collections) !== null) return []
    return [nothing(typed === '' ? view.empty : `No match for “${typed}” in ${view.title}.`)]
  }
  return [
    ...own(),
    ...(typed === '' ? [] : othersOf(contents, current).map((other) => drawElsewhere(other, context))),
  ]
}

export function nothing(text: string): HTMLElement {
  return make('p', { class: 'nothing' }, text)
}

function othersOf(contents: Content[], current: Content): Content[] {
  return contents.filter((content) => content !== current && content.groups.length > 0)
}

function viewLink({ view, count }: Content): HTMLElement {
  return make(
    'a',
    { class: 'link', href: placeAddress(view.id) },
    `${count.toLocaleString()} in ${view.title}`,
  )
}

// Enough to see whether another view has what the user wants.
const maxElsewhere = 5

function drawElsewhere(content: Content, context: DrawContext): HTMLElement {
  const heading = make('h2', {}, viewLink(content))
  return make(
    'section',
    { class: 'elsewhere' },
    heading,
    // A preview, in which nothing is changed.
    drawView(content.view, firstOf(content.groups), { ...context, editor: null }),
  )
}

function firstOf(groups: Group[]): Group[] {
  let left = maxElsewhere
  return groups.slice(0, maxElsewhere).flatMap((group) => {
    const items = group.items.slice(0, left)
    left -= items.length
    return items.length > 0 || group.device ? [{ ...group, items, whole: undefined }] : []
  })
}
