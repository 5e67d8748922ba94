import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { encryptPayload, keysRecord, toKeyBundle } from '../../src/sandbox/crypto.ts'
import { desk, phone } from './browser.ts'
import {
  choose,
  detailsLinks,
  connectWith,
  linesFor,
  lookFor,
  startExplorer,
  titles,
  type ExplorerWorld,
} from './explorer.ts'
import { accessibilityFaults, coveredControls } from './inspect.ts'

// The omitted views have only elements that these also have; passwords are checked with one revealed.
const views = ['devices', 'bookmarks', 'history', 'prefs', 'unreadable']

let world: ExplorerWorld

beforeAll(async () => {
  world = await startExplorer({ history: 1500 })
})

afterEach(async () => expect(await world.browser.endPages()).toEqual([]))

afterAll(() => world?.stop())

/** A user with 5 000 bookmarks in one folder, and folders 12 deep, of which seven levels are indented. */
function addGreatCollector() {
  const { sandbox } = world.bridge
  const user = sandbox.addUser('collector')
  const keys = toKeyBundle(user.syncKey)
  const iv = Buffer.alloc(16, 1)
  const seal = (clear: { id: string }) => ({ id: clear.id, payload: encryptPayload(keys, clear, iv) })
  const upload = (collection: string, records: { id: string }[]) =>
    sandbox.write(user, collection, records.map(seal))
  const ids = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name}${index}`)
  const [many, deep] = [ids('bookmark', 5000), ids('folder', 12)]
  const folder = (id: string, parentid: string, children: string[]) => {
    return { id, type: 'folder', title: id, parentid, children }
  }
  upload('crypto', [keysRecord(keys) as { id: string }])
  upload('bookmarks', [
    folder('toolbar', 'places', [deep[0]!]),
    ...deep.map((id, index) => folder(id, deep[index - 1] ?? 'toolbar', [deep[index + 1] ?? 'deepest'])),
    folder('unfiled', 'places', many),
    ...[...many, 'deepest'].map((id) => {
      return { id, type: 'bookmark', title: id, bmkUri: `https://${id}.example/` }
    }),
  ])
  return user
}

/** The size of the document: rows, and elements of all kinds. */
async function sizeOf(page: Page) {
  // Rows are drawn in the next frame.
  await page.locator('.row').first().waitFor()
  return await page.evaluate(() => ({
    rows: document.querySelectorAll('.row').length,
    elements: document.querySelectorAll('*').length,
  }))
}

const focusedRow = (page: Page) =>
  page.evaluate(() => {
    const row = document.activeElement!
    return [row.querySelector('.row-title')?.textContent, row.ariaExpanded, row.ariaLevel]
  })

