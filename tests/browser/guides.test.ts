import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import { startTestBridge } from '../support/bridge.ts'
import type { TestBridge } from '../support/bridge.ts'
import { startBrowser } from './browser.ts'
import type { TestBrowser, Viewport } from './browser.ts'
import { accessibilityFaults } from './inspect.ts'

const screenshots = join(import.meta.dir, '../../dist/screenshots')
const desk: Viewport = { width: 1280, height: 900 }
const phone: Viewport = { width: 390, height: 844 }

let bridge: TestBridge
let browser: TestBrowser

beforeAll(async () => {
  bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.stop()
  await bridge?.stop()
})

async function open(address: string, viewport: Viewport, colorScheme: 'light' | 'dark') {
  const watched = await browser.open(viewport)
  await watched.page.emulateMedia({ colorScheme })
  await watched.page.goto(bridge.url + address)
  return watched
}

describe('the bare address in Chromium', () => {
  it('leads to the explorer, the API page and the guides, and back', async () => {
    const { page, requested, errors } = await open('/', desk, 'light')
    const address = page.url()
    const names = await page.locator('.cards strong').allInnerTexts()

    await page.click('text=Explorer')
    const explorer = page.url()
    await page.goBack()
    await page.click('.cards >> text=API')
    await page.locator('.opblock').first().waitFor()
    const docs = page.url().replace(/#.*/, '')
    await page.click('nav >> text=Guides')
    await page.click('text=Operate')
    const guide = page.url()
    await page.click('nav[aria-label="On this page"] a >> nth=0')
    const section = await page.evaluate(() => document.querySelector(':target')?.textContent)
    await page.click('header a >> nth=0')
    const back = page.url()
    await page.close()

    expect(address).toBe(`${bridge.url}/v1/docs/guides`)
    expect(names).toEqual([
      'Explorer',
      'API',
      'Connect',
      'Clients',
      'Promises',
      'Backup',
      'Operate',
      'Settings',
    ])
    expect([explorer, docs, guide]).toEqual(
      ['explore', 'docs', 'docs/guides/operate'].map((path) => `${bridge.url}/v1/${path}`),
    )
    expect(section).toBeTruthy()
    expect(back).toBe(address)
    expect(requested.filter((url) => !url.startsWith(`${bridge.url}/`))).toEqual([])
    expect(errors).toEqual([])
  })
})

describe('the guides in Chromium', () => {
  it.each([
    ['desk', desk, 'light'],
    ['desk', desk, 'dark'],
    ['phone', phone, 'light'],
    ['phone', phone, 'dark'],
  ] as const)('can be read and used by everybody: %s %p %s', async (place, viewport, scheme) => {
    const faults: string[] = []
    const grounds = new Set<string>()

    for (const name of ['guides', 'guides/operate', 'guides/settings', 'guides/connect', 'guides/examples']) {
      const { page, requested, errors } = await open(`/v1/docs/${name}`, viewport, scheme)
      const file = `${name.replace('/', '-')}-${place}-${scheme}.png`
      await page.screenshot({ path: join(screenshots, file) })
      const found = [...(await accessibilityFaults(page)), ...errors]
      const width = await page.evaluate(() => document.documentElement.scrollWidth)
      if (width > viewport.width) found.push(`is ${width} pixels wide`)
      found.push(...requested.filter((url) => !url.startsWith(`${bridge.url}/`)))
      faults.push(...found.map((fault) => `${name}: ${fault}`))
      grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))
      await page.close()
    }

    expect(faults).toEqual([])
    expect([...grounds]).toEqual([scheme === 'dark' ? 'rgb(28, 32, 34)' : 'rgb(255, 255, 255)'])
  })
})
