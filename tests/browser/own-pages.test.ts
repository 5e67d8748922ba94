import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { startLinks, type Links } from '../../src/cli/links.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { accountFile, valuesOf } from '../cli/data/world.ts'
import { testHost, startTestBridge, type TestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, start } from '../support/executable.ts'
import { desk, startBrowser, type TestBrowser } from './browser.ts'
import { addCollector, clientOf, outlineOf } from './collector.ts'
import { choose, isRead, titles } from './explorer.ts'

let bridge: TestBridge
let browser: TestBrowser
let links: Links
let nowMs = 0

beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['scratch'], settings: { docs_enabled: 'true' } })
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 20, history: 10 })
  browser = await startBrowser()
  const host = testHost({ monotonicNow: () => nowMs })
  links = startLinks({ bridgeUrl: bridge.url, port: 0, writable: new Set(['scratch']) }, host)
})

afterEach(async () => expect(await browser.endPages()).toEqual([]))

afterAll(async () => {
  await browser?.stop()
  await links?.stop()
  await bridge?.stop()
  endAll()
})

const issue = () => {
  const { clientState: bucket, keyId, syncKey } = bridge.user
  const values = { token: bridge.user.bearerToken(), keyId, bucket, syncKey: syncKey.toString('hex') }
  return links.issue('explore', async () => values)
}

/** Requests the account like a page, unless the headers say otherwise. */
async function ask(link: string, headers: Record<string, string> = {}) {
  const { origin, hash } = new URL(link)
  const own = { Origin: origin, 'Sec-Fetch-Site': 'same-origin' }
  const body = hash.replace('#code=', '')
  const answer = await fetch(`${origin}/account`, { method: 'POST', body, headers: { ...own, ...headers } })
  return answer.status
}

// The executable and a browser, because a link leads from one to the other, and works once.
describe("a command's own page", () => {
  it('shows the account of its link, whose code works once, and keeps nothing of it', async () => {
    const link = issue()
    const page = await browser.open(link, { viewport: desk, askedOrigins: [bridge.url] })
    await isRead(page)
    const address = page.url()
    await choose(page, 'bookmarks')
    const [first] = await titles(page)
    const kept = await page.evaluate(async () => [
      ...[localStorage, sessionStorage].map((storage) => storage.length),
      (await indexedDB.databases()).length,
      document.cookie,
    ])
    await page.reload()
    const hint = await page.locator('.own').innerText()
    const offered = await page.locator('input:visible, label:visible').count()

    expect(address).toBe(`${links.origin}/explore#/bookmarks`)
    expect(first).toBe('Bookmarks Toolbar')
    expect(kept).toEqual([0, 0, 0, ''])
    expect(hint).toContain('press Enter in the terminal')
    expect(offered).toBe(0)
    expect(await ask(link)).toBe(403)
  })

  it('says what to do with a link that was used, and opens a new one in the same tab', async () => {
    const link = issue()
    expect(await ask(link)).toBe(200)
    const page = await browser.open(link, { viewport: desk, mayFail: true, askedOrigins: [bridge.url] })
    const advice = await page.locator('#trouble').innerText()
    await page.goto(issue())
    await isRead(page)

    expect(advice).toBe(
      'This link was used before, or has expired. Press Enter in the terminal where the command runs: it prints a new link.',
    )
  })

  it('gives the account to itself alone, for the newest code, within a minute', async () => {
    const { host } = new URL(links.origin)
    const first = issue()
    const second = issue()
    const refused = [
      await ask(first),
      await ask(`${links.origin}/explore#code=`),
      await ask(second, { Origin: 'http://evil.example' }),
      await ask(second, { Origin: 'null' }),
      await ask(second, { 'Sec-Fetch-Site': 'cross-site' }),
      await ask(second, { Host: `evil.example:${host.split(':')[1]}` }),
    ]
    nowMs += 60_000
    const inTime = await ask(second)
    const third = issue()
    nowMs += 60_001

    expect(refused).toEqual([403, 403, 403, 403, 403, 400])
    expect([inTime, await ask(third)]).toEqual([200, 403])
    expect(new Set([first, second, third].map((link) => link.length - link.indexOf('=') - 1))).toEqual(
      new Set([22]),
    )
  })

  it('is served in production mode, under a policy that names the bridge, and is not cached', async () => {
    const page = await fetch(`${links.origin}/explore`)
    const script = await fetch(`${links.origin}/explore/main.js`)
    const others = await Promise.all(
      ['/bun:info', '/', '/account', '/explore/none', '/v1/explore'].map(async (path) => {
        const answer = await fetch(links.origin + path)
        return [answer.status, await answer.text()]
      }),
    )

    const headers = Object.fromEntries(page.headers)
    expect(headers['content-security-policy']).toContain(`connect-src 'self' ${bridge.url};`)
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
    expect(script.status).toBe(200)
    expect(others).toEqual(others.map(() => [404, 'Path not found\n']))
  })
})