describe('long lists', () => {
  it('render a few dozen of 5 000 rows at a time, and folders 12 deep that fit on a phone', async () => {
    const page = await world.open({ user: addGreatCollector(), viewport: phone, view: 'bookmarks' })
    const sizes: Awaited<ReturnType<typeof sizeOf>>[] = []

    await page.locator('[role=treeitem]').first().focus()
    for (let level = 1; level <= 13; level++) {
      await page.keyboard.press('ArrowRight')
      await page.keyboard.press('ArrowRight')
    }
    const deepest = await focusedRow(page)
    const faults = await accessibilityFaults(page)
    const widths = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.activeElement!.querySelector('.row-title')!.getBoundingClientRect().left,
    ])
    sizes.push(await sizeOf(page))
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await page.keyboard.press('End')
    const last = await focusedRow(page)
    sizes.push(await sizeOf(page))
    await page.keyboard.press('Home')
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 2))
    const middle = page.locator('.row-title', { hasText: /^bookmark24\d\d$/ })
    await middle.first().waitFor()
    sizes.push(await sizeOf(page))
    const found = await lookFor(page, 'bookmark')
    sizes.push(await sizeOf(page))

    expect(deepest).toEqual(['deepest', null, '14'])
    expect(last).toEqual(['bookmark4999', null, '2'])
    expect(faults).toEqual([])
    expect(widths[0]).toBe(phone.width)
    expect(widths[1]).toBeLessThan(phone.width / 2)
    expect(found).toEqual(['5,000 here'])
    for (const { rows, elements } of sizes) {
      expect(rows).toBeGreaterThan(10)
      expect(rows).toBeLessThan(60)
      expect(elements).toBeLessThan(1000)
    }
  })

  it('are as high as all of their rows, so that 1 500 pages of history can be scrolled to the last', async () => {
    const page = await world.look('history')

    const days = await page.locator('.list h2').count()
    const height = await page.evaluate(() => document.documentElement.scrollHeight)
    const sizes = [await sizeOf(page)]
    await page.keyboard.press('End')
    await page.waitForFunction(() => [...document.querySelectorAll('.rows')].at(-1)!.childElementCount > 0)
    sizes.push(await sizeOf(page))
    await choose(page, 'forms')
    await page.goBack()
    const isBack = await page.waitForFunction(() => scrollY > 50_000)

    expect(days).toBeGreaterThan(20)
    expect(height).toBeGreaterThan(1500 * 50)
    for (const { rows } of sizes) expect(rows).toBeLessThan(60)
    expect(isBack).toBeTruthy()
  })

  it("end before the browser's maximum height, and say how many items are not shown", async () => {
    const page = await world.open()
    const entry = join(import.meta.dir, '../../src/explorer/long-list.ts')
    const { outputs } = await Bun.build({ entrypoints: [entry], target: 'browser' })
    const body = await outputs[0]!.text()
    await page.route('**/long-list.js', (route) => route.fulfill({ body, contentType: 'text/javascript' }))
    await page.evaluate(async (address) => {
      const { LongList } = await import(address)
      const items = Array.from({ length: 1_000_000 }, (_, index) => ({ index }))
      const sections = [
        { title: null, items: items.slice(0, 10) },
        { title: 'Most', items: items.slice(10) },
      ]
      const list = new LongList('Numbers', 'list', sections, ({ index }: { index: number }) => {
        const [row, main] = [document.createElement('div'), document.createElement('a')]
        row.className = 'row'
        main.href = '#'
        main.dataset.main = ''
        main.append(`${index}`)
        row.append(main)
        return row
      })
      document.getElementById('content')!.replaceChildren(list.element)
    }, `${world.url}/long-list.js`)

    await page.locator('#content .row a').first().focus()
    await page.keyboard.press('End')
    const last = await page.evaluate(() => document.activeElement!.textContent)
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight))
    const places = await page.locator('#content .row').evaluateAll((rows) => {
      const tops = rows.map((row) => Math.round(row.getBoundingClientRect().top))
      return tops.filter((top) => top > 0 && top < innerHeight)
    })
    const rest = await page.locator('#content .note').innerText()

    expect(last).toBe('299999')
    expect(new Set(places).size).toBeGreaterThan(10)
    expect(rest).toStartWith('700,000 more are not shown here')
  })

  it('are navigated with the arrow keys, and a row leads to its site', async () => {
    const page = await world.look('history')
    const rows = page.locator('.row')
    const site = await rows.nth(1).locator('[target]').getAttribute('href')

    await rows.nth(0).locator('.row-main').focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Tab')
    const [request, popup] = await Promise.all([
      page.context().waitForEvent('request'),
      page.waitForEvent('popup'),
      page.keyboard.press('Enter'),
    ])
    const isAlone = await popup.evaluate(() => window.opener === null)
    await popup.close()
    const details = detailsLinks(page).first()
    const isDetailsSeen = await details.evaluate((link) => link.checkVisibility({ opacityProperty: true }))

    expect(site).toMatch(/^https:/)
    expect([request.url(), request.headers().referer, isAlone]).toEqual([site!, undefined, true])
    expect(isDetailsSeen).toBe(true)
  })
})

