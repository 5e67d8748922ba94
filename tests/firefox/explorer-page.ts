import type { Marionette } from './marionette.ts'

// Characters of the protocol WebDriver.
export const key = { enter: '\uE007', control: '\uE009', delete: '\uE017', f2: '\uE032' }

/** What a person does in the explorer's page, in the tab of a Firefox. */
export function explorerPage(marionette: Marionette) {
  /** In the page: resolves to the first true value of an expression; rejects after a minute. */
  const until = <T>(expression: string): Promise<T> =>
    marionette.run<T>(
      `for (let tries = 0; tries < 600; tries += 1) {
        const value = (() => ${expression})()
        if (value) return value
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      throw new Error('never true: ' + args[0] + ' in ' + document.body.innerText)`,
      expression,
    )

  async function click(xpath: string): Promise<void> {
    const found = await marionette.send<{ value: Record<string, string> }>('WebDriver:FindElement', {
      using: 'xpath',
      value: xpath,
    })
    // It may be behind the bar at the top.
    await marionette.run("args[0].scrollIntoView({ block: 'center' })", found.value)
    await marionette.send('WebDriver:ElementClick', { id: Object.values(found.value)[0] })
  }

  /** Presses keys; `held` is held down meanwhile. */
  async function press(keys: string, held = ''): Promise<void> {
    const actions = [
      ...[...held].map((value) => ({ type: 'keyDown', value })),
      ...[...keys].flatMap((value) => [
        { type: 'keyDown', value },
        { type: 'keyUp', value },
      ]),
      ...[...held].map((value) => ({ type: 'keyUp', value })),
    ]
    await marionette.send('WebDriver:PerformActions', {
      actions: [{ type: 'key', id: 'keyboard', actions }],
    })
  }

  /** Fills the field of the open form, as if it was typed. */
  const fill = async (name: string, text: string) => {
    await click(`//form[@class='fields']//input[@name='${name}']`)
    await press('a', key.control)
    await press(text)
  }

  const row = (title: string) =>
    `//*[@role='treeitem'][.//*[contains(@class, 'row-title')][normalize-space() = '${title}']]`
  const saved = (what: string) =>
    until(
      `document.querySelector('#changed').textContent === '${what}' && !document.querySelector('#undo').hidden`,
    )

  return { until, click, press, fill, row, saved }
}