describe("the API page of the sandbox's link", () => {
  it('is filled in, keeps nothing, and writes to a collection that no device reads', async () => {
    const { clientState, keyId } = bridge.user
    const values = { BEARER_TOKEN: bridge.user.bearerToken(), KEY_ID: keyId, BUCKET: clientState }
    const link = links.issue('docs', async () => values)
    const page = await browser.open(link, { askedOrigins: [bridge.url] })
    const address = page.url()
    const put = page.locator('#operations-Records-putRecord')
    await put.locator('.opblock-summary-control').click()
    await put.locator('.try-out__btn').click()
    await put.locator('.execute').click()
    const status = await put.locator('.live-responses-table .response-col_status').last().innerText()
    const guide = await page.locator('nav a').first().getAttribute('href')
    const kept = await page.evaluate(() => sessionStorage.length)

    expect(address).toBe(`${links.origin}/docs`)
    expect(status).toStartWith('200')
    expect(bridge.sandbox.records(bridge.user, 'scratch').map(({ id }) => id)).toEqual(['example'])
    expect([guide, kept]).toEqual([`${bridge.url}/v1/docs/guides`, 0])
  })
})

describe('the page of "open --edit"', () => {
  it.each([
    ["the command's own bridge", false],
    ['a running bridge elsewhere', true],
  ])('changes bookmarks through %s, and takes it back', async (_, isElsewhere) => {
    await using running = await startTestBridge({ writable: ['bookmarks'] })
    const { sandbox, url } = running
    const user = addCollector(sandbox, 'editor')
    const environment = { SYNC_BRIDGE_ACCOUNT: accountFile(valuesOf(sandbox, user)) }
    await using opened = start(['open', '--edit', ...(isElsewhere ? ['--bridge', url] : [])], { environment })
    await eventually('the link is there', () => /http\S+#code=\S+/.test(opened.errors()))
    const [link] = /http\S+#code=\S+/.exec(opened.errors())!
    const askedOrigins: string[] = []
    const page = await browser.open(link, { viewport: desk, askedOrigins })
    askedOrigins.push(await page.evaluate(() => document.documentElement.dataset.bridge!))
    const other = clientOf(user, url)
    await isRead(page)
    const before = await outlineOf(other)
    await page.locator('.row', { hasText: 'News' }).locator('.pick').check()
    await page.click('#delete')
    await page.locator('#undo:visible').waitFor()
    const after = await outlineOf(other)
    await page.click('#undo')
    await page.locator('.row', { hasText: 'News' }).waitFor()
    const canEdit: boolean[] = []
    for (const view of ['bookmarks', 'passwords']) {
      await choose(page, view)
      await page.locator(`.row a[href^="#/${view}/"]`).first().waitFor()
      canEdit.push(await page.locator('.row .edit').first().isVisible())
    }

    expect(after).toEqual(before.slice(3))
    expect(await outlineOf(other)).toEqual(before)
    // The running bridge allows no writes of passwords.
    expect(canEdit).toEqual([true, !isElsewhere])
  })
})
