import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import {
  collectionKeys,
  decryptRecord,
  encryptRecord,
  keyPairFromHex,
} from '../../docs/examples/sync-crypto.js'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge } from '../support/bridge.ts'
import type { TestBridge } from '../support/bridge.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { endAll, start } from '../system/process.ts'
import { startBrowser } from './browser.ts'
import type { TestBrowser, Viewport, WatchedPage } from './browser.ts'

const root = join(import.meta.dir, '../..')
// The picture of the README is made anew with README_IMAGES=1 only: it would differ a little each time.
const images = join(root, process.env.README_IMAGES ? 'docs/images' : 'dist/screenshots')
const screenshots = join(root, 'dist/screenshots')
const desk: Viewport = { width: 1280, height: 860 }
const phone: Viewport = { width: 390, height: 844 }
const markup = '<img src=x onerror="globalThis.executed = 1"><script>globalThis.executed = 2</script>'

let bridge: TestBridge
let browser: TestBrowser

beforeAll(async () => {
  bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
  fillSampleData(bridge.sandbox, bridge.user)
  await addUnusualBookmarks()
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.stop()
  await bridge?.stop()
  await endAll()
})

/** One that nobody can read, one whose title is markup, and one with an address that must not become a link. */
async function addUnusualBookmarks(): Promise<void> {
  const { sandbox, user } = bridge
  const [keys] = sandbox.records(user, 'crypto')
  const keysOf = await collectionKeys(keyPairFromHex(user.syncKey.toString('hex')), keys!)
  const keyPair = keysOf('bookmarks')
  const stored = sandbox.records(user, 'bookmarks').find(({ id }) => id === 'unfiled')!
  const folder = await decryptRecord(keyPair, stored)
  const made = [
    { id: 'markupmarkup', title: markup, bmkUri: 'https://markup.example.org/' },
    { id: 'scriptscript', title: 'A script', bmkUri: 'javascript:globalThis.executed=3' },
  ].map((bookmark) => ({ ...bookmark, type: 'bookmark', parentid: 'unfiled' }))
  const children = [...made.map(({ id }) => id), ...(folder.children as string[])]
  const clear = [...made, { ...folder, children }]
  const records = clear.map(async (record) => ({
    id: record.id,
    payload: await encryptRecord(keyPair, record),
  }))
  sandbox.write(user, 'bookmarks', [
    ...(await Promise.all(records)),
    { id: 'foreignrecor', payload: stored.payload },
  ])
}

function fragment(user = bridge.user, token = user.bearerToken()): string {
  const { clientState, keyId, syncKey } = user
  return `#BUCKET=${clientState}&KEY_ID=${keyId}&BEARER_TOKEN=${token}&SYNC_KEY=${syncKey.toString('hex')}`
}

async function openExplorer(
  viewport: Viewport = desk,
  scheme: 'light' | 'dark' = 'light',
): Promise<WatchedPage> {
  const watched = await browser.open(viewport)
  await watched.page.emulateMedia({ colorScheme: scheme })
  await watched.page.goto(`${bridge.url}/v1/explore${fragment()}`)
  await isRead(watched.page)
  return watched
}

/** Waits until everything is read. */
async function isRead(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const counts = [...document.querySelectorAll('#nav small')]
    return counts.length > 6 && counts.every(({ textContent }) => textContent !== '…')
  })
}

const choose = (page: Page, view: string) => page.click(`[data-view=${view}]`)

function titles(page: Page): Promise<string[]> {
  return page.locator('.row-title').allInnerTexts()
}

async function download(page: Page, button: string): Promise<{ name: string; text: string }> {
  await page.click('#download summary')
  const [file] = await Promise.all([page.waitForEvent('download'), page.click(button)])
  return { name: file.suggestedFilename(), text: await Bun.file((await file.path())!).text() }
}

