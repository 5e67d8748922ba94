/** Plugins that replace parts of Swagger UI, and labels for controls without one. */

type Component = unknown

interface React {
  createElement(component: Component, properties: object | null, ...children: unknown[]): unknown
}

interface Parts {
  /** Returns a part by name; `isConnected`: one that gets its values from the store. */
  getComponent(name: string, isConnected?: boolean): Component
}

const largestHighlighted = 100_000

/** Shows the beginning of a large response as plain text, because highlighting a megabyte freezes the tab for a minute. */
export const largeResponses = {
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

type IsShown = (thing: string[], isDefault: boolean) => boolean

/** Collapses the section "Headers only" by default. The action that hides a section would also replace the address of a linked path. */
export const collapsedHeaders = {
  statePlugins: {
    layout: {
      wrapSelectors: {
        isShown:
          (original: IsShown) =>
          (_state: unknown, thing: string[], isDefault: boolean): boolean =>
            original(thing, isDefault && thing[1] !== 'Headers only'),
      },
    },
  },
}

/**
 * The layout without its own `main`, because the page has one; with a heading between the title and the sections; and without links inside
 * the buttons that open paths.
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

/** Labels for controls that have none, or one that differs from the visible text. */
const ownNames: [selector: string, name: (element: Element) => string][] = [
  ['.close-modal', () => 'Close'],
  ['.examples-select-element', () => 'Example'],
  ['.body-param textarea', () => 'Request body'],
  ['[data-param-name] select, [data-param-name] input', ({ parentElement }) => parameterOf(parentElement)],
  ['.responses-table', (table) => `${describedBy(table)} of ${operationOf(table)}`],
  ['.copy-to-clipboard button', () => 'Copy'],
  ['.modal-btn', ({ textContent }) => textContent],
]

/** Labels controls again when the library rerenders, and makes wide parts scrollable by keyboard. */
export function completeControls(page: Element): void {
  function complete(): void {
    for (const [selector, accessibleName] of ownNames) {
      for (const element of page.querySelectorAll(selector)) element.ariaLabel = accessibleName(element)
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
