import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import type { SyncClient } from '../../src/client/sync-client.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { desk, startBrowser, type OpenOptions, type TestBrowser } from './browser.ts'
import { addCollector, clientOf, outlineOf, recordsOf } from './collector.ts'
import { choose, connectWith, isRead, linesFor, lookFor } from './explorer.ts'
import { accessibilityFaults, coveredControls } from './inspect.ts'

let bridge: TestBridge
let browser: TestBrowser
let users = 0
/** By how much the clocks of bridge and storage are ahead. */
let aheadMs = 0
const now = () => Date.now() + aheadMs

beforeAll(async () => {
  bridge = await startTestBridge({
    writable: ['bookmarks', 'passwords', 'history', 'forms'],
    settings: { explorer_enabled: 'true' },
    now,
    sandbox: { clock: now },
  })
  browser = await startBrowser()
})

afterEach(async () => expect(await browser.endPages()).toEqual([]))

afterAll(async () => {
  await browser?.stop()
  await bridge?.stop()
})

interface EditOptions extends OpenOptions {
  moreBookmarks?: number
  /** Of the page's token. */
  expiresInSeconds?: number
}

/** An account of its own at a view of the page, and another client of it. */
async function open(
  view: string,
  { moreBookmarks = 0, expiresInSeconds, ...options }: EditOptions = {},
): Promise<{ page: Page; other: SyncClient; user: SandboxUser }> {
  const user = addCollector(bridge.sandbox, `collector${users++}`, moreBookmarks)
  const page = await browser.open(`${bridge.url}/v1/explore`, { viewport: desk, ...options })
  await connectWith(page, linesFor(user, user.bearerToken({ expiresInSeconds })))
  await isRead(page)
  await choose(page, view)
  return { page, other: clientOf(user, bridge.url), user }
}

/** The row with exactly this title. */
const row = (page: Page, title: string): Locator =>
  page.locator('#content .row').filter({ has: page.locator('.row-title', { hasText: RegExp(`^${title}$`) }) })

const titlesOf = (page: Page) => page.locator('#content .row-title').allInnerTexts()

/** Waits for the next frame, in which rows are drawn and one gets the focus, and for its end. */
const isDrawn = (page: Page) =>
  page.evaluate(async () => {
    for (const _ of [1, 2]) await new Promise((resolve) => requestAnimationFrame(resolve))
  })

/** Waits until this was saved, and the page shows it. */
async function isSaved(page: Page, what: string): Promise<void> {
  const changes = page.locator('#changes', { has: page.locator('#undo:visible') })
  await changes.getByText(what, { exact: true }).waitFor()
  await isDrawn(page)
}

/** The title of the focused row, or the name of the focused control. */
const focused = (page: Page) =>
  page.evaluate(() => {
    const { activeElement: element } = document
    return element!.querySelector('.row-title')?.textContent ?? element!.getAttribute('name') ?? element!.id
  })

const field = (page: Page, name: string) => page.locator(`.row .fields input[name=${name}]`)

/** The records of a collection as stored. */
async function storedOf(client: SyncClient, collection: string): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const { stored } of client.collection(collection).records()) found.push(stored)
  return found
}

/** Opens the form of a row with its button. */
const change = (page: Page, title: string) =>
  row(page, title)
    .getByRole('button', { name: /^Edit / })
    .click()

/** Goes to a row by keyboard, with its folder open. */
async function goTo(page: Page, title: string): Promise<void> {
  await row(page, title).focus()
}

