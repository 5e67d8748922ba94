type Child = Node | string | null | false
type Properties = Record<string, string | number | boolean | ((event: Event) => void) | null>

/**
 * Creates an element with attributes, event handlers (`onclick`) and children. Strings become text nodes, so synced data can't become
 * markup.
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

/** A button that does not submit a form. */
export function button(properties: Properties, ...children: Child[]): HTMLButtonElement {
  return make('button', { type: 'button', ...properties }, ...children)
}

/** A link that sends no referrer. */
export function link(href: string, properties: Properties, ...children: Child[]): HTMLAnchorElement {
  return make('a', { href, target: '_blank', rel: 'noopener noreferrer', ...properties }, ...children)
}

/** Shown instead of a password. */
export const mask = '••••••••'

const svgSpace = 'http://www.w3.org/2000/svg'

/** An icon of this page. */
export function icon(name: string): SVGElement {
  const image = document.createElementNS(svgSpace, 'svg')
  image.setAttribute('aria-hidden', 'true')
  const use = document.createElementNS(svgSpace, 'use')
  use.setAttribute('href', `#icon-${name}`)
  image.append(use)
  return image
}

/** The element of this page with that id. */
export function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T
}

/** Whether a key goes into a field or its form, so that it is no command. */
export function isTyping({ target }: Event): boolean {
  return (target as Element).closest('input:not([type=checkbox]), select, form') !== null
}

/** A letter on a coloured background, both derived from the site, so no request for an icon is needed. */
export function avatar(name: string): HTMLElement {
  const letter = /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '·'
  const badge = make('span', { class: 'avatar', 'data-text': letter })
  let hue = 0
  for (const char of name) hue = (hue * 31 + char.codePointAt(0)!) % 360
  badge.style.setProperty('--hue', String(hue))
  return badge
}

let hideTimer = 0

/** Shows a short message that disappears by itself. */
export function showStatus(text: string): void {
  const status = byId('status')
  status.textContent = text
  status.classList.add('shown')
  clearTimeout(hideTimer)
  hideTimer = window.setTimeout(() => status.classList.remove('shown'), 2500)
}

export async function copy(text: string): Promise<void> {
  try {
    // The clipboard is only available over https.
    await navigator.clipboard.writeText(text)
    showStatus('Copied')
  } catch {
    showStatus('This browser does not allow copying')
  }
}
