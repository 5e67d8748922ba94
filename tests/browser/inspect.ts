import { source, type AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'

/** Elements that can be clicked or typed into. */
const controls = 'a, button, input, summary, [role=treeitem]'

/** What covers everything else while it is open. */
const front = 'dialog[open], :popover-open, .modal-ux'

/**
 * The page's controls that can't be clicked, because another element covers their centre. Scrolls each into view first, as a person would.
 * Throws if the page has none.
 */
export function coveredControls(page: Page): Promise<string[]> {
  return page.evaluate(
    ([controls, front]) => {
      const within = document.querySelector(front) ?? document
      const visible = [...within.querySelectorAll(controls)].filter((element) =>
        element.checkVisibility({ visibilityProperty: true }),
      )
      if (visible.length === 0) throw new Error('This page has no controls')
      return visible.flatMap((element) => {
        element.scrollIntoView({ block: 'nearest', inline: 'nearest' })
        // Rows of a long list are removed when they scroll out of view.
        if (!element.isConnected) return []
        // For a link over two lines, its first part: the centre of both may be outside either.
        const { left, top, width, height } = element.getClientRects()[0]!
        const hit = document.elementFromPoint(left + width / 2, top + height / 2)
        if (hit === element || element.contains(hit)) return []
        return [`${element.outerHTML.slice(0, 90)} is under ${hit?.outerHTML.slice(0, 90)}`]
      })
    },
    [controls, front] as const,
  )
}

/** The accessibility problems that axe finds in what can be used, by rule and element; empty on an accessible page. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  // Its half a megabyte takes longer to read than it then takes to inspect.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(source)
  return page.evaluate(async (front) => {
    // A colour in transition has less contrast than at its end. Endless animations can't be finished.
    for (const animation of document.getAnimations())
      if (animation.effect?.getComputedTiming().endTime !== Infinity) animation.finish()
    const { axe } = globalThis as unknown as { axe: { run(...args: unknown[]): Promise<AxeResults> } }
    const { violations } = await axe.run(document.querySelector(front) ?? document, {
      resultTypes: ['violations'],
      // Style sheets and media are for rules that are off.
      preload: false,
    })
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, any }) => `${id}: ${html.slice(0, 120)} ${any[0]?.message ?? ''}`),
    )
  }, front)
}