describe('in the tree of bookmarks', () => {
  it('F2 changes a title in its row, Escape cancels, and the focus returns to the row', async () => {
    const { page, other } = await open('bookmarks')
    await goTo(page, 'Mail')

    await page.keyboard.press('F2')
    const first = await focused(page)
    await field(page, 'title').fill('Never')
    await page.keyboard.press('Escape')
    const cancelled = await focused(page)
    await page.keyboard.press('F2')
    await page.keyboard.press('Tab')
    const second = await focused(page)
    await field(page, 'title').fill('Letters')
    await page.keyboard.press('Enter')
    await row(page, 'Letters').waitFor()
    const places = await page
      .locator('.row')
      .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect()))

    expect([first, second, cancelled]).toEqual(['title', 'address', 'Mail'])
    expect(await focused(page)).toBe('Letters')
    expect(places.every(({ top }, index) => index === 0 || top === places[index - 1]!.bottom)).toBe(true)
    expect(await outlineOf(other)).toEqual([
      'News',
      'News/Morning',
      'News/Evening',
      'Letters',
      '---',
      'Mail again',
    ])
  })

  it('tags belong to every bookmark of the address', async () => {
    const { page, other } = await open('bookmarks')
    await row(page, 'Mail').locator('.row-main').click()
    await page.locator('#details').getByRole('button', { name: 'Edit' }).click()
    const first = await focused(page)
    await field(page, 'tags').fill('letters, every day')
    await page.keyboard.press('Enter')
    await isSaved(page, 'Changed “Mail”')

    expect(first).toBe('title')
    const { items } = await other.tree()
    const tags = ['mail00000000', 'mailagain000', 'morning00000'].map((id) => items.get(id)!.tags)
    expect(tags).toEqual([['letters', 'every day'], ['letters', 'every day'], ['daily']])
  })

  it('rows are moved by keyboard: cut and pasted into a folder, or behind a row', async () => {
    const { page, other } = await open('bookmarks')
    await goTo(page, 'Mail')
    await page.keyboard.press('Control+x')
    await goTo(page, 'News')
    await page.keyboard.press('Control+v')
    await isSaved(page, 'Moved “Mail”')
    await page.keyboard.press('ArrowRight')
    await goTo(page, 'Mail again')
    await page.keyboard.press('Control+x')
    await goTo(page, 'Morning')
    await page.keyboard.press('Control+v')
    await isSaved(page, 'Moved “Mail again”')

    expect(await outlineOf(other)).toEqual([
      'News',
      'News/Morning',
      'News/Mail again',
      'News/Evening',
      'News/Mail',
      '---',
    ])
  })

  it('rows are moved by drag and drop: before a row, and into a folder', async () => {
    const { page, other } = await open('bookmarks')
    await row(page, 'Mail again').dragTo(row(page, 'Mail'), { targetPosition: { x: 200, y: 3 } })
    await isSaved(page, 'Moved “Mail again”')
    await row(page, 'Mail').dragTo(row(page, 'News'))
    await isSaved(page, 'Moved “Mail”')

    expect(await outlineOf(other)).toEqual([
      'News',
      'News/Morning',
      'News/Evening',
      'News/Mail',
      'Mail again',
      '---',
    ])
  })

  it('several rows are selected with Shift, Ctrl and boxes, and moved to a folder that is searched for', async () => {
    const { page, other } = await open('bookmarks')
    await row(page, 'Other Bookmarks').locator('.row-main').click()
    await row(page, 'Stray').click({ modifiers: ['ControlOrMeta'] })
    await row(page, 'Mail').locator('.pick').check()
    await row(page, 'Mail again').click({ modifiers: ['Shift'] })
    const selected = await page.locator('#selected').innerText()
    const marked = await page.locator('[aria-selected=true]').count()
    await page.click('#move')
    await page.keyboard.type('new')
    await page.keyboard.press('Enter')
    await isSaved(page, 'Moved 4 bookmarks')

    expect([selected, marked]).toEqual(['4 selected', 4])
    expect(await page.locator('#selected').innerText()).toBe('4 selected')
    expect(await outlineOf(other)).toEqual([
      'News',
      'News/Morning',
      'News/Evening',
      'News/Mail',
      'News/---',
      'News/Mail again',
      'News/Stray',
    ])
  })

  it('a folder is deleted with its contents, and comes back by a button or Ctrl+Z', async () => {
    const { page, other } = await open('bookmarks')
    const before = await outlineOf(other)
    const kept: string[][] = []
    for (const takeBack of [() => page.click('#undo'), () => page.keyboard.press('Control+z')]) {
      await goTo(page, 'News')
      await page.keyboard.press('Delete')
      await isSaved(page, 'Deleted “News”')
      kept.push(await outlineOf(other), [await focused(page)])
      await takeBack()
      await row(page, 'News').waitFor()
      kept.push(await outlineOf(other))
    }

    const without = ['Mail', '---', 'Mail again']
    expect(kept).toEqual([without, ['Mail'], before, without, ['Mail'], before])
  })

  it('a bookmark, a folder and a separator are added where one stands, visible and focused', async () => {
    const { page, other } = await open('bookmarks')
    await goTo(page, 'Mail')
    await page.click('#new-bookmark')
    await field(page, 'title').fill('No address')
    await page.keyboard.press('Enter')
    const refusal = await page.locator('.row .trouble:visible').innerText()
    const keptTitle = await field(page, 'title').inputValue()
    await field(page, 'title').fill('Fresh')
    await field(page, 'address').focus()
    await page.keyboard.type('https://fresh.example/')
    const typed = await field(page, 'address').inputValue()
    await page.keyboard.press('Enter')
    await isSaved(page, 'Added a bookmark')
    await row(page, 'Fresh').waitFor()
    const afterFirst = await focused(page)
    await page.click('#new-folder')
    await field(page, 'title').fill('Box')
    await page.keyboard.press('Enter')
    await isSaved(page, 'Added a folder')
    const afterSecond = await focused(page)
    await page.click('#new-separator')
    await isSaved(page, 'Added a separator')
    await page.locator('.separator').nth(1).waitFor()

    expect(refusal).toMatch(/address/)
    expect([keptTitle, typed]).toEqual(['No address', 'https://fresh.example/'])
    expect([afterFirst, afterSecond]).toEqual(['Fresh', 'Box'])
    expect((await outlineOf(other)).slice(3)).toEqual(['Mail', 'Fresh', 'Box', '---', '---', 'Mail again'])
  })

  it('the row and the scroll position stay while a change deep in a long list is saved', async () => {
    const { page } = await open('bookmarks', { moreBookmarks: 300 })
    await row(page, 'Other Bookmarks').locator('.row-main').click()
    await row(page, 'Stray').focus()
    await page.keyboard.press('End')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowUp')
    const [title, before] = [await focused(page), await page.evaluate(() => scrollY)]
    await page.keyboard.press('Delete')
    await isSaved(page, `Deleted “${title}”`)
    await row(page, title).waitFor({ state: 'detached' })

    expect(before).toBeGreaterThan(5000)
    expect(Math.abs((await page.evaluate(() => scrollY)) - before)).toBeLessThan(60)
    expect(await focused(page)).toBe('More 298')
  })
})

