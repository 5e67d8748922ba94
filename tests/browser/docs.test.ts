import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'
import { accessibilityFaults } from './inspect.ts'
import { desk, phone, startBrowser, type OpenOptions, type TestBrowser } from './browser.ts'

let bridge: TestBridge
let browser: TestBrowser
/** The page of tests that need no new one: drawing it takes two seconds of CPU time. */
let shared: Page | undefined

beforeAll(async () => {
  bridge = await startTestBridge({
    settings: {
      record_bookmarks_put_enabled: 'true',
      record_scratch_put_enabled: 'true',
      explorer_enabled: 'true',
    },
  })
  const payloads = Object.entries({ first: 'one', second: 'two', menu: 'a folder' })
  const records = payloads.map(([id, payload]) => ({ id, payload }))
  bridge.sandbox.write(bridge.user, 'bookmarks', records)
  browser = await startBrowser()
})

afterEach(async () => expect(await browser.endPages()).toEqual([]))

afterAll(async () => {
  await browser?.stop()
  await bridge?.stop()
})

async function openDocs(options: OpenOptions = {}): Promise<Page> {
  const page = await browser.open(`${bridge.url}/v1/docs`, options)
  await page.locator('.opblock').first().waitFor()
  return page
}

async function openShared(): Promise<Page> {
  shared ??= await openDocs({ viewport: desk, isShared: true })
  await shared.bringToFront()
  return shared
}

/** Fills in the dialog behind the Authorize button: a scheme's name and its value. */
async function authorize(page: Page, values: Record<string, string>): Promise<void> {
  await page.locator('.btn.authorize').click()
  for (const [scheme, value] of Object.entries(values)) {
    const form = page.locator('.auth-container', { has: page.locator(`h4 code:text-is("${scheme}")`) })
    await form.locator('input').fill(value)
    await form.locator('button[type=submit]').click()
    await form.locator('button:text("Logout")').waitFor()
  }
  await page.locator('.close-modal').click()
}

async function openOperation(page: Page, id: string): Promise<Locator> {
  const operation = page.locator(`#operations-${id}`)
  await operation.locator('.opblock-summary-control').click()
  await operation.locator('.responses-inner').waitFor()
  return operation
}

/** Opens an operation and lets it be tried. A busy page may draw it anew after the click, and has then forgotten that. */
async function tryOut(page: Page, id: string): Promise<Locator> {
  const operation = await openOperation(page, id)
  const cancel = operation.locator('.try-out__btn.cancel')
  await eventually('it can be tried', async () => {
    if (await cancel.isVisible()) return true
    await operation.locator('.try-out__btn').click()
    await cancel.waitFor({ timeout: 10_000 })
    return true
  })
  return operation
}

/** "Try it out", fill in, "Execute": returns the status and the body that the page shows. */
async function execute(page: Page, id: string, parameters: Record<string, string>, body?: unknown) {
  const operation = await tryOut(page, id)
  for (const [name, value] of Object.entries(parameters)) {
    await operation.locator(`tr[data-param-name="${name}"] input`).fill(value)
  }
  if (body !== undefined) await operation.locator('textarea').fill(JSON.stringify(body))
  await operation.locator('.execute').click()
  const answer = operation.locator('.live-responses-table tbody tr.response').first()
  const status = await answer.locator('.response-col_status').innerText()
  const hasBody = Number.parseInt(status, 10) !== 204
  const shown = hasBody ? await answer.locator('.highlight-code code').first().innerText() : 'null'
  // Closes it, because the page rerenders everything that is open at each step.
  await operation.locator('.opblock-summary-control').click()
  return { status: Number.parseInt(status, 10), body: JSON.parse(shown) }
}