describe('the tree of bookmarks', () => {
  it('supports the standard keys of a tree', async () => {
    const page = await world.look('bookmarks')
    const top = 'Bookmarks Toolbar'
    const seen: unknown[] = []
    const press = async (key: string) => {
      await page.keyboard.press(key)
      seen.push(await focusedRow(page))
    }
    const folder = await page.locator('[aria-level="2"].folder .row-title').first().innerText()

    await page.locator('[role=treeitem]').first().focus()
    for (const key of ['Right', 'Right', 'Right', 'Left', 'Left', 'Left', 'Left']) await press(`Arrow${key}`)
    for (const key of ['End', 'Home', 'Enter']) await press(key)
    await page.keyboard.press('Tab')
    const tabbed = await page.evaluate(() => document.activeElement!.getAttribute('aria-label'))
    await page.keyboard.press('Enter')
    const opened = await page.locator('#details-title').innerText()
    await page.keyboard.press('Escape')
    await page.waitForURL(/#\/bookmarks$/)
    const tabbable = await page.locator('[role=tree] [tabindex="0"]').count()

    expect(seen).toEqual([
      [folder, 'false', '2'],
      [folder, 'true', '2'],
      [expect.any(String), null, '3'],
      [folder, 'true', '2'],
      [folder, 'false', '2'],
      [top, 'true', '1'],
      [top, 'false', '1'],
      ['Mobile Bookmarks', 'false', '1'],
      [top, 'false', '1'],
      [top, 'true', '1'],
    ])
    expect(tabbed).toBe(`Details of ${top}`)
    expect(opened).toBe(top)
    expect(tabbable).toBe(2)
  })

  it('goes to the row that begins with the typed text, and closes all folders at once', async () => {
    const page = await world.open({ view: 'bookmarks' })
    const seen: unknown[] = []
    await page.locator('[role=treeitem]').first().focus()

    for (const [turn, typed] of ['re', 'boo'].entries()) {
      // No time passes while a word is typed; more than a word's time passes between the two.
      await page.evaluate(
        (value) => {
          Object.defineProperty(Event.prototype, 'timeStamp', { get: () => value, configurable: true })
        },
        100_000 * (turn + 1),
      )
      await page.keyboard.type(typed)
      seen.push((await focusedRow(page))[0])
    }
    await page.click('#collapse')
    const closed = await titles(page)

    expect(seen).toEqual(['Recipes', 'Bookmarks Menu'])
    expect(closed).toEqual(['Bookmarks Toolbar', 'Bookmarks Menu', 'Other Bookmarks', 'Mobile Bookmarks'])
  })

  it('is opened and closed with the mouse, and keeps its state', async () => {
    const page = await world.look('bookmarks')
    const folder = page.locator('[aria-level="2"].folder').first()
    await folder.waitFor()
    const before = await titles(page)

    await folder.click()
    const inner = await page.locator('[aria-level="3"] .row-title').first().innerText()
    await choose(page, 'forms')
    await page.goBack()
    const again = await page.locator('[aria-level="3"] .row-title').first().innerText()
    await folder.click()
    const after = await titles(page)

    expect(again).toBe(inner)
    expect(after.slice(0, 10)).toEqual(before.slice(0, 10))
  })
})

describe('Escape', () => {
  it('closes what is open, and clears the search', async () => {
    const page = await world.look('bookmarks')
    await lookFor(page, 'tide')
    await page.keyboard.press('Escape')
    const word = await page.inputValue('#search')
    await page.click('#download')
    const isMenuOpen = () => page.locator('#downloads').isVisible()
    const states = [await isMenuOpen()]
    await page.keyboard.press('Escape')
    states.push(await isMenuOpen())

    expect(word).toBe('')
    expect(states).toEqual([true, false])
  })
})

describe('the slash', () => {
  it('focuses the search, also from a checkbox, and can be typed there', async () => {
    const page = await world.look('bookmarks')
    await page.locator('#explorer [data-keeps-key]').focus()
    await page.keyboard.press('/')
    await page.keyboard.type('a/b')

    expect(await page.inputValue('#search')).toBe('a/b')
  })
})

/** Inspects everything that the page can show. */
async function walk(page: Page, look: (name: string) => Promise<void>): Promise<void> {
  for (const view of views) {
    await choose(page, view)
    await page.locator('.row').first().waitFor()
    await look(view)
  }
  await choose(page, 'passwords')
  const reveal = page.getByRole('button', { name: /^Show the password/ })
  await reveal.first().click()
  await look('shown')
  await page.click('#download')
  await look('menu')
  await page.click('#warn-of-passwords')
  await look('warning')
  await page.keyboard.press('Escape')
  await choose(page, 'history')
  await lookFor(page, 'rye bread')
  await page.selectOption('#order', 'title')
  await look('search')
  await detailsLinks(page).first().click()
  await look('details')
  await page.click('#close-details')
  await page.click('#leave')
  await page.click('.recipe summary')
  await look('form')
  await connectWith(page, linesFor(world.bridge.user).replace(/SYNC_KEY=../, 'SYNC_KEY=00'))
  await page.locator('[aria-invalid]').waitFor()
  await look('trouble')
}

describe('the explorer', () => {
  it.each([
    ['light', desk],
    ['dark', phone],
  ] as const)(
    'is accessible, %s %p: axe finds nothing, and every control can be clicked',
    async (scheme, viewport) => {
      const page = await world.open({ scheme, viewport })
      const faults: string[] = []

      await walk(page, async (name) => {
        const controls = page.locator('button:visible, input:visible')
        const heights = await controls.evaluateAll((all) =>
          all.map((each) => each.getBoundingClientRect().height),
        )
        const width = await page.evaluate(() => document.documentElement.scrollWidth)
        const found = [...(await accessibilityFaults(page)), ...(await coveredControls(page))]
        if (width > viewport.width) found.push(`is ${width} pixels wide`)
        if (Math.min(...heights) < 16) found.push('has a control that is hard to hit')
        faults.push(...found.map((fault) => `${name}: ${fault}`))
      })

      expect(faults).toEqual([])
    },
  )
})