describe('other records', () => {
  it('one of several bookmarks of an address is kept, and one of several logins', async () => {
    const { page, other } = await open('duplicates')
    await row(page, 'Mail again').waitFor()
    const [bookmarks, logins] = [await titlesOf(page), await page.locator('#content h2').allInnerTexts()]
    await row(page, 'Mail again')
      .getByRole('button', { name: /^Keep this/ })
      .click()
    await isSaved(page, 'Kept one “Mail again”')
    await page
      .getByRole('button', { name: /^Keep this/ })
      .first()
      .click()
    await page.getByText('No address is bookmarked twice').waitFor()

    expect(bookmarks.slice(0, 2)).toEqual(['Mail', 'Mail again'])
    expect(logins[0]).toBe('https://mail.example/')
    expect(await outlineOf(other)).toEqual(['News', 'News/Morning', 'News/Evening', '---', 'Mail again'])
    expect((await recordsOf(other, 'passwords')).map(({ password }) => password)).toEqual(['old secret'])
  })

  it('a password is changed, hidden while it is typed', async () => {
    const { page, other } = await open('passwords')
    await page.getByRole('button', { name: 'Edit the login of anna at shop.example' }).first().click()
    const type = await field(page, 'password').getAttribute('type')
    await field(page, 'password').fill('new secret')
    await page.keyboard.press('Enter')
    await page.locator('#undo:visible').waitFor()

    const [first] = (await recordsOf(other, 'passwords')).filter(({ password }) => password === 'new secret')
    expect(type).toBe('password')
    expect(first).toMatchObject({ username: 'anna', hostname: 'https://shop.example', usernameField: '' })
    expect(Number(first!.timePasswordChanged)).toBeGreaterThan(1_700_000_000_000)
    expect(await recordsOf(other, 'passwords')).toHaveLength(2)
  })

  it('keep the line breaks that a field does not show, unless something else is typed into it', async () => {
    const { page, other } = await open('bookmarks')
    const loginId = '{11111111-1111-4111-8111-111111111111}'
    const title = 'One\nTwo\r\n\tThree'
    await other.edit([{ op: 'change', id: 'mail00000000', fields: { title } }])
    await other.edit([{ op: 'change', id: loginId, fields: { username: 'an\nna', password: 'sec\nret' } }], {
      collection: 'passwords',
    })
    await page.click('#refresh')
    const bookmark = page.locator('.row').filter({ has: page.locator('[href$="mail00000000"]') })
    await bookmark.getByText('Three').waitFor()
    const before = await storedOf(other, 'bookmarks')

    await bookmark.focus()
    await page.keyboard.press('F2')
    await page.keyboard.press('Enter')
    await page.locator('.fields').waitFor({ state: 'detached' })
    const untouched = [await storedOf(other, 'bookmarks'), await page.locator('#changes').isVisible()]
    await page.keyboard.press('F2')
    await field(page, 'keyword').fill('letters')
    await page.keyboard.press('Enter')
    await page.locator('#undo:visible').waitFor()
    await choose(page, 'passwords')
    await page
      .getByRole('button', { name: /an\s+na/ })
      .and(page.locator('.edit'))
      .click()
    await field(page, 'username').fill('bertha')
    await page.keyboard.press('Enter')
    await page.getByText('bertha').waitFor()

    expect(untouched).toEqual([before, false])
    expect((await other.tree()).items.get('mail00000000')).toMatchObject({ title, keyword: 'letters' })
    const login = (await recordsOf(other, 'passwords')).find(({ id }) => id === loginId)
    expect(login).toMatchObject({
      username: 'bertha',
      password: 'sec\nret',
      timePasswordChanged: 1_600_000_000_000,
    })
  })

  it('the history of a site and a form entry are deleted, and come back', async () => {
    const { page, other } = await open('history')
    const addresses = async () => (await recordsOf(other, 'history')).map(({ histUri }) => histUri)
    await row(page, 'https://old.example/one').locator('.row-main').click()
    await page.getByRole('button', { name: 'Delete all 2 pages of old.example' }).click()
    await isSaved(page, 'Deleted 2 pages of old.example')
    const left = await addresses()
    await page.click('#undo')
    await row(page, 'https://old.example/two').waitFor()
    const back = await addresses()
    await choose(page, 'forms')
    await page.locator('.row-main').first().click()
    await page.locator('#details').getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByText('There are no form entries.').waitFor()

    expect(left).toEqual(['https://new.example/'])
    expect(back).toHaveLength(3)
    expect(await recordsOf(other, 'forms')).toEqual([])
  })
})

