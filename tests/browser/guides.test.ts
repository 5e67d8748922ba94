import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { desk, phone, startBrowser, type TestBrowser } from './browser.ts'
import { accessibilityFaults } from './inspect.ts'

let bridge: TestBridge
let browser: TestBrowser

beforeAll(async () => {
  bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
  browser = await startBrowser()
})

afterEach(async () => expect(await browser.endPages()).toEqual([]))

afterAll(async () => {
  await browser?.stop()
  await bridge?.stop()
})

describe('the root URL in Chromium', () => {
  it('leads to the explorer, the API page and the guides, and back', async () => {
    const page = await browser.open(bridge.url, { viewport: desk })
    const address = page.url()
    const names = await page.locator('.cards strong').allInnerTexts()
    // A page that is still loading can't go back.
    const follow = async (link: string, path: string) => {
      await page.click(link)
      await page.waitForURL(({ pathname }) => pathname === `/v1/${path}`)
    }

    await follow('text=Explorer', 'explore')
    await page.goBack()
    await follow('.cards >> text=API', 'docs')
    await page.locator('.opblock').first().waitFor()
    await follow('nav >> text=Guides', 'docs/guides')
    await follow('.cards >> text=Run a bridge', 'docs/guides/run')
    await page.click('nav[aria-label="On this page"] a >> nth=0')
    const section = await page.evaluate(() => document.querySelector(':target')?.textContent)
    await follow('header a >> nth=0', 'docs/guides')

    expect(address).toBe(`${bridge.url}/v1/docs/guides`)
    expect(names.slice(0, 4).join()).toBe('Explorer,API,Get started,Your data')
    expect(section).toBeTruthy()
  })
})

describe('the guides in Chromium', () => {
  it('find a section by its words, in any order and case, and go there with Enter', async () => {
    const page = await browser.open(`${bridge.url}/v1/docs/guides/promises`, { viewport: desk })
    await page.getByLabel('Search').fill('SECRET replace')
    const results = page.getByRole('search').getByRole('link')
    await results.first().waitFor()
    const first = await results.first().innerText()
    const faults = await accessibilityFaults(page)

    await page.getByLabel('Search').press('Enter')
    await page.waitForURL('**/run#replace-the-secret')
    await page.getByLabel('Search').fill('xyzzy')
    await page.getByText(/^0 of \d+ sections$/).waitFor()
    await page.getByLabel('Search').press('Escape')

    expect(first).toBe('Run a bridge: Replace the secret')
    expect(faults).toEqual([])
    expect(await page.getByRole('status').innerText()).toBe('')
  })

  it('find the page for users before a decision about the same', async () => {
    const page = await browser.open(`${bridge.url}/v1/docs/guides`, { viewport: desk })
    await page.getByLabel('Search').fill('restore')
    const results = page.getByRole('search').getByRole('link')
    await results.first().waitFor()

    const names = await results.allInnerTexts()

    expect(names[0]).toBe('Your data: Restore')
  })

  it.each([
    ['desk', desk, 'light'],
    ['phone', phone, 'dark'],
  ] as const)('are readable and accessible: %s %p %s', async (_, viewport, scheme) => {
    const faults: string[] = []
    const grounds = new Set<string>()

    for (const name of ['guides', 'guides/run', 'guides/examples']) {
      const page = await browser.open(`${bridge.url}/v1/docs/${name}`, { viewport, scheme })
      const found = await accessibilityFaults(page)
      const width = await page.evaluate(() => document.documentElement.scrollWidth)
      if (width > viewport.width) found.push(`is ${width} pixels wide`)
      faults.push(...found.map((fault) => `${name}: ${fault}`))
      grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))
    }

    expect(faults).toEqual([])
    expect([...grounds]).toEqual([scheme === 'dark' ? 'rgb(28, 32, 34)' : 'rgb(255, 255, 255)'])
  })
})
