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
    // It may be behind the bar at the top.
    await firefox.marionette.run("args[0].scrollIntoView({ block: 'center' })", found.value)
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
    await until(`document.querySelector('.fields') === null`)
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

  it('edits a bookmark in its row, adds one, moves one with the picker and keeps one of two, on a small dark screen', async () => {
    const { marionette } = firefox
    const found: string[][] = []
    const edit = (title: string) => click(`//button[@aria-label='Edit ${title}']`)
    await marionette.send('Marionette:SetContext', { value: 'chrome' })
    await marionette.run("Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', 0)")
    await marionette.send('Marionette:SetContext', { value: 'content' })
    await marionette.send('WebDriver:SetWindowRect', { width: 320, height: 700 })
    const screen = await marionette.run(
      'return [innerWidth <= 500, matchMedia("(prefers-color-scheme: dark)").matches]',
    )
    await until(`document.querySelector('#content').textContent.includes('Morning')`)

    await edit('Morning')
    found.push(await faults())
    await fill('title', 'Dawn')
    await press(key.escape)
    await until(`document.activeElement.textContent.includes('Morning')`)
    await edit('Morning')
    await fill('title', 'Dawn')
    await fill('address', 'https://dawn.example/')
    await press(key.enter)
    await saved('Changed “Morning”')
    await click("//button[@id='new-bookmark']")
    await fill('title', 'Noon')
    await fill('address', 'https://noon.example/')
    await press(key.enter)
    await saved('Added a bookmark')
    await until(`document.activeElement.textContent.includes('Noon')`)
    await click("//button[@id='move']")
    found.push(await faults())
    await press(`other${key.enter}`)
    await saved('Moved “Noon”')
    await click("//a[@data-view='duplicates']")
    await click("//button[starts-with(@aria-label, 'Keep this: Mail again')]")
    await saved('Kept one “Mail again”')
    found.push(await faults())

    expect(screen).toEqual([true, true])
    const left = ['Dawn', 'Evening', 'Mail again'].map((title) => `Reading/${title}`)
    expect(await outlineOf(other)).toEqual(['Reading', ...left, '---'])
    expect(await outlineOf(other, 'unfiled')).toEqual(['Stray', 'Noon'])
    expect(found).toEqual([[], [], []])
  }, 240_000)
})