describe('after Ctrl+Z the focus is on the row that is back, or its neighbour', () => {
  const anna = '#/passwords/%7B11111111-1111-4111-8111-111111111111%7D'
  /** The address of the record whose row has the focus, or the id of what has it. */
  const focusedRecord = (page: Page) =>
    page.evaluate(() => document.activeElement!.getAttribute('href') ?? document.activeElement!.id)
  const undo = async (page: Page) => {
    await page.keyboard.press('Control+z')
    await page.locator('#changes').waitFor({ state: 'hidden' })
    await isDrawn(page)
  }
  const linkTo = (page: Page, address: string) => page.locator(`[data-main][href="${address}"]`).first()

  it('in Passwords', async () => {
    const { page } = await open('passwords')
    await linkTo(page, anna).focus()
    await page.keyboard.press('F2')
    await field(page, 'username').fill('zoe')
    await page.keyboard.press('Enter')
    await isSaved(page, 'Changed “https://shop.example”')
    const changed = await focusedRecord(page)
    await undo(page)

    expect([changed, await focusedRecord(page)]).toEqual([anna, anna])
    expect(await linkTo(page, anna).innerText()).toContain('anna')
  })

  it('in search results, also if none was left', async () => {
    const { page } = await open('bookmarks')
    // The row of the tree, which is replaced, has the same link.
    await lookFor(page, 'again')
    await linkTo(page, '#/bookmarks/mailagain000').focus()
    await page.keyboard.press('F2')
    await field(page, 'title').fill('No match')
    await page.keyboard.press('Enter')
    await page.getByText('No match for “again” in Bookmarks.').waitFor()
    const changed = await focusedRecord(page)
    await undo(page)

    expect([changed, await focusedRecord(page)]).toEqual(['title', '#/bookmarks/mailagain000'])
  })

  it('in Duplicates', async () => {
    const { page } = await open('duplicates')
    await page.getByRole('button', { name: 'Keep this: Mail in' }).focus()
    await page.keyboard.press('Enter')
    await isSaved(page, 'Kept one “Mail”')
    await row(page, 'Mail').waitFor({ state: 'detached' })
    const kept = await focusedRecord(page)
    await undo(page)

    expect([kept, await focusedRecord(page)]).toEqual([anna, anna])
    expect(await titlesOf(page)).toContain('Mail')
  })
})

