import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { source } from 'axe-core'
import type { SyncClient } from '../../src/client/sync-client.ts'
import { addCollector, clientOf, outlineOf } from '../browser/collector.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { firefoxPath, launchFirefox } from './firefox.ts'

// Characters of the protocol WebDriver.
const key = {
  enter: '\uE007',
  control: '\uE009',
  escape: '\uE00C',
  right: '\uE014',
  down: '\uE015',
  delete: '\uE017',
  f2: '\uE032',
}

describe.skipIf(firefoxPath === null)('the explorer in Firefox', () => {
  let bridge: TestBridge
  let firefox: Awaited<ReturnType<typeof launchFirefox>>
  let other: SyncClient

  beforeAll(async () => {
    bridge = await startTestBridge({
      writable: ['bookmarks'],
      settings: { explorer_enabled: 'true' },
    })
    firefox = await launchFirefox()
    await firefox.marionette.send('Marionette:SetContext', { value: 'content' })
  }, 120_000)

  afterAll(async () => {
    await firefox?.stop()
    await bridge?.stop()
  })

  /** In the page: resolves to the first true value of an expression; rejects after a minute. */
  const until = <T>(expression: string): Promise<T> =>
    firefox.marionette.run<T>(
      `for (let tries = 0; tries < 600; tries += 1) {
        const value = (() => ${expression})()
        if (value) return value
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      throw new Error('never true: ' + args[0] + ' in ' + document.body.innerText)`,
      expression,
    )

  async function click(xpath: string): Promise<void> {
    const found = await firefox.marionette.send<{ value: Record<string, string> }>('WebDriver:FindElement', {
      using: 'xpath',
      value: xpath,
    })
    await firefox.marionette.send('WebDriver:ElementClick', { id: Object.values(found.value)[0] })
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
    await firefox.marionette.send('WebDriver:PerformActions', {
      actions: [{ type: 'key', id: 'keyboard', actions }],
    })
  }

  const row = (title: string) =>
    `//*[@role='treeitem'][.//*[contains(@class, 'row-title')][normalize-space() = '${title}']]`
  const saved = (what: string) =>
    until(
      `document.querySelector('#changed').textContent === '${what}' && !document.querySelector('#undo').hidden`,
    )

  const faults = () =>
    firefox.marionette.run<string[]>(
      `${source}\nconst { violations } = await axe.run(document.querySelector('dialog[open]') ?? document)
      return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html))`,
    )

  it('renames, moves, deletes and takes back with the keyboard, and axe finds nothing', async () => {
    const user = addCollector(bridge.sandbox, 'fox')
    other = clientOf(user, bridge.url)
    const { marionette } = firefox
    const found: string[][] = []
    await marionette.send('WebDriver:Navigate', { url: `${bridge.url}/v1/explore` })
    const { token, keyId, bucket, syncKey } = other.account
    await marionette.run(
      `for (const [name, value] of Object.entries(args[0]))
        document.querySelector('input[name=' + name + ']').value = value`,
      { token, keyId, bucket, syncKey },
    )
    await click("//button[@id='open']")
    await until("!document.querySelector('#edit-tools').hidden")

    await click(`${row('Mail')}//input`)
    await click(`${row('Mail again')}//input`)
    found.push(await faults())
    await press('x', key.control)
    await click(row('News'))
    await press('v', key.control)
    await saved('Moved 2 bookmarks')
    const moved = await outlineOf(other)
    await until(`document.activeElement.textContent.includes('News')`)
    await press(key.f2)
    await until(`document.activeElement.name === 'title'`)
    found.push(await faults())
    await press('a', key.control)
    await press(`Reading${key.enter}`)
    await saved('Changed “News”')
    await until(`!document.querySelector('#details').open`)
    const renamed = await outlineOf(other)
    await until(`document.activeElement.textContent.includes('Reading')`)
    await press(key.delete)
    await saved('Deleted “Reading”')
    found.push(await faults())
    const deleted = await outlineOf(other)
    await press('z', key.control)
    await until(`document.querySelector('#changes').hidden`)

    const inside = ['Morning', 'Evening', 'Mail', 'Mail again']
    const outline = (folder: string) => [folder, ...inside.map((title) => `${folder}/${title}`), '---']
    expect(moved).toEqual(outline('News'))
    expect(renamed).toEqual(outline('Reading'))
    expect(deleted).toEqual(['---'])
    expect(await outlineOf(other)).toEqual(outline('Reading'))
    expect(found).toEqual([[], [], []])
  }, 240_000)
})
