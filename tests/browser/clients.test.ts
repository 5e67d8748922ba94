import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { startBrowser, type TestBrowser } from './browser.ts'
import type { calls, Home } from './page.ts'

type Calls = typeof calls

const seeded = Array.from({ length: 25 }, (_, index) => ({ id: `seeded${index}`, payload: `${index}` }))
const seededIds = seeded.map(({ id }) => id).toSorted()

let browser: TestBrowser
let script: string

beforeAll(async () => {
  const built = await Bun.build({ entrypoints: [join(import.meta.dir, 'page.ts')], target: 'browser' })
  script = await built.outputs[0]!.text()
  browser = await startBrowser()
})

afterAll(() => browser?.stop())

const html = '<!doctype html><title>Application</title><script type="module" src="/page.js"></script>'

/** An application's web server: its own origin, with a page that has the clients. */
function startApplication() {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) => {
      const [type, text] = url.endsWith('/page.js') ? ['text/javascript', script] : ['text/html', html]
      return new Response(text, { headers: { 'Content-Type': type } })
    },
  })
  return { origin: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}

/** Calls a function in the page. */
function call<Name extends keyof Calls>(page: Page, name: Name, argument: Parameters<Calls[Name]>[0]) {
  return page.evaluate(
    ([name, argument]) => {
      const { calls } = globalThis as unknown as { calls: Record<string, (argument: unknown) => unknown> }
      return calls[name as string]!(argument)
    },
    [name, argument] as const,
  ) as Promise<Awaited<ReturnType<Calls[Name]>>>
}

function homeIn(bridge: TestBridge): Home {
  const headers = bridge.identityOf(bridge.user)
  return { remote: `${bridge.url}/v1`, bucket: bridge.user.clientState, headers }
}

/** The bridge's responses to requests of a method, from its log. */
function statusesOf(bridge: TestBridge, method: string): number[] {
  return bridge.logs
    .map((line) => JSON.parse(line) as { method?: string; route?: string; status?: number })
    .filter((entry) => entry.method === method && 'route' in entry)
    .map(({ status }) => status!)
}

// A browser, because it decides what a page of another origin may send and read. tests/spec/headers.test.ts has every header that it needs.
describe('an application of another origin, in Chromium', () => {
  let application: ReturnType<typeof startApplication>
  let bridge: TestBridge
  let page: Page
  let home: Home
  let records: string

  beforeAll(async () => {
    application = startApplication()
    bridge = await startTestBridge({ writable: ['bookmarks'], sandbox: { listCap: 10 } })
    page = await browser.open(application.origin)
    home = homeIn(bridge)
    records = `${home.remote}/buckets/${home.bucket}/collections/bookmarks/records`
    bridge.sandbox.write(bridge.user, 'bookmarks', seeded)
  })

  afterAll(async () => {
    await page?.close()
    await bridge?.stop()
    await application?.stop()
  })

  it('reads a list of several pages to its end, and writes, with kinto-http', async () => {
    const used = await call(page, 'useRecords', home)

    expect(used.ids.toSorted()).toEqual(seededIds)
    expect(used.updated).toMatchObject({ id: 'made', payload: '2' })
    expect(used.total).toBe(26)
    expect(used.timestamp).toMatch(/^"\d{13}"$/)
    expect(used.lastModified).toMatch(/^\d{13}$/)
    expect(used.batched).toEqual([204, 200])
    expect(bridge.sandbox.records(bridge.user, 'bookmarks').map(({ id }) => id)).toContain('batched')
    expect(statusesOf(bridge, 'OPTIONS').length).toBeGreaterThan(3)
    expect(new Set(statusesOf(bridge, 'OPTIONS'))).toEqual(new Set([204]))
  })

  it('follows the redirect to the version, with its body and credentials', async () => {
    const unversioned = records.replace('/v1/', '/')

    const answer = await call(page, 'fetch', { url: unversioned, init: { headers: home.headers } })

    expect(answer.status).toBe(200)
    expect((answer.body as { data: unknown[] }).data).toHaveLength(26)
  })
})