describe('a save', () => {
  it('never overwrites what changed elsewhere: shows it, keeps what was typed, and saves it when asked again', async () => {
    const { page, other } = await open('bookmarks')
    await change(page, 'Mail')
    await field(page, 'title').fill('Mine')
    await change(page, 'Mail again')
    const refusal = [await page.locator('#status').innerText(), await focused(page)]
    await other.edit([
      { op: 'change', id: 'mail00000000', fields: { title: 'Theirs', address: 'https://theirs.example/' } },
    ])
    await page.keyboard.press('Enter')
    const trouble = await page.locator('.row .trouble:visible').innerText()
    const note = await page.locator('.row .elsewhere-now', { hasText: /./ }).innerText()
    const stored = await outlineOf(other)
    const typed = await field(page, 'title').inputValue()
    const untouched = await field(page, 'address').inputValue()
    await page.keyboard.press('Enter')
    await row(page, 'Mine').waitFor()

    expect(refusal).toEqual(['Save or cancel this first', 'title'])
    expect(trouble).toMatch(/another device/)
    expect(note).toBe('On another device: Theirs')
    expect(stored).toContain('Theirs')
    expect([typed, untouched]).toEqual(['Mine', 'https://theirs.example/'])
    const { title, address } = (await other.tree()).items.get('mail00000000')!
    expect([title, address]).toEqual(['Mine', 'https://theirs.example/'])
  })

  it('keeps what others have put into a folder that is deleted, and says so', async () => {
    const { page, other } = await open('bookmarks')
    await other.edit([
      { op: 'add', title: 'Added', address: 'https://added.example/', folder: 'newsfolder00' },
    ])
    await goTo(page, 'News')
    await page.keyboard.press('Delete')
    await page.locator('#troubles li').waitFor()
    const trouble = await page.locator('#troubles').innerText()
    const outline = await outlineOf(other)
    await page.click('#close-troubles')
    const isClosed = await page.locator('#trouble-box').isHidden()

    expect(isClosed).toBe(true)
    expect(trouble).toContain('Added')
    expect(outline.slice(0, 2)).toEqual(['News', 'News/Added'])
  })

  it('that fails keeps what was typed and says why: a token that has expired, a storage that is down', async () => {
    const { page, other, user } = await open('bookmarks', { mayFail: true, expiresInSeconds: 60 })
    const before = await outlineOf(other)
    await change(page, 'Mail')
    await field(page, 'title').fill('Kept')
    aheadMs += 600_000
    await page.keyboard.press('Enter')
    await page.locator('#trouble:visible').waitFor()
    const asked = await focused(page)
    await page.keyboard.insertText(user.bearerToken())
    await page.keyboard.press('Enter')
    await field(page, 'title').waitFor()
    const typed = [await field(page, 'title').inputValue()]
    const reasons = [await page.locator('.row .trouble:visible').innerText()]
    await page.route('**/batch', (route) =>
      route.fulfill({ status: 503, json: { code: 503, errno: 201, error: '', message: 'Try again later' } }),
    )
    await field(page, 'title').press('Enter')
    await page.locator('.row .trouble', { hasText: /503|later|not available/i }).waitFor()
    await page.unrouteAll()
    typed.push(await field(page, 'title').inputValue())
    const between = await outlineOf(other)
    await page.keyboard.press('Enter')
    await row(page, 'Kept').waitFor()

    expect(asked).toBe('token')
    expect(reasons[0]).toMatch(/token/)
    expect(typed).toEqual(['Kept', 'Kept'])
    expect(between).toEqual(before)
    expect(await outlineOf(other)).toContain('Kept')
  })

  it('of a bookmark that was deleted elsewhere says so, and what was typed stays', async () => {
    const { page, other } = await open('bookmarks')
    await change(page, 'Mail')
    await field(page, 'title').fill('Mine')
    await other.edit([{ op: 'remove', id: 'mail00000000' }])
    await page.keyboard.press('Enter')
    const trouble = await page.locator('#content > .card .trouble:visible').innerText()
    const typed = await page.locator('#content > .card input[name=title]').inputValue()
    await page.keyboard.press('Escape')

    expect(trouble).toBe('"Mail" does not exist any more')
    expect(typed).toBe('Mine')
    expect(await page.locator('.fields').count()).toBe(0)
  })
})

