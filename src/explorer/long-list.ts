import type { SyncRecord } from '../client/collection.ts'
import { isTyping, make } from './elements.ts'

/** Items with an optional heading. */
export interface Section<T> {
  title: string | null
  items: T[]
}

interface Part<T extends object> {
  items: T[]
  /** The index of its first item in the whole list. */
  start: number
  /** As high as all rows, but contains only some of them. */
  body: HTMLElement
  rows: Map<T, HTMLElement>
  /** The item whose row has a form, the form, and by how much the row is higher than the others. */
  tall: { item: T | null; form: unknown; extraPx: number }
}

// Rows outside the window that are rendered in advance for scrolling.
const maxMarginPx = 600

/** Where a row is or was. */
export interface RowPlace {
  /** The label of its list. */
  list: string
  record: SyncRecord
  /** Its index in the whole list. */
  index: number
}

type AnyList = Pick<LongList<{ record: SyncRecord }>, 'measure' | 'placeAt' | 'focusPlace'>

const lists = new Map<HTMLElement, AnyList>()

let later = 0

// Also called when a list is added to the document, and when it is removed. While the user types, every key adds lists: rows in the window
// are rendered at once, the others between the keys.
const sizes = new ResizeObserver(() => {
  renderAll(0)
  clearTimeout(later)
  later = window.setTimeout(renderAll, 100)
})
addEventListener('scroll', () => renderAll(), { passive: true })

/** Renders what was added to the document, and forms that were opened or closed, at once, so that they can be focused. */
export function renderLists(): void {
  renderAll()
}

/** The row that an event happened in; null outside of lists. */
export function placeOf(event: Event): RowPlace | null {
  const row = rowAt(event)
  const [, list] = [...lists].find(([element]) => element.contains(row)) ?? []
  return row === null || list === undefined ? null : list.placeAt(Number(row.dataset.index))
}

/** Focuses the row of the same record, or the one that has taken its place; false if the list has gone. */
export function focusPlace(place: RowPlace): boolean {
  return [...lists].some(([element, list]) => element.isConnected && list.focusPlace(place))
}

/** Measures all lists before changing any, because otherwise the browser would compute the layout for each. */
function renderAll(marginPx = maxMarginPx): void {
  const renders = [...lists].map(([element, list]) => {
    if (element.isConnected) return list.measure(marginPx)
    sizes.unobserve(element)
    lists.delete(element)
    return null
  })
  for (const render of renders) render?.()
}

// A row is up to 56 pixels high, and some browsers can't show elements above 17 million pixels.
const maxRows = 300_000

/**
 * A list of any length that scrolls smoothly: all rows but one have the same height, and the document contains only those near the window,
 * the last focused one, and the one that is as high as its content. Arrow keys, Home and End move between rows. A note at the end says how
 * many items are not shown.
 */
export class LongList<T extends { record: SyncRecord }> {
  readonly element: HTMLElement
  readonly #label: string
  readonly #parts: Part<T>[]
  readonly #makeRow: (item: T) => HTMLElement
  readonly #rest = make('p', { class: 'note' })
  readonly #formOf: (item: T) => unknown
  #focused: number

