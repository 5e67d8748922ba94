/** Parts of Swagger UI that this page draws its own way, as plugins of the library, and names for controls that have none. */

type Component = unknown

interface React {
  createElement(component: Component, properties: object | null, ...children: unknown[]): unknown
}

interface Parts {
  /** A part by its name; `isConnected`: one that finds its values by itself. */
  getComponent(name: string, isConnected?: boolean): Component
}

const largestHighlighted = 100_000

/** Large answers as plain text, and of these the beginning: to colour a megabyte freezes a tab for a minute. */
export const largeAnswers = {
  wrapComponents: {
    SyntaxHighlighter:
      (original: Component, { React }: { React: React }) =>
      (properties: { children?: unknown }): unknown => {
        const { children: text } = properties
        if (typeof text !== 'string' || text.length <= largestHighlighted)
          return React.createElement(original, properties)
        const rest = (text.length - largestHighlighted).toLocaleString()
        const shown = `${text.slice(0, largestHighlighted)}\n… ${rest} more characters: Download has them all.`
        return React.createElement('pre', { className: 'microlight' }, shown)
      },
  },
}

/**
 * The layout without a `main` of its own, because the page has one, and with a heading between the title and the sections; paths
 * without a link inside of the button that opens them.
 */
export const accessibleParts = ({ React: { createElement } }: { React: React }) => ({
  components: {
    AccessibleLayout({ getComponent }: Parts): unknown {
      const wrapped = (...names: string[]) =>
        createElement(
          'div',
          { className: 'wrapper' },
          ...names.map((name) => createElement(getComponent(name, true), null)),
        )
      return createElement(
        'div',
        { className: 'swagger-ui' },
        createElement(getComponent('SvgAssets'), null),
        wrapped('errors', 'InfoContainer'),
        createElement('h2', { className: 'wrapper' }, 'Requests'),
        wrapped('AuthorizeBtnContainer', 'operations', 'Models'),
      )
    },
  },
  wrapComponents: {
    DeepLink: () => (properties: { text: unknown }) =>
      createElement('span', { className: 'nostyle' }, properties.text),
  },
})

/** Names for what the library leaves without one, or names by other words than it shows. */
const ownNames: [selector: string, name: (element: Element) => string][] = [
  ['.close-modal', () => 'Close'],
  ['.examples-select-element', () => 'Example'],
  ['.body-param textarea', () => 'Request body'],
  ['[data-param-name] select, [data-param-name] input', ({ parentElement }) => parameterOf(parentElement)],
  ['.responses-table', (table) => `${describedBy(table)} of ${operationOf(table)}`],
  ['.copy-to-clipboard button', () => 'Copy'],
  ['.modal-btn', ({ textContent }) => textContent],
]

/** Keeps these names where the library draws something anew, and lets the keyboard scroll what is wider than its place. */
export function completeControls(page: Element): void {
  function complete(): void {
    for (const [selector, nameOf] of ownNames) {
      for (const element of page.querySelectorAll(selector)) element.ariaLabel = nameOf(element)
    }
    for (const text of page.querySelectorAll<HTMLElement>('pre.microlight')) text.tabIndex = 0
  }
  new MutationObserver(complete).observe(page, { childList: true, subtree: true })
}

function parameterOf(element: Element | null): string {
  return element?.closest('[data-param-name]')?.getAttribute('data-param-name') ?? ''
}

function describedBy(table: Element): string {
  return table.classList.contains('live-responses-table') ? 'The answer' : 'Possible answers'
}

function operationOf(element: Element): string {
  return element.closest('.opblock')?.id.replace(/^operations-/, '') ?? ''
}
