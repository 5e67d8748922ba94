import { afterAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import { parseAccount } from '../../src/client/account.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startBrowser } from '../browser/browser.ts'
import { startTestBridge } from '../support/bridge.ts'
import { clientPackage } from '../support/client-package.ts'
import { endAll } from '../support/executable.ts'
import { runToEnd } from '../support/processes.ts'
import { accountOf, encrypted, foreign, linesOf } from './records.ts'

const examples = join(import.meta.dir, '../../docs/examples')
const bridge = await startTestBridge({ writable: ['passwords', 'forms'] })
const { sandbox, user } = bridge
fillSampleData(sandbox, user)
afterAll(async () => {
  await bridge.stop()
  endAll()
})

/** What the bridge says, and what to do. */
const ended =
  'The token server cannot verify this assertion or access token. Where a token has ended, docs/connect.md tells how to get a new one'

const environment = { BRIDGE_URL: bridge.url, ...accountOf(user) }

describe('bookmarks.ts', () => {
  const command = [process.execPath, join(examples, 'bookmarks.ts')]

  it('prints all bookmarks as a tree', async () => {
    const { output, code } = await run(command)

    const lines = output.trimEnd().split('\n')
    expect(code).toBe(0)
    expect(lines.at(-1)).toMatch(/^\d{3} bookmarks and folders$/)
    expect(lines.filter((line) => /<https?:/.test(line)).length).toBeGreaterThan(200)
    expect(lines.some((line) => /^ {4,}\S/.test(line))).toBe(true)
  })

  it('counts and names what nobody can read, and keeps control characters from the terminal', async () => {
    const title = 'red \u001b[31m bell \u0007 \u009b2J \u202e end'
    sandbox.write(user, 'bookmarks', [
      { id: 'foreignrecor', payload: foreign },
      { id: 'plainrecord1', payload: 'plain' },
      await encrypted(sandbox, user, 'bookmarks', {
        id: 'menu',
        type: 'folder',
        children: ['controlchars', 'menu'],
      }),
      await encrypted(sandbox, user, 'bookmarks', {
        id: 'controlchars',
        type: 'bookmark',
        parentid: 'menu',
        title,
      }),
    ])

    const { output, code } = await run(command)

    expect(code).toBe(0)
    expect(output).toContain('2 cannot be read: ')
    expect(output).toContain('foreignrecor')
    expect(output).toContain('red  [31m bell')
    expect(output).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
  })

  it('tells when the key is another one', async () => {
    const { output, code } = await run(command, { SYNC_KEY: '00'.repeat(64) })

    expect(code).toBe(1)
    expect(output).toBe('Cannot decrypt "keys": it was encrypted with another key\n')
  })

  it('tells what is missing, and takes an address that ends in /v1', async () => {
    const missing = await run(command, { SYNC_KEY: '', KEY_ID: '' })
    const versioned = await run(command, { BRIDGE_URL: `${bridge.url}/v1/` })
    const nowhere = await run(command, { BRIDGE_URL: 'http://127.0.0.1:1' })
    const expired = await run(command, { BEARER_TOKEN: user.bearerToken({ expiresInSeconds: -60 }) })

    expect(missing).toEqual({
      output: 'Set KEY_ID, SYNC_KEY: docs/connect.md tells where to get them\n',
      code: 1,
    })
    expect(versioned.code).toBe(0)
    expect(nowhere.output).toBe('Nobody answers at http://127.0.0.1:1: is the bridge running?\n')
    expect(expired.output).toBe(`${ended}\n`)
  })
})

describe('tabs.html', () => {
  it('shows the tabs of all devices, from another origin', async () => {
    const { folder } = await clientPackage()
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
    await page.click('button')
    await page.waitForSelector('#devices section')
    await page.waitForSelector('#problem:not(:empty)')
    const problem = await page.textContent('#problem')
    const devices = await page.locator('h2').allTextContents()
    const tabs = await page.locator('li').count()
    await page.fill('input[name=token]', user.bearerToken({ expiresInSeconds: -3600 }))
    await page.click('button')
    await page.waitForSelector('#problem:not(:empty)')
    const afterwards = [await page.textContent('#problem'), await page.locator('h2').count()]
    // It asks the bridge, which is of another origin.
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
    expect(afterwards).toEqual([expect.stringContaining('get a new one with the recipe'), 0])
    expect(wrong.filter((told) => !/favicon|404|401/.test(told))).toEqual([])
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
    // It would wait for the next page.
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

describe('first-steps.sh', () => {
  it('walks through the first requests', async () => {
    const { output, code } = await run(['sh', join(examples, 'first-steps.sh')])

    expect(code).toBe(0)
    expect(output).toContain('"project_name":"Sync Bridge"')
    expect(output).toContain('"id":"bookmarks"')
    expect(output.toLowerCase()).toMatch(/total-records: 30\d/)
    expect(output.toLowerCase()).toContain('next-page: http://')
  })
})

async function run(command: string[], more: Record<string, string> = {}) {
  const { output, errors, code } = await runToEnd(command, { environment: { ...environment, ...more } })
  return { output: output + errors, code }
}