// A browser, because Swagger UI draws the page, and sends requests from it.
describe('/v1/docs in Chromium', () => {
  it('shows all sections, records first, with the version in every path, links, and which writes are enabled', async () => {
    const page = await openShared()

    const tags = page.locator('.opblock-tag [data-tag], .opblock-tag')
    const sections = await tags.evaluateAll((all) => all.map((tag) => tag.getAttribute('data-tag')))
    const open = page.locator('.opblock-tag-section.is-open')
    const summaries = await open.locator('.opblock-summary-description').allInnerTexts()
    const paths = await page.locator('.opblock-summary-path').allInnerTexts()
    const links = page.locator('.intro a:visible')
    const guides = await links.evaluateAll((all) => all.map((each) => (each as HTMLAnchorElement).href))
    const put = await openOperation(page, 'Records-putRecord')
    const description = await put.locator('.opblock-description-wrapper').first().innerText()

    expect(await page.locator('h1, h2').first().innerText()).toStartWith('Sync Bridge')
    expect([...new Set(sections)]).toEqual(['Records', 'Collections', 'Batch', 'Service', 'Headers only'])
    expect(summaries.slice(0, 5)).toEqual([
      'List the records of a collection',
      'Count the records of a collection',
      'Read a record',
      'Create or change a record',
      'Delete a record (not enabled here)',
    ])
    expect(paths.filter((path) => !path.replaceAll('\u200b', '').startsWith('/v1/'))).toEqual([])
    const names = ['docs/guides', 'docs/guides/connect', 'docs/guides/clients', 'explore', '__api__']
    expect(guides).toEqual(names.map((name) => `${bridge.url}/v1/${name}`))
    expect(description).toContain('Enabled here in bookmarks, scratch')
  })

  it('has an address for each path, which stays, and Back leaves the page', async () => {
    const guides = `${bridge.url}/v1/docs/guides`
    const page = await browser.open(guides)
    await page.goto(`${bridge.url}/v1/docs`)
    await page.locator('.opblock').first().waitFor()
    await page.goBack()
    const left = page.url()
    await page.goto(`${bridge.url}/v1/docs#/Headers%20only/headVersion`)
    await page.locator('#operations-Headers_only-headVersion.is-open').waitFor()
    const { hash } = new URL(page.url())

    expect([left, hash]).toEqual([guides, '#/Headers%20only/headVersion'])
  })

  it('asks for the token first, fills in the rest, and keeps it through a reload', async () => {
    const page = await openDocs()
    const first = await page.evaluate(() => document.querySelector('input')?.name)
    await page.fill('[name=BEARER_TOKEN]', bridge.user.bearerToken())
    await page.fill('[name=KEY_ID]', bridge.user.keyId)
    await page.click('#identity button')
    await page.locator('.opblock').first().waitFor()
    const bucket = await page.inputValue('[name=BUCKET]')
    await page.reload()
    await page.locator('.opblock').first().waitFor()

    const record = await execute(page, 'Records-getRecord', {})
    const stored = await page.evaluate(() => localStorage.length)

    expect(first).toBe('BEARER_TOKEN')
    expect(bucket).toBe(bridge.user.clientState)
    expect(record).toMatchObject({ status: 200, body: { data: { id: 'menu' } } })
    expect(stored).toBe(0)
  })

  it('accepts quoted values, even if the browser denies the page its storage', async () => {
    const page = await browser.open('about:blank', { isOwnTab: true })
    await page.addInitScript(() => {
      const get = () => {
        throw new DOMException('Access is denied', 'SecurityError')
      }
      Object.defineProperty(window, 'sessionStorage', { get })
    })
    await page.goto(`${bridge.url}/v1/docs`)
    await page.locator('.opblock').first().waitFor()

    const { clientState, keyId } = bridge.user
    const values = { BEARER_TOKEN: bridge.user.bearerToken(), KEY_ID: keyId, BUCKET: clientState }
    for (const [name, value] of Object.entries(values)) await page.fill(`[name=${name}]`, ` "${value}"`)
    await page.click('#identity button')
    await page.locator('.opblock').first().waitFor()
    const collections = await execute(page, 'Collections-listCollections', {})

    expect(collections.status).toBe(200)
  })

  it('ignores anything that is not a valid bucket', async () => {
    const page = await openShared()
    const values = { BEARER_TOKEN: 'a', KEY_ID: 'b', BUCKET: 'x","description":"# Session ended","x-more":"' }
    for (const [name, value] of Object.entries(values)) await page.fill(`[name=${name}]`, value)
    await page.click('#identity button')

    await openOperation(page, 'Records-listRecords')
    const text = await page.locator('#page').innerText()

    expect(text).not.toContain('Session ended')
  })

  it('shows 300 KB of records, listed with an identity assertion, without freezing', async () => {
    const page = await openDocs()
    const payload = 'x'.repeat(20_000)
    const many = Array.from({ length: 15 }, (_, index) => ({ id: `large${index}`, payload }))
    bridge.sandbox.write(bridge.user, 'history', many)
    await authorize(page, { browserid: `BrowserID ${bridge.user.assertion()}` })
    const operation = await tryOut(page, 'Records-listRecords')
    const limit = await operation.locator('tr[data-param-name="_limit"] input').inputValue()
    const values = { bucket_id: bridge.user.clientState, collection_id: 'history', _limit: '' }
    for (const [name, value] of Object.entries(values))
      await operation.locator(`tr[data-param-name="${name}"] input`).fill(value)

    await operation.locator('.execute').click()
    const answer = operation.locator('.live-responses-table .response').first()
    await answer.locator('.download-contents').waitFor()
    const shown = await answer.locator('pre').first().innerText()
    const coloured = await answer.locator('pre').first().locator('span').count()

    expect(limit).toBe('5')
    expect(shown).toMatch(/… [\d,]+ more characters: Download has them all\.$/)
    expect(shown.length).toBeLessThan(110_000)
    expect(coloured).toBe(0)
  })

  // One page, because opening and inspecting it take seconds of CPU time.
  it('is accessible: axe finds nothing, light on a desk and dark on a phone', async () => {
    const page = await openDocs({ mayFail: true })
    const faults: string[] = []
    const look = async (name: string, colorScheme: 'light' | 'dark') => {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize(colorScheme === 'light' ? desk : phone)
      const found = await accessibilityFaults(page)
      faults.push(...found.map((fault) => `${name}, ${colorScheme}: ${fault}`))
    }

    const copy = page.locator('.opblock-summary .copy-to-clipboard button').first()
    await copy.focus()
    const { width } = (await copy.boundingBox())!
    // The dialog first: with operations open, each step takes seconds.
    await page.locator('.model-container, .models button').first().click()
    await page.locator('.btn.authorize').click()
    await page.locator('.modal-ux').waitFor()
    await look('authorize', 'light')
    await look('authorize', 'dark')
    await page.locator('.close-modal').click()
    await tryOut(page, 'Batch-batch')
    await page.locator('#operations-Batch-batch .execute').click()
    await page.locator('#operations-Batch-batch .live-responses-table').waitFor()
    await look('tried, with models', 'dark')
    await tryOut(page, 'Records-listRecords')
    await look('tried, with models', 'light')

    expect(faults).toEqual([])
    expect(width).toBeGreaterThan(20)
  })
})