describe('`make run` and one click', () => {
  it('show a newcomer a bookmark that can be read', async () => {
    const sandbox = start(['sandbox', '--port', '0'])
    const [, link] = await sandbox.line(/^ {2}(http\S+\/v1\/explore#\S+)$/)

    const { page, errors, requested } = await browser.open(desk)
    await page.goto(link!)
    await isRead(page)
    await choose(page, 'bookmarks')
    const [first] = await titles(page)
    await page.screenshot({ path: join(images, 'explorer.png') })
    await page.close()
    sandbox.signal('SIGTERM')
    await sandbox.exited

    expect(first).toMatch(/\w{3}/)
    expect(errors).toEqual([])
    expect(requested.filter((url) => new URL(url).origin !== new URL(link!).origin)).toEqual([])
  })
})

describe('/v1/explore in Chromium', () => {
  it('takes what the link holds, out of sight, and shows how much there is of everything', async () => {
    const { page, errors, requested } = await openExplorer()

    const counts = await page
      .locator('#nav button')
      .evaluateAll((all) =>
        Object.fromEntries(all.map((each) => each.textContent!.match(/^(.*?)([\d,]+)$/)!.slice(1))),
      )
    const devices = await page.locator('.device h2').allInnerTexts()
    const address = page.url()
    const stored = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie])
    await page.screenshot({ path: join(screenshots, 'explore-devices.png') })
    await page.close()

    expect(counts).toMatchObject({ History: '3,000', Unreadable: '1' })
    expect(Number(counts.Bookmarks)).toBeGreaterThan(250)
    expect(devices).toContain('Desk computer')
    expect(counts['Devices & tabs']).toBe(String(devices.length))
    expect(address).toBe(`${bridge.url}/v1/explore`)
    expect(stored).toEqual([0, 0, ''])
    expect(errors).toEqual([])
    expect(requested.filter((url) => !url.startsWith(`${bridge.url}/v1/`))).toEqual([])
    expect(requested.some((url) => /SYNC_KEY|BEARER/.test(url))).toBe(false)
  })

  it('is made of a few files that are less than 60 KB together', async () => {
    const { page } = await openExplorer()

    const { bytes, count } = await page.evaluate(() => {
      const navigation = performance.getEntriesByType('navigation') as PerformanceResourceTiming[]
      const files = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
      const own = files.filter(({ name }) => name.includes('/explore/'))
      const bytes = [...navigation, ...own].reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0)
      return { bytes, count: own.length }
    })
    await page.close()

    expect(count).toBe(7)
    expect(bytes).toBeGreaterThan(20_000)
    expect(bytes).toBeLessThan(60_000)
  })

  it('shows bookmarks as a tree, and opens folders with the keyboard', async () => {
    const { page, errors } = await openExplorer()
    await choose(page, 'bookmarks')

    const roots = await page.locator('.tree > details > summary > span').allInnerTexts()
    const closed = page.locator('.branch details:not([open])').first()
    const before = await page.locator('.row').count()
    await closed.locator('summary').focus()
    await page.keyboard.press('Enter')
    await page.waitForFunction((count) => document.querySelectorAll('.row').length > count, before)
    await page.keyboard.press('ArrowDown')
    const focused = await page.evaluate(() => document.activeElement?.hasAttribute('data-row'))
    await page.close()

    expect(roots).toContain('Bookmarks Toolbar')
    expect(roots).toContain('Other Bookmarks')
    expect(focused).toBe(true)
    expect(errors).toEqual([])
  })

  it('shows titles with markup as they are, and links to the web only', async () => {
    const { page, errors } = await openExplorer()
    await choose(page, 'bookmarks')
    const markupRow = page.locator('.row', { hasText: '<img src=x' })
    await markupRow.locator('.row-main').click()
    const heading = await page.locator('#details-title').innerText()
    await page.keyboard.press('Escape')
    const links = await page
      .locator('#view a')
      .evaluateAll((all) => all.map((each) => (each as HTMLAnchorElement).href))
    const rows = await titles(page)
    const executed = await page.evaluate(() => (globalThis as { executed?: number }).executed)
    const images = await page.locator('img').count()
    await page.close()

    expect(heading).toBe(markup)
    expect(rows).toContain('A script')
    expect(links.filter((link) => !/^https?:/.test(link))).toEqual([])
    expect([executed, images]).toEqual([undefined, 0])
    expect(errors).toEqual([])
  })

  it('scrolls through 3 000 pages of history with a few hundred rows at a time', async () => {
    const { page, errors } = await openExplorer()
    await choose(page, 'history')

    const days = await page.locator('.list h2').count()
    const height = await page.evaluate(() => document.documentElement.scrollHeight)
    const atTop = await page.locator('.row').count()
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight))
    await page.waitForFunction(() => {
      const all = [...document.querySelectorAll('.rows')]
      return all.at(-1)!.childElementCount > 0
    })
    const atEnd = await page.locator('.row').count()
    await page.screenshot({ path: join(screenshots, 'explore-history-end.png') })
    await page.close()

    expect(days).toBeGreaterThan(20)
    expect(height).toBeGreaterThan(3000 * 50)
    expect(atTop).toBeLessThan(400)
    expect(atEnd).toBeLessThan(1000)
    expect(errors).toEqual([])
  })

  it('hides passwords until somebody wants to see one', async () => {
    const { page } = await openExplorer()
    await choose(page, 'passwords')

    const hidden = await page.locator('#view').innerText()
    await page.getByRole('button', { name: /^Show the password of .* at mail\.example\.com$/ }).click()
    const revealed = await page
      .locator('.row', { hasText: 'mail.example.com' })
      .locator('.secret')
      .innerText()
    await page.locator('.row', { hasText: 'forum.example.net' }).locator('.row-main').click()
    const details = await page.locator('#details').innerText()
    await page.getByRole('button', { name: 'Show what is hidden' }).click()
    const opened = await page.locator('#details').innerText()
    await page.close()

    expect(hidden).not.toContain('not-a-secret')
    expect(revealed).toStartWith('not-a-secret')
    expect(details).not.toContain('not-a-secret')
    expect(opened).toContain('not-a-secret')
  })

  it('shows a record as it travels beside what it means', async () => {
    const { page } = await openExplorer()
    await choose(page, 'history')
    await page.locator('.row-main').first().click()

    const [meaning, wire] = await page.locator('.sides section').allInnerTexts()
    await page.screenshot({ path: join(screenshots, 'explore-details.png') })
    await page.close()

    expect(meaning).toMatch(/Address\n+https:/)
    expect(meaning).toMatch(/Visited\n+\w+ \d+, 20\d\d/)
    expect(meaning).toContain('"histUri": "https://')
    expect(wire).toContain(`GET /v1/buckets/${bridge.user.clientState}/collections/history/records/`)
    expect(wire).toContain('"ciphertext"')
    expect(wire).not.toContain('https://')
  })

  it('finds what somebody types, in everything at once', async () => {
    const { page } = await openExplorer()
    await choose(page, 'bookmarks')
    await page.keyboard.press('/')
    await page.keyboard.type('A script')
    const only = await page.waitForFunction(() => {
      const rows = [...document.querySelectorAll('.row-title')].map(({ textContent }) => textContent)
      return rows.length === 1 && rows
    })
    const found = await only.jsonValue()

    await page.fill('#search', 'no such thing anywhere')
    const nothing = await page.locator('#view .nothing', { hasText: 'no such' }).innerText()
    await page.close()

    expect(found).toEqual(['A script'])
    expect(nothing).toContain('no such thing anywhere')
  })

  it('counts and lists what cannot be read', async () => {
    const { page } = await openExplorer()
    await choose(page, 'bookmarks')

    const notice = await page.locator('.notice').innerText()
    await page.getByRole('button', { name: 'Which?' }).click()
    const listed = await page.locator('.row').innerText()
    await page.close()

    expect(notice).toContain('1 record here')
    expect(listed).toContain('foreignrecor')
    expect(listed).toContain('Its content belongs to another id')
  })

  it('saves everything as JSON, and bookmarks as the file that browsers import', async () => {
    const { page } = await openExplorer()

    const everything = await download(page, '#save-everything')
    const bookmarks = await download(page, '#save-bookmarks')
    await page.close()

    const { collections, unreadable } = JSON.parse(everything.text)
    expect([everything.name, bookmarks.name]).toEqual(['firefox-sync.json', 'bookmarks.html'])
    expect(collections.history).toHaveLength(3000)
    expect(collections.crypto).toBeUndefined()
    expect(unreadable).toMatchObject([{ collection: 'bookmarks', id: 'foreignrecor' }])
    expect(bookmarks.text).toStartWith('<!DOCTYPE NETSCAPE-Bookmark-file-1>')
    expect(bookmarks.text).toContain('PERSONAL_TOOLBAR_FOLDER="true"')
    expect(bookmarks.text).toContain('>&lt;img src=x onerror=')
    expect(bookmarks.text.match(/<DL>/g)).toHaveLength(bookmarks.text.match(/<\/DL>/g)!.length)
  })

  it('shows a clear way on when the token has expired', async () => {
    const { page } = await browser.open(desk)
    await page.goto(
      `${bridge.url}/v1/explore${fragment(bridge.user, bridge.user.bearerToken({ expiresInSeconds: -60 }))}`,
    )
    await page.locator('#trouble:not([hidden])').waitFor()

    const advice = await page.locator('#trouble').innerText()
    const focused = await page.evaluate(() => document.activeElement?.getAttribute('name'))
    await page.screenshot({ path: join(screenshots, 'explore-expired.png') })
    await page.keyboard.type(bridge.user.bearerToken())
    await page.keyboard.press('Enter')
    await isRead(page)
    await page.evaluate(() => {
      const token = document.querySelector<HTMLInputElement>('input[name=token]')!
      token.value = 'expired'
    })
    await page.click('#refresh')
    await page.click('#back')
    const kept = await page.locator('#nav').innerText()
    await page.close()

    expect(kept).toContain('3,000')
    expect(advice).toContain('get a new one')
    expect(focused).toBe('token')
  })

  it('shows what it could read when the storage fails for a collection, and reads that again', async () => {
    const friend = bridge.sandbox.addUser('friend')
    fillSampleData(bridge.sandbox, friend, { bookmarks: 40, history: 10 })
    const proxy = await startFaultProxy({ target: bridge.sandbox.storageUrl })
    const node = bridge.sandbox.switches.nodeUrl
    bridge.sandbox.switches.nodeUrl = proxy.url
    let isWell = false
    proxy.plan(({ path }) =>
      path.includes('/storage/forms') && !isWell ? { kind: 'status', status: 503 } : null,
    )
    const { page } = await browser.open(desk)
    await page.goto(`${bridge.url}/v1/explore${fragment(friend)}`)
    await isRead(page)

    await choose(page, 'bookmarks')
    const bookmarks = await page.locator('.row').count()
    await choose(page, 'forms')
    const notice = await page.locator('.notice').innerText()
    isWell = true
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('.row').first().waitFor()
    await page.close()
    bridge.sandbox.switches.nodeUrl = node
    await proxy.stop()

    expect(bookmarks).toBeGreaterThan(0)
    expect(notice).toContain('Not everything could be read')
  })

  it('tells what contradicts itself, in which no other token would help', async () => {
    const { page } = await browser.open(desk)
    await page.goto(`${bridge.url}/v1/explore${fragment().replace(/BUCKET=../, 'BUCKET=00')}`)
    await page.locator('#trouble:not([hidden])').waitFor()

    const advice = await page.locator('#trouble').innerText()
    await page.close()

    expect(advice).toContain('names another client state than the bucket id')
  })

  it('tells when the key is another one, and takes all four values in one paste', async () => {
    const { page } = await browser.open(desk)
    await page.goto(`${bridge.url}/v1/explore`)
    const paste = (text: string) =>
      page.evaluate((pasted) => {
        const clipboardData = new DataTransfer()
        clipboardData.setData('text', pasted)
        const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })
        document.querySelector('input[name=token]')!.dispatchEvent(event)
      }, text)
    const lines = fragment().slice(1).replaceAll('&', '\n')

    await paste(lines.replace(/SYNC_KEY=.*/, `SYNC_KEY=${'00'.repeat(64)}`))
    await page.click('#open')
    await page.locator('#trouble:not([hidden])').waitFor()
    const advice = await page.locator('#trouble').innerText()
    await paste(lines)
    await page.click('#open')
    await isRead(page)
    await page.click('#leave')
    const left = await page
      .locator('#credentials input')
      .evaluateAll((all) => all.map((each) => (each as HTMLInputElement).value))
    await page.close()

    expect(advice).toContain('does not open the account')
    expect(left).toEqual(['', '', '', ''])
  })

  it('fits a phone, in the dark', async () => {
    const { page, errors } = await openExplorer(phone, 'dark')
    const widths: number[] = []
    for (const view of ['devices', 'bookmarks', 'history', 'passwords', 'prefs', 'unreadable']) {
      await choose(page, view)
      await page.screenshot({ path: join(screenshots, `explore-phone-${view}.png`) })
      widths.push(await page.evaluate(() => document.documentElement.scrollWidth))
    }
    const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
    const small = await page
      .locator('button:visible, a:visible')
      .evaluateAll((all) => all.filter((each) => Math.min(each.clientWidth, each.clientHeight) < 24).length)
    await page.close()

    expect(widths).toEqual(Array(6).fill(phone.width))
    expect(background).toBe('rgb(19, 18, 23)')
    expect(small).toBe(0)
    expect(errors).toEqual([])
  })

  it('gives every control a name', async () => {
    const { page } = await openExplorer()
    const nameless: string[] = []
    for (const view of ['devices', 'bookmarks', 'history', 'passwords']) {
      await choose(page, view)
      nameless.push(
        ...(await page
          .locator('button, a, input, summary')
          .evaluateAll((all) =>
            all
              .filter(
                (each) =>
                  !each.textContent?.trim() && !each.getAttribute('aria-label') && !each.closest('label'),
              )
              .map((each) => each.outerHTML.slice(0, 100)),
          )),
      )
    }
    const ids = await page.locator('[id]').evaluateAll((all) => all.map(({ id }) => id))
    await page.close()

    expect(nameless).toEqual([])
    expect(ids.length).toBe(new Set(ids).size)
  })
})