  /**
   * In a tree, the rows themselves get the focus (one of them with the Tab key) and state their position. In a list, the element with
   * `data-main` in each row gets it. `formOf`: the form in the row of an item; null for all but one.
   */
  constructor(
    label: string,
    role: 'list' | 'tree',
    sections: Section<T>[],
    makeRow: (item: T) => HTMLElement,
    formOf: (item: T) => unknown = () => null,
  ) {
    this.#label = label
    this.#makeRow = makeRow
    this.#formOf = formOf
    this.#focused = role === 'tree' ? 0 : -1
    const shown = this.#firstRows(sections)
    let next = 0
    this.#parts = shown.map(({ title, items }) => {
      const start = next
      next += items.length
      const body = make('div', { class: 'rows', role, 'aria-label': title ?? label })
      return { items, start, body, rows: new Map(), tall: { item: null, form: null, extraPx: 0 } }
    })
    this.element = make(
      'div',
      {
        class: role,
        onkeydown: (event) => this.#onKey(event as KeyboardEvent),
        onfocusin: (event) => this.#onFocus(event),
      },
      ...this.#parts.map(({ body }, index) => {
        const { title } = shown[index]!
        return make('section', {}, title !== null && make('h2', { dir: 'auto' }, title), body)
      }),
      this.#rest,
    )
    for (const part of this.#parts) this.#setHeight(part)
    lists.set(this.element, this)
    sizes.observe(this.element)
  }

  /** Replaces the items of the only section; keeps the rows of items that stay. */
  update(items: T[]): void {
    const part = this.#parts[0]!
    const focused = part.items[this.#focused]
    part.items = this.#firstRows([{ title: null, items }])[0]!.items
    this.#focused = focused === undefined ? 0 : Math.max(0, part.items.indexOf(focused))
    this.#setHeight(part)
    renderAll()
  }

  /** The row of an item, if it is rendered. */
  rowOf(item: T): HTMLElement | undefined {
    return this.#parts.map(({ rows }) => rows.get(item)).find(Boolean)
  }

  /** The rendered rows with their items. */
  rendered(): [T, HTMLElement][] {
    return this.#parts.flatMap(({ rows }) => [...rows])
  }

  /** Focuses a row by its index in the whole list; beyond the ends, the last or first one. */
  focus(index: number): void {
    const last = this.#parts.at(-1)!
    this.#focused = Math.max(0, Math.min(index, last.start + last.items.length - 1))
    renderAll()
    const row = this.element.querySelector<HTMLElement>(`[data-index="${this.#focused}"]`)!
    const target = isInTree(row) ? row : row.querySelector<HTMLElement>('[data-main]')!
    target.focus({ preventScroll: true })
    row.scrollIntoView({ block: 'nearest' })
  }

  placeAt(index: number): RowPlace {
    const { record } = this.#items()[index]!
    return { list: this.#label, record, index }
  }

  /** Focuses the row of the same record, or the one that has taken its place; false in another list. */
  focusPlace({ list, record, index }: RowPlace): boolean {
    if (list !== this.#label) return false
    const items = this.#items()
    const isSame = (item: T | undefined) =>
      item?.record.collection === record.collection && item.record.stored.id === record.stored.id
    // A record may have several rows.
    const now = isSame(items[index]) ? index : items.findIndex(isSame)
    this.focus(now < 0 ? index : now)
    return true
  }

  #items(): T[] {
    return this.#parts.flatMap(({ items }) => items)
  }

  #firstRows(sections: Section<T>[]): Section<T>[] {
    let count = 0
    const first = sections.flatMap(({ title, items }) => {
      const left = maxRows - count
      count += items.length
      return left > 0 ? [{ title, items: items.slice(0, left) }] : []
    })
    const more = Math.max(0, count - maxRows)
    this.#rest.hidden = more === 0
    this.#rest.textContent = `${more.toLocaleString()} more are not shown here: search for them, or download all.`
    return first
  }

  #setHeight({ body, items }: Part<T>): void {
    body.style.setProperty('--rows', String(items.length))
  }

  /** Measures where the parts are, and returns a function that renders their rows. */
  measure(marginPx: number): () => void {
    const places = this.#parts.map((part) => ({ part, place: part.body.getBoundingClientRect() }))
    return () => {
      for (const { part, place } of places) this.#fill(part, place, marginPx)
    }
  }

  /** Inserts missing rows between existing ones, because moving an element takes its focus away. */
  #fill(part: Part<T>, { top, height }: DOMRect, marginPx: number): void {
    const { items, start, body, rows } = part
    const rowPx = (height - part.tall.extraPx) / items.length
    if (!(rowPx > 0)) return
    const tall = this.#findTall(part)
    const { extraPx } = part.tall
    const first = Math.max(0, Math.floor((-marginPx - top - extraPx) / rowPx))
    const end = Math.min(items.length, Math.ceil((innerHeight + marginPx - top) / rowPx))
    const near = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index)
    const kept = [this.#focused - start, tall].filter((index) => index >= 0 && index < items.length)
    const indexes = [...new Set([...near, ...kept])].toSorted((one, other) => one - other)
    const wanted = new Set(indexes.map((index) => items[index]!))
    for (const [item, row] of rows) {
      if (wanted.has(item)) continue
      row.remove()
      rows.delete(item)
    }
    let next = body.firstElementChild
    for (const index of indexes) {
      const item = items[index]!
      const row = rows.get(item) ?? (index === tall ? this.#makeTall(part, rowPx) : this.#makeRow(item))
      rows.set(item, row)
      row.style.setProperty('--at', String(index))
      row.dataset.index = String(start + index)
      if (isInTree(row)) setTabbable(row, start + index === this.#focused)
      else setPlace(row, index + 1, items.length)
      if (row === next) next = next.nextElementSibling
      else body.insertBefore(row, next)
    }
  }

  /** The index of the item whose row has a form, or -1; its row is made again if that was another one before. */
  #findTall(part: Part<T>): number {
    const index = part.items.findIndex((item) => this.#formOf(item) !== null)
    const item = part.items[index] ?? null
    const form = item === null ? null : this.#formOf(item)
    if (form === part.tall.form) return index
    for (const changed of [part.tall.item, item]) {
      if (changed === null) continue
      part.rows.get(changed)?.remove()
      part.rows.delete(changed)
    }
    part.tall = { item, form, extraPx: 0 }
    part.body.style.removeProperty('--extra')
    return index
  }

  /** The rows behind it move by what it is higher than they are. */
  #makeTall({ body, tall }: Part<T>, rowPx: number): HTMLElement {
    const row = this.#makeRow(tall.item!)
    row.classList.add('tall')
    new ResizeObserver(() => {
      if (!row.isConnected) return
      tall.extraPx = row.offsetHeight - rowPx
      body.style.setProperty('--extra', `${tall.extraPx}px`)
      renderAll()
    }).observe(row)
    return row
  }

  #onFocus(event: Event): void {
    const row = rowAt(event)
    if (row === null) return
    this.#focused = Number(row.dataset.index)
    renderAll()
  }

  #onKey(event: KeyboardEvent): void {
    const row = rowAt(event)
    if (row === null || event.ctrlKey || event.altKey || event.metaKey || isTyping(event)) return
    const index = Number(row.dataset.index)
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: Infinity }[event.key]
    if (target === undefined) return
    event.preventDefault()
    this.focus(target)
  }
}

/** The row that an event happened in. */
export function rowAt({ target }: Event): HTMLElement | null {
  return (target as Element).closest<HTMLElement>('[data-index]')
}

function isInTree(row: HTMLElement): boolean {
  return row.getAttribute('role') === 'treeitem'
}

function setPlace(row: HTMLElement, position: number, count: number): void {
  row.setAttribute('aria-posinset', String(position))
  row.setAttribute('aria-setsize', String(count))
}

/** The Tab key only reaches one row of a tree and its links and buttons; other keys open its main link. */
function setTabbable(row: HTMLElement, isTabbable: boolean): void {
  row.tabIndex = isTabbable ? 0 : -1
  for (const control of row.querySelectorAll<HTMLElement>('a, .icon-button')) {
    control.tabIndex = isTabbable && !control.matches('[data-main]') ? 0 : -1
  }
}
