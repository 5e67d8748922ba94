import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { desk, phone, startBrowser, type TestBrowser, type Viewport } from './browser.ts'
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

  it.each(['guides', 'guides/run', 'guides/examples'])(
    'are readable and accessible, light on a desk and dark on a phone: %s',
    async (name) => {
      const page = await browser.open(`${bridge.url}/v1/docs/${name}`)
      const look = async (viewport: Viewport, colorScheme: 'light' | 'dark') => {
        await page.setViewportSize(viewport)
        await page.emulateMedia({ colorScheme })
        const faults = await accessibilityFaults(page)
        const width = await page.evaluate(() => document.documentElement.scrollWidth)
        const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
        return { faults, isTooWide: width > viewport.width, ground }
      }

      const looks = [await look(desk, 'light'), await look(phone, 'dark')]

      const grounds = ['rgb(255, 255, 255)', 'rgb(28, 32, 34)']
      expect(looks).toEqual(grounds.map((ground) => ({ faults: [], isTooWide: false, ground })))
    },
  )
})