describe('a bridge that allows no writes', () => {
  it('shows no control that changes anything, and the space bar opens a folder', async () => {
    await using reader = await startTestBridge({ settings: { explorer_enabled: 'true' } })
    const user = addCollector(reader.sandbox, 'reader')
    const page = await browser.open(`${reader.url}/v1/explore`, { viewport: desk })
    await connectWith(page, linesFor(user))
    await isRead(page)
    const offered: number[] = []
    const controls = page.locator(
      '#edit-tools button:visible, .pick:visible, [draggable=true], .fields:visible, #changes:visible, #content button:visible',
    )
    for (const view of ['bookmarks', 'history', 'forms', 'duplicates']) {
      await choose(page, view)
      await page.locator('.row').first().waitFor()
      offered.push(await controls.count())
      await page.locator('.row a:not([target])').first().click()
      offered.push(await page.locator('#details-edit *').count())
      await page.keyboard.press('Escape')
      await page.locator('#details').waitFor({ state: 'hidden' })
    }
    await choose(page, 'bookmarks')
    await row(page, 'News').focus()
    for (const key of ['Delete', 'F2', 'Control+x', 'Control+v', ' ']) await page.keyboard.press(key)
    await row(page, 'Morning').waitFor()

    expect(offered).toEqual([0, 0, 0, 0, 0, 0, 0, 0])
  })
})

/** Whether the control has the focus, and its bar, which scrolls sideways, cuts nothing off. */
const isWholeInBar = (page: Page, id: string) =>
  page.evaluate((name) => {
    const control = document.activeElement!
    const [box, bar] = [control.getBoundingClientRect(), control.parentElement!.getBoundingClientRect()]
    return control.id === name && box.left >= bar.left && box.right <= bar.right
  }, id)

describe('the controls that change something', () => {
  // The narrowest of the wide layout, 768, has the names and colours of the widest, and axe takes most of the time.
  it.each([
    ['light', desk, accessibilityFaults],
    ['dark', { width: 768, height: 900 }, () => []],
    ['dark', { width: 320, height: 640 }, accessibilityFaults],
  ] as const)(
    'are accessible, %s %p: axe finds nothing at the widest and the narrowest, and each can be clicked',
    async (scheme, viewport, inspect) => {
      const { page } = await open('bookmarks', { scheme, viewport })
      const faults: string[] = []
      const look = async (name: string) => {
        const found = [...(await inspect(page)), ...(await coveredControls(page))]
        const width = await page.evaluate(() => document.documentElement.scrollWidth)
        if (width > viewport.width) found.push(`is ${width} pixels wide`)
        faults.push(...found.map((fault) => `${name}: ${fault}`))
      }
      const picture = process.env.PICTURES
      const take = async (name: string) =>
        picture && (await page.screenshot({ path: `${picture}/${name}-${viewport.width}.png` }))

      await row(page, 'Mail').locator('.pick').check()
      await row(page, 'Mail again').locator('.pick').check()
      await look('tree')
      await page.locator('#collapse').focus()
      for (const name of ['move', 'delete', 'new-bookmark', 'new-folder', 'new-separator']) {
        await page.keyboard.press('Tab')
        if (!(await isWholeInBar(page, name))) faults.push(`${name} has the focus and is cut off`)
      }
      await page.click('#move')
      await look('picker')
      await take('picker')
      await page.keyboard.press('Escape')
      await page.click('#new-bookmark')
      await page.keyboard.press('Enter')
      await page.locator('.row .trouble:visible').waitFor()
      await look('new bookmark')
      await take('new')
      await page.keyboard.press('Escape')
      await change(page, 'Mail')
      await look('change')
      await page.keyboard.press('Escape')
      await row(page, 'News').getByRole('link').click()
      await look('details')
      await take('details')
      await page.getByRole('button', { name: 'Delete', exact: true }).last().click()
      await isSaved(page, 'Deleted “News”')
      await look('change bar')
      await take('tree')
      await choose(page, 'duplicates')
      await page.locator('.row').first().waitFor()
      await look('duplicates')
      await take('duplicates')

      expect(faults).toEqual([])
    },
  )
})
