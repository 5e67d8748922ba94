import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import type { Page } from 'playwright-core'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { desk } from './browser.ts'
import {
  choose,
  download,
  fileFrom,
  focusedField,
  focusedText,
  formValues,
  connectWith,
  linesFor,
  isRead,
  lookFor,
  markup,
  startExplorer,
  detailsLinks,
  titles,
  type ExplorerWorld,
} from './explorer.ts'

let world: ExplorerWorld

beforeAll(async () => {
  world = await startExplorer({ history: 1100 })
})

afterEach(async () => expect(await world.browser.endPages()).toEqual([]))

afterAll(() => world?.stop())

/** Everything that a browser may store for a page, as text. */
async function keptBy(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const { navigation } = globalThis as unknown as { navigation: { entries(): { url: string }[] } }
    const addresses = navigation.entries().map(({ url }) => url)
    const storages = [localStorage, sessionStorage].map((storage) => Object.entries(storage))
    const others = [document.title, document.cookie, history.state, await indexedDB.databases()]
    return JSON.stringify([addresses, storages, others, await caches.keys()])
  })
}

const isFormShown = (page: Page) => page.locator('#connect:not([hidden])').waitFor()

describe('/v1/explore in Chromium', () => {
  it('reads pasted lines, and shows how much there is of everything', async () => {
    const page = await world.open()

    const counts = await page
      .locator('#nav a')
      .evaluateAll((all) =>
        Object.fromEntries(all.map((each) => each.textContent!.match(/^(.*?)([\d,]+)$/)!.slice(1))),
      )
    const address = page.url()
    const rows = await titles(page)
    await choose(page, 'devices')
    await page.locator('.device h2').first().waitFor()
    const devices = await page.locator('.device h2').allInnerTexts()

    expect(counts).toMatchObject({ History: '1,100', Unreadable: '1' })
    expect(Number(counts.Bookmarks)).toBeGreaterThan(250)
    expect(devices[0]).toBe('Desk computer')
    expect(counts['Devices & tabs']).toBe(String(devices.length))
    expect(address).toBe(`${world.url}#/bookmarks`)
    expect(rows.slice(0, 4)).toEqual(['Bookmarks Toolbar', 'News', 'Recipes', 'Programming'])
  })

  // `make bench` measures their size.
  it('consists of a page, a script and a stylesheet', async () => {
    const page = await world.browser.open(world.url)

    const files = await page.evaluate(() =>
      performance.getEntriesByType('resource').flatMap(({ name }) => /\/explore\/(.*)/.exec(name)?.[1] ?? []),
    )

    expect(files.toSorted()).toEqual(['explore.css', 'main.js'])
  })

  it('has an address for each view and each record, and Back and Forward work', async () => {
    const page = await world.look('bookmarks')
    const place = () => page.evaluate(() => `${location.hash} ${document.title}`)
    const shown = async () => [
      await place(),
      await page.locator('h1:visible').innerText(),
      await page.locator('#details').isVisible(),
    ]
    const seen: unknown[][] = []

    await choose(page, 'forms')
    await page.locator('.row-main').first().click()
    seen.push(await shown())
    await page.goBack()
    seen.push(await shown())
    await page.goBack()
    seen.push(await shown())
    await page.goForward()
    await page.goForward()
    seen.push(await shown())
    await page.keyboard.press('Escape')
    await page.waitForURL(/#\/forms$/)
    seen.push(await shown())
    await page.goForward()
    await page.click('#close-details')
    await page.waitForURL(/#\/forms$/)
    await page.goto(`${world.url}#/tabs/absent`)
    const absent = await page.locator('#status').innerText()
    seen.push(await shown())
    await page.goto(`${world.url}#/nowhere`)
    await page.waitForURL(/#\/bookmarks$/)
    const unknown = await page.locator('#status').innerText()
    seen.push(await shown())

    const title = 'Sync Bridge Explorer'
    const bookmarks = [`#/bookmarks Bookmarks · ${title}`, 'Bookmarks', false]
    const forms = [`#/forms Form entries · ${title}`, 'Form entries', false]
    const address = /^#\/forms\/\S{16,} Form entries · Sync Bridge Explorer$/
    const record = [expect.stringMatching(address), 'Form entries', true]
    const absentPlace = [`#/devices Devices & tabs · ${title}`, 'Devices & tabs', false]
    expect(seen).toEqual([record, forms, bookmarks, record, forms, absentPlace, bookmarks])
    expect(absent).toContain('no record absent')
    expect(unknown).toBe('Not in this account')
  })

  it('keeps its place through a reload, and the key if the user wants that', async () => {
    const { friend } = world
    const page = await world.open({ user: friend })
    const key = friend.syncKey.toString('hex')
    await choose(page, 'passwords')
    await detailsLinks(page).first().click()
    const address = page.url()

    await page.reload()
    await isFormShown(page)
    const untickedKept = await keptBy(page)
    const filled = (await formValues(page)).map((value) => value !== '')
    const focused = await focusedField(page)
    await page.keyboard.insertText(key)
    await page.locator('#credentials [data-keeps-key]').check()
    await page.keyboard.press('Enter')
    await page.locator('#details[open]').waitFor()
    await page.reload()
    await page.locator('#details[open]').waitFor()
    const places = [address, page.url()]
    const tickedKept = await keptBy(page)
    await page.keyboard.press('Escape')
    // The page moves the focus once the record has closed, which is later.
    await page.locator(':focus:not(#details *)').waitFor()
    const afterRecord = await focusedText(page)
    await page.locator('.keep input').uncheck()
    const takenBack = await keptBy(page)
    await page.locator('.keep input').check()
    await page.click('#leave')
    const left = await keptBy(page)
    const tags = await page.locator('#tag option').allTextContents()
    await page.reload()
    await isFormShown(page)
    const [empty] = await formValues(page)

    expect(filled).toEqual([true, true, true, false])
    expect([focused, afterRecord]).toEqual(['syncKey', 'Passwords'])
    expect(places[1]).toBe(places[0]!)
    const isKept = [untickedKept, tickedKept, takenBack].map((kept) => kept.includes(key))
    expect(isKept).toEqual([false, true, false])
    expect(left).not.toContain(friend.keyId)
    expect(left).not.toContain(key)
    expect([empty, tags]).toEqual(['', ['any']])
  })

  it('opens an account in a tab in which another one was open', async () => {
    const { sandbox } = world.bridge
    const other = sandbox.addUser('linked')
    fillSampleData(sandbox, other, { bookmarks: 40, history: 12 })
    const page = await world.open({ user: world.friend })

    await page.goto('about:blank')
    await page.goto(world.url)
    await connectWith(page, linesFor(other))
    await page.locator('[data-view=history] small', { hasText: /^12$/ }).waitFor()
    const kept = await keptBy(page)

    expect(kept).toContain(other.keyId)
    expect(kept).not.toContain(other.syncKey.toString('hex'))
  })

  it('shows titles with markup unchanged, and links only to the web', async () => {
    const page = await world.look('bookmarks')
    await lookFor(page, '<img src=x')
    await detailsLinks(page).first().click()
    const heading = await page.locator('#details-title').innerText()
    await page.keyboard.press('Escape')
    await lookFor(page, 'script')
    await page.locator('.row-title', { hasText: 'A script' }).waitFor()
    const links = await page
      .locator('#view a')
      .evaluateAll((all) => all.map((each) => (each as HTMLAnchorElement).getAttribute('href')!))
    const rows = await titles(page)
    const executed = await page.evaluate(() => (globalThis as { executed?: number }).executed)
    const images = await page.locator('img').count()

    expect(heading).toBe(markup)
    expect(rows).toContain('A script')
    expect(links.filter((link) => !/^(https?:\/\/|#\/)/.test(link))).toEqual([])
    expect(links).toContain('#/bookmarks/scriptscript')
    expect([executed, images]).toEqual([undefined, 0])
  })

  it('hides passwords until the user reveals one', async () => {
    const page = await world.look('passwords')

    const hidden = await page.locator('#view').innerText()
    await page.getByRole('button', { name: /^Show the password of .* at mail\.example\.com$/ }).click()
    const row = page.locator('.row', { hasText: 'mail.example.com' })
    const revealed = await row.locator('.secret').innerText()
    await detailsLinks(page).first().click()
    await page.click('#details summary')
    const details = await page.locator('#details').innerText()
    await page.getByRole('button', { name: 'Show what is hidden' }).click()
    const opened = await page.locator('#details').innerText()

    expect(hidden).not.toContain('not-a-secret')
    expect(revealed).toStartWith('not-a-secret')
    expect(details).not.toContain('not-a-secret')
    expect(opened).toContain('not-a-secret')
  })

  it('shows a record both as stored and decrypted', async () => {
    const page = await world.look('history')
    await detailsLinks(page).first().click()

    const [folded] = await page.locator('.sides section').allInnerTexts()
    await page.click('#details summary')
    const [fields, wire] = await page.locator('.sides section').allInnerTexts()

    expect(fields).toMatch(/Address\n+https:/)
    expect(fields).toMatch(/Visited\n+\w+ \d+, 20\d\d/)
    expect(folded).not.toContain('histUri')
    expect(fields).toContain('"histUri": "https://')
    expect(wire).toContain(`GET /v1/buckets/${world.bridge.user.clientState}/collections/history/records/`)
    expect(wire).toContain('"ciphertext"')
    expect(wire).not.toContain('https://')
  })

  it('searches all views, and says where the matches are', async () => {
    const page = await world.look('bookmarks')
    await page.keyboard.press('/')
    await page.keyboard.type('A script')
    await page.locator('.row-title', { hasText: /^A script$/ }).waitFor()
    const scripts = await titles(page)

    await lookFor(page, 'bread recipes')
    await page.locator('#view .tree, #view .list').first().waitFor()
    const [byFolder] = await titles(page)
    const elsewhere = await lookFor(page, 'recipe tide')
    const here = await page.locator('#view .nothing').innerText()
    await lookFor(page, 'tables TIDE')
    await page.locator('.elsewhere .row-title').first().waitFor()
    const below = await page.locator('.elsewhere .row-title').allInnerTexts()
    await page.locator('#found a', { hasText: '1 in Form entries' }).click()
    const [there, place] = [await lookFor(page, 'tide tables'), new URL(page.url()).hash]

    expect(scripts).toContain('A script')
    expect(byFolder).toBe('Bread')
    expect(elsewhere).toEqual(['found nowhere'])
    expect(here).toBe('No match for “recipe tide” in Bookmarks.')
    expect(below).toEqual(['tide tables'])
    expect([place, ...there]).toEqual(['#/forms', '1 here'])
  })

  it('sorts lists by title, address and date, and shows the bookmarks with a tag', async () => {
    const page = await world.look('bookmarks')
    const sortBy = async (order: string) => {
      await page.selectOption('#order', order)
      await page.locator('.list .row').first().waitFor()
      return page
        .locator('.list .row-title')
        .evaluateAll((all) => all.slice(0, 20).map((each) => each.textContent!))
    }
    const count = () => page.locator('[data-view=bookmarks] small').innerText()
    const all = await count()

    const byTitle = await sortBy('title')
    const isSame = (await count()) === all
    await choose(page, 'history')
    const pages = await page.locator('[data-view=history] small').innerText()
    const headings = await page.locator('.list h2').count()
    await choose(page, 'bookmarks')
    await page.selectOption('#order', '')
    await page.selectOption('#tag', 'todo')
    await page.locator('[data-view=bookmarks] small', { hasNotText: all }).waitFor()
    const [option] = await page.locator('#tag option:checked').allInnerTexts()
    const tagged = await page.locator('.list .row-subtitle').allInnerTexts()
    const told = await count()

    const collator = new Intl.Collator(undefined, { numeric: true })
    expect(byTitle).toEqual(byTitle.toSorted(collator.compare))
    expect([isSame, pages, headings]).toEqual([true, '1,100', 0])
    expect(option).toBe(`todo (${told})`)
    expect(tagged.every((text) => text.includes('#todo'))).toBe(true)
  })

  it('shows titles where records have ids, and copies displayed values', async () => {
    const page = await world.look('bookmarks')
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await detailsLinks(page).nth(2).click()
    const folder = await page.locator('#details-title').innerText()
    const inside = page.locator('#details li a')
    const [first] = await inside.allInnerTexts()
    await inside.first().click()
    await page.locator('#details-title', { hasText: first! }).waitFor()
    const parent = await page.locator('#details-fields dd a', { hasText: folder }).count()
    await page.goBack()
    await page.locator('#details-title', { hasText: folder }).waitFor()
    await page.keyboard.press('Escape')
    await lookFor(page, 'b-tree wiki')
    await detailsLinks(page).first().click()
    await page.getByRole('button', { name: 'Copy: Address' }).click()
    const copied = await page.evaluate(() => navigator.clipboard.readText())

    expect(folder).toBe('Recipes')
    expect(first).toMatch(/\w{3}/)
    expect(parent).toBe(1)
    expect(copied).toBe('https://en.wikipedia.org/wiki/B-tree')
  })

  it('counts and lists undecryptable records', async () => {
    const page = await world.look('bookmarks')

    const notice = await page.locator('#view .notice').innerText()
    await page.getByRole('button', { name: 'Which?' }).click()
    const listed = await page.locator('.row').innerText()

    expect(notice).toContain('1 record here')
    expect(listed).toContain('foreignrecor')
    expect(listed).toContain('Its content belongs to another id')
  })

  it('saves everything as JSON, bookmarks as the file that browsers import, and history as a table', async () => {
    const page = await world.look('bookmarks')

    const everything = await download(page, '#save-everything')
    const bookmarks = await download(page, '#save-bookmarks')
    const told = await page.locator('#status').innerText()
    const history = await download(page, '#save-history')

    const { collections, unreadable } = JSON.parse(everything.text)
    expect([everything.name, bookmarks.name]).toEqual(['firefox-sync.json', 'bookmarks.html'])
    expect(told).toBe('Saved bookmarks.html, without what could not be read')
    expect([history.name, history.text.split('\r\n')[0]]).toEqual([
      'history.csv',
      '"visited","kind","url","title"',
    ])
    expect(history.text.match(/\r\n/g)!.length).toBeGreaterThan(1100)
    expect(collections.history).toHaveLength(1100)
    expect(collections.crypto).toBeUndefined()
    expect(unreadable).toMatchObject([{ collection: 'bookmarks', id: 'foreignrecor' }])
    expect(bookmarks.text).toStartWith('<!DOCTYPE NETSCAPE-Bookmark-file-1>')
    expect(bookmarks.text).toContain('PERSONAL_TOOLBAR_FOLDER="true"')
    expect(bookmarks.text).toContain('>&lt;img src=x onerror=')
    expect(bookmarks.text.match(/<DL>/g)).toHaveLength(bookmarks.text.match(/<\/DL>/g)!.length)
  })

  it('saves passwords as Firefox imports them, after a warning that can be cancelled', async () => {
    const page = await world.look('bookmarks')
    let saved = 0
    page.on('download', () => (saved += 1))
    const warn = async () => {
      await page.click('#download')
      await page.click('#warn-of-passwords')
    }

    await warn()
    const warning = await page.locator('#warning').innerText()
    await page.keyboard.press('Enter')
    await warn()
    await page.keyboard.press('Escape')
    const isOpen = await page.locator('#warning').isVisible()
    const savedBefore = saved
    await warn()
    const { name, text } = await fileFrom(page, '#save-passwords')

    expect(warning).toContain('It is not encrypted')
    expect([isOpen, savedBefore]).toEqual([false, 0])
    expect(name).toBe('passwords.csv')
    expect(text).toMatch(/^"url","username","password",.*\r\n"https:.*"not-a-secret/)
    expect(text.trimEnd().split('\r\n')).toHaveLength(5)
  })

  it('shows what to do when the token has expired', async () => {
    const { user } = world.bridge
    const page = await world.browser.open(world.url, { viewport: desk, mayFail: true })
    await connectWith(page, linesFor(user, user.bearerToken({ expiresInSeconds: -60 })))
    await page.locator('#trouble:not([hidden])').waitFor()

    const advice = await page.locator('#trouble').innerText()
    const focused = await focusedField(page)
    await page.keyboard.insertText(world.bridge.user.bearerToken())
    await page.keyboard.press('Enter')
    await isRead(page)
    const afterForm = await focusedText(page)
    await page.$eval('input[name=token]', (token) => ((token as HTMLInputElement).value = 'expired'))
    await page.click('#refresh')
    await page.click('#back')
    const afterBack = await focusedText(page)
    const kept = await page.locator('#nav').innerText()

    expect(kept).toContain('1,100')
    expect(advice).toContain('Get a new one')
    expect(focused).toBe('token')
    expect([afterForm, afterBack]).toEqual(['Bookmarks', 'Bookmarks'])
  })

  it('shows what it could read when the storage fails for a collection, and retries', async () => {
    const { sandbox } = world.bridge
    await using proxy = await startFaultProxy({ target: sandbox.storageUrl })
    const node = sandbox.switches.nodeUrl
    sandbox.switches.nodeUrl = proxy.url
    proxy.plan(({ path }) => (path.includes('/storage/forms') ? { kind: 'status', status: 503 } : null))
    const page = await world.open({ user: world.friend, mayFail: true })

    await choose(page, 'bookmarks')
    await page.locator('.row').first().waitFor()
    const bookmarks = await page.locator('.row').count()
    await choose(page, 'forms')
    const view = await page.locator('#view').innerText()
    const count = await page.locator('[data-view=forms] small').innerText()
    const found = await lookFor(page, 'something')
    const { text } = await download(page, '#save-everything')
    const told = await page.locator('#status').innerText()
    await page.fill('#search', '')
    proxy.plan(() => null)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('.row').first().waitFor()
    sandbox.switches.nodeUrl = node

    expect(bookmarks).toBeGreaterThan(0)
    expect(view).toContain('Form entries could not be read. ')
    expect(view).not.toContain('There are no form entries')
    expect(count).toBe('could not be read')
    expect(found).toContain('Form entries could not be read')
    expect(told).toBe('Saved firefox-sync.json, without what could not be read')
    expect(JSON.parse(text).incomplete).toEqual({ forms: expect.stringMatching(/\w/) })
  })

  it('stays at a record that was not read yet when the token expired', async () => {
    const { user } = world.bridge
    const page = await world.browser.open(world.url, { mayFail: true, isOwnTab: true })
    await page.route(/history\/records\?.*_token/, (route) => route.fulfill({ status: 401 }))
    const kept = { token: user.bearerToken(), keyId: user.keyId, syncKey: user.syncKey.toString('hex') }
    await page.evaluate((values) => {
      sessionStorage.setItem('sync-bridge-explorer', JSON.stringify(values))
      location.hash = '#/history/not-read-yet'
    }, kept)
    // Content of the next frame has been drawn when the form appears.
    await page.addInitScript(() => {
      const waiting: (() => void)[] = []
      Object.assign(globalThis, {
        requestAnimationFrame: (draw: () => void) => waiting.push(draw),
        drawFrame: () => waiting.splice(0).map((draw) => draw()).length,
      })
    })

    await page.reload()
    await page.locator('#trouble:not([hidden])').waitFor()
    const drawn = await page.evaluate(() => (globalThis as unknown as { drawFrame(): number }).drawFrame())

    expect(drawn).toBeGreaterThan(0)
    expect(page.url()).toBe(`${world.url}#/history/not-read-yet`)
  })

  it('shows the form, and no record over it, when the token expires during a read, and what is incomplete', async () => {
    const { sandbox, user } = world.bridge
    const page = await world.browser.open(world.url, { viewport: desk, mayFail: true })
    const nextPage = /history\/records\?.*_token/
    const isSeen = Promise.withResolvers<void>()
    await page.route(nextPage, async (route) => {
      await isSeen.promise
      const body = JSON.stringify({ code: 401, errno: 105, error: 'Unauthorized', message: 'It has ended' })
      await route.fulfill({ status: 401, contentType: 'application/json', body })
    })

    await connectWith(page, linesFor(user))
    await page.locator('#content a[href="#/bookmarks/toolbar"]').click()
    await page.locator('#details[open]').waitFor()
    isSeen.resolve()
    await page.locator('#trouble:not([hidden])').waitFor()
    const focused = await focusedField(page)
    const isOverForm = await page.locator('#details').isVisible()
    await page.click('#back')
    await isRead(page)
    await page.locator('#details[open]').waitFor()
    const address = page.url()
    await page.keyboard.press('Escape')
    await choose(page, 'history')
    const notice = await page.locator('#view .notice').innerText()
    const count = await page.locator('[data-view=history] small').innerText()
    const isBusy = await page.locator('#view').getAttribute('aria-busy')
    const { text } = await download(page, '#save-everything')
    const told = await page.locator('#status').innerText()

    const { collections, incomplete } = JSON.parse(text)
    expect([focused, isOverForm]).toEqual(['token', false])
    expect(address).toBe(`${world.url}#/bookmarks/toolbar`)
    expect(notice).toStartWith('Not all of History could be read. Reading was stopped.')
    expect([count, isBusy]).toEqual(['1,000+', 'false'])
    expect(collections.history.length).toBeLessThan(sandbox.records(user, 'history').length)
    expect(incomplete).toMatchObject({ history: 'Reading was stopped.' })
    expect(told).toBe('Saved firefox-sync.json, without what could not be read')
  })

  it('suggests an address that works where the browser does not decrypt', async () => {
    const url = world.url.replace('127.0.0.1', 'nas.test')
    const page = await world.browser.open(url, { viewport: desk })
    await connectWith(page, linesFor(world.bridge.user))
    await page.locator('#trouble:not([hidden])').waitFor()

    const advice = await page.locator('#trouble').innerText()
    await page.click('.recipe summary')
    await page.click('#copy-recipe')
    const told = await page.locator('#status').innerText()

    expect(advice).toContain('https, 127.0.0.1 or localhost: open this page at such an address')
    expect(told).toBe('This browser does not allow copying')
  })

  it('shows an error next to the field that it concerns', async () => {
    const page = await world.browser.open(world.url, { viewport: desk, mayFail: true })
    const lines = linesFor(world.bridge.user)
    const stranger = world.bridge.sandbox.addUser('stranger')
    const wrongLines = [
      lines.replace(/BUCKET=../, 'BUCKET=00'),
      lines.replace('BEARER_TOKEN=ey', 'BEARER_TOKEN=€y'),
      lines.replace(/BEARER_TOKEN=.+/, `BEARER_TOKEN=${stranger.bearerToken()}`),
      lines.replace(/SYNC_KEY=../, 'SYNC_KEY=00'),
    ]
    const told: unknown[] = []
    for (const wrong of wrongLines) {
      await page.evaluate(() => (document.getElementById('trouble')!.hidden = true))
      await connectWith(page, wrong)
      await page.locator('#trouble:not([hidden])').waitFor()
      told.push(
        await page.evaluate(() => {
          const wrong = document.querySelectorAll<HTMLInputElement>('[aria-invalid]')
          const trouble = document.querySelector('#trouble')!
          const isBeside = trouble.previousElementSibling!.contains(wrong[0]!)
          return [...wrong].map(({ name }) => [name, isBeside, document.activeElement === wrong[0]])
        }),
      )
    }
    const advice = await page.locator('#trouble').innerText()

    expect(told).toEqual(['bucket', 'token', 'token', 'syncKey'].map((name) => [[name, true, true]]))
    expect(advice).toContain('does not decrypt the account')
  })
})
