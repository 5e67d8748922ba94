import { source, type AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'

/** What somebody can press or type into. */
const controls = 'a, button, input, summary, [role=treeitem]'

/**
 * The controls of a page that can't be hit, because something else lies over their centre. The rest is scrolled to
 * first, as a person would. Throws when the page has none at all.
 */
export function coveredControls(page: Page): Promise<string[]> {
  return page.evaluate((controls) => {
    // What is open lies over everything else, which is what it is for.
    const within = document.querySelector('dialog[open], :popover-open') ?? document
    const visible = [...within.querySelectorAll(controls)].filter((element) =>
      element.checkVisibility({ visibilityProperty: true }),
    )
    if (visible.length === 0) throw new Error('There is no control on this page')
    return visible.flatMap((element) => {
      element.scrollIntoView({ block: 'nearest', inline: 'nearest' })
      // Rows of a long list go when they are out of sight.
      if (!element.isConnected) return []
      // Of a link over two lines the first part: the middle of both may be beside either.
      const { left, top, width, height } = element.getClientRects()[0]!
      const hit = document.elementFromPoint(left + width / 2, top + height / 2)
      if (hit === element || element.contains(hit)) return []
      return [`${element.outerHTML.slice(0, 90)} is under ${hit?.outerHTML.slice(0, 90)}`]
    })
  }, controls)
}

/** What axe finds wrong, by rule and element; nothing on a page that everybody can use. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.evaluate(source)
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(...args: unknown[]): Promise<AxeResults> } }
    const { violations } = await axe.run(document, { resultTypes: ['violations'] })
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, any }) => `${id}: ${html.slice(0, 120)} ${any[0]?.message ?? ''}`),
    )
  })
}
