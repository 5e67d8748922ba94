import { afterAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import { parseAccount } from '../../src/client/account.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startBrowser } from '../browser/browser.ts'
import { accessibilityFaults } from '../browser/inspect.ts'
import { startTestBridge } from '../support/bridge.ts'
import { clientPackage } from '../support/client-package.ts'
import { endAll } from '../support/executable.ts'
import { accountOf, encrypted, foreign, linesOf } from '../support/records.ts'

const examples = join(import.meta.dir, '../../docs/examples')
const bridge = await startTestBridge({ writable: ['passwords', 'forms'] })
const { sandbox, user } = bridge
fillSampleData(sandbox, user)
afterAll(async () => {
  await bridge.stop()
  endAll()
})

const environment = { BRIDGE_URL: bridge.url, ...accountOf(user) }

// A browser, because readers open the example as a page of another origin.
describe('tabs.html', () => {
  it('shows the tabs of all devices, from another origin', async () => {
    const { folder } = clientPackage()
    const paths: Record<string, string> = {
      '/tabs.html': join(examples, 'tabs.html'),
      '/sync-bridge-client.js': join(folder, 'sync-bridge-client.js'),
    }
    await using files = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch({ url }) {
        const path = paths[new URL(url).pathname]
        return path === undefined ? new Response(null, { status: 404 }) : new Response(Bun.file(path))
      },
    })
    sandbox.write(user, 'tabs', [
      { id: 'foreigndevic', payload: foreign },
      await encrypted(sandbox, user, 'tabs', {
        id: 'holeydevice1',
        tabs: [null, { urlHistory: null, title: 'Alone' }, 'tab', { urlHistory: ['about:home'] }],
      }),
    ])
    const browser = await startBrowser()
    const page = await browser.open(`${files.url}tabs.html`)
    const lines = linesOf(environment)
    await page.evaluate((pasted) => {
      const clipboardData = new DataTransfer()
      clipboardData.setData('text', pasted)
      const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })
      document.querySelector('input[name=keyId]')!.dispatchEvent(event)
    }, lines)
    await page.dblclick('button')
    await page.waitForSelector('#devices section')
    await page.waitForSelector('#problem:not(:empty)')
    await page.waitForLoadState('networkidle')
    const problem = await page.textContent('#problem')
    const devices = await page.locator('h2').allTextContents()
    const tabs = await page.locator('li').count()
    const faults = await accessibilityFaults(page)
    await page.fill('input[name=token]', user.bearerToken({ expiresInSeconds: -3600 }))
    await page.click('button')
    await page.waitForSelector('#problem:not(:empty)')
    const afterwards = [await page.textContent('#problem'), await page.locator('h2').count()]
    await page.route(`${bridge.url}/**`, (route) => route.abort())
    await page.click('button')
    const silence = await page.getByText('No response').textContent()
    // It requests the bridge from another origin.
    const wrong = (await browser.endPages()).filter((told) => !told.startsWith(bridge.url))
    await browser.stop()

    expect(problem).toBe('1 devices cannot be read with this key: foreigndevic')
    expect(devices.toSorted()).toEqual([
      'A device without a name (1)',
      'Desk computer (14)',
      'Pocket phone (6)',
      '居間のタブレット (3)',
    ])
    expect(tabs).toBe(24)
    expect(faults).toEqual([])
    expect(afterwards).toEqual([expect.stringMatching(/\w\. If .* get a new one with the recipe\.$/), 0])
    expect(silence).toEndWith('. Is it running?')
    expect(wrong.filter((told) => !/favicon|404|401|ERR_FAILED/.test(told))).toEqual([])
  })
})

describe('tabs.html without the files beside it', () => {
  it('sends nothing anywhere, and says what it needs', async () => {
    const requested: string[] = []
    await using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: ({ url }) => {
        const { pathname, search } = new URL(url)
        requested.push(pathname + search)
        return pathname === '/tabs.html'
          ? new Response(Bun.file(join(examples, 'tabs.html')))
          : new Response(null, { status: 404 })
      },
    })
    const browser = await startBrowser()
    const page = await browser.open(`${server.url}tabs.html`)
    for (const [name, value] of Object.entries(parseAccount(linesOf(environment)))) {
      if (name !== 'bucket') await page.fill(`input[name=${name}]`, value)
    }
    const refused = page.waitForEvent('console', (message) => message.text().includes('form-action'))
    // The click would wait for the next page.
    await page.click('button', { noWaitAfter: true })
    await refused
    const problem = await page.textContent('#problem')
    const address = page.url()
    await browser.stop()

    expect(problem).toBe('This page needs a web server, and sync-bridge-client.js beside it.')
    expect(address).toBe(`${server.url}tabs.html`)
    expect(requested.filter((each) => each.includes('?'))).toEqual([])
  })
})
