type Child = Node | string | null | false
type Properties = Record<string, string | number | boolean | ((event: Event) => void) | null>

/**
 * An element with its attributes, its handlers (`onclick`) and what is in it. Texts become text: nothing of what is
 * synced can ever become markup.
 */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value)
    else if (value !== null && value !== false)
      element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.filter((child) => child !== null && child !== false))
  return element
}

const svgSpace = 'http://www.w3.org/2000/svg'

/** One of the page's own icons. */
export function icon(name: string): SVGElement {
  const image = document.createElementNS(svgSpace, 'svg')
  image.setAttribute('aria-hidden', 'true')
  const use = document.createElementNS(svgSpace, 'use')
  use.setAttribute('href', `#icon-${name}`)
  image.append(use)
  return image
}

/** An element of the page by its id. */
export function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T
}

/** A letter on a colour, both derived from the site: a picture that needs no request. */
export function avatar(name: string): HTMLElement {
  const letter = /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '·'
  const badge = make('span', { class: 'avatar', 'aria-hidden': 'true' }, letter)
  let hue = 0
  for (const char of name) hue = (hue * 31 + char.codePointAt(0)!) % 360
  badge.style.setProperty('--hue', String(hue))
  return badge
}

/** A part of a long list: its rows are made when it comes near the window. */
export interface Section {
  title: string | null
  rows: number
  fill(): HTMLElement[]
}

/** A list of any length that scrolls smoothly: rows are of one height, and those far away are not made yet. */
export function longList(sections: Section[], label: string): HTMLElement {
  const fills = new Map<Element, () => HTMLElement[]>()
  const observer = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue
        target.append(...fills.get(target)!())
        observer.unobserve(target)
      }
    },
    { rootMargin: '1000px' },
  )
  const parts = sections.map(({ title, rows, fill }) => {
    const body = make('div', { class: 'rows' })
    body.style.setProperty('--rows', String(rows))
    fills.set(body, fill)
    observer.observe(body)
    return make('section', {}, title === null ? null : make('h2', {}, title), body)
  })
  const list = make('div', { class: 'list', role: 'group', 'aria-label': label }, ...parts)
  list.addEventListener('keydown', (event) => moveFocus(event, list))
  return list
}

const sectionRows = 60

/** Cuts many rows into sections, of which the first has the title. */
export function inSections<T>(title: string | null, items: T[], row: (item: T) => HTMLElement): Section[] {
  const sections: Section[] = []
  for (let start = 0; start < items.length; start += sectionRows) {
    const part = items.slice(start, start + sectionRows)
    sections.push({ title: start === 0 ? title : null, rows: part.length, fill: () => part.map(row) })
  }
  return sections
}

/** Arrow keys go from row to row, without a stop at everything that is in one. */
export function moveFocus(event: KeyboardEvent, list: HTMLElement): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (step === undefined) return
  const rows = [...list.querySelectorAll<HTMLElement>('[data-row]')].filter(
    (row) => row.offsetParent !== null,
  )
  const current = rows.indexOf(document.activeElement as HTMLElement)
  const next = rows[Math.max(0, current + step)]
  if (!next) return
  event.preventDefault()
  next.focus()
  next.scrollIntoView({ block: 'nearest' })
}
