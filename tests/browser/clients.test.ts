import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { startFaultProxy, type FaultProxy, type Plan } from '../support/fault-proxy.ts'
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

// A browser, because it decides what a page of another origin may send and read.
describe('an application of another origin, in Chromium', () => {
  let application: ReturnType<typeof startApplication>
  let bridge: TestBridge
  let proxy: FaultProxy
  let page: Page
  let home: Home
  let records: string

  beforeAll(async () => {
    application = startApplication()
    bridge = await startTestBridge({ writable: ['bookmarks'], sandbox: { listCap: 10 } })
    proxy = await startFaultProxy({ target: bridge.sandbox.storageUrl })
    bridge.sandbox.switches.nodeUrl = proxy.url
    page = await browser.open(application.origin)
    home = homeIn(bridge)
    records = `${home.remote}/buckets/${home.bucket}/collections/bookmarks/records`
    bridge.sandbox.write(bridge.user, 'bookmarks', seeded)
  })

  afterAll(async () => {
    await page?.close()
    await bridge?.stop()
    await proxy?.stop()
    await application?.stop()
  })

  async function withPlan<T>(plan: Plan, work: () => Promise<T>): Promise<T> {
    proxy.plan(plan)
    try {
      return await work()
    } finally {
      proxy.plan(() => null)
    }
  }

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

  it('can read every header of a response', async () => {
    const headers = {
      'X-Weave-Backoff': '3600',
      'X-Weave-Alert': 'Closing down',
      'X-Weave-Quota-Remaining': '500',
    }
    const announce: Plan = () => ({ kind: 'rewrite', headers })

    const [list, count] = await withPlan(announce, async () => [
      await call(page, 'fetch', { url: `${records}?_limit=2`, init: { headers: home.headers } }),
      await call(page, 'fetch', { url: records, init: { method: 'HEAD', headers: home.headers } }),
    ])

    expect(list.headers).toMatchObject({
      etag: expect.stringMatching(/^"\d{13}"$/),
      'last-modified': expect.stringContaining('GMT'),
      'next-page': expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v1\/buckets\/.*_token=/),
      backoff: '3600',
      alert: '{"code":"soft-eol","message":"Closing down"}',
      'quota-remaining': '500',
      'content-length': expect.stringMatching(/^\d+$/),
    })
    expect(count.headers).toMatchObject({ 'total-records': '26', 'total-objects': '26' })
  })

  it('can read 304 with the version', async () => {
    const head = { method: 'HEAD', headers: home.headers }
    const { headers } = await call(page, 'fetch', { url: records, init: head })

    const init = { headers: { ...home.headers, 'If-None-Match': headers.etag! } }
    const unchanged = await call(page, 'fetch', { url: records, init })

    expect(unchanged).toMatchObject({ status: 304, body: null, headers: { etag: headers.etag } })
  })

  it('can read every error', async () => {
    const body = JSON.stringify({ data: { payload: 'late' } })
    const json = { ...home.headers, 'Content-Type': 'application/json' }
    const ask = (url: string, init: RequestInit) => call(page, 'fetch', { url, init })

    const errors = [
      await ask(`${records}?_limit=0`, { headers: home.headers }),
      await ask(records, {}),
      await ask(`${records}/absent`, { headers: home.headers }),
      await ask(`${home.remote}/nowhere`, {}),
      await ask(records.replace('bookmarks', 'history') + '/x', { method: 'PUT', headers: json, body }),
      await ask(`${records}/seeded0`, { method: 'PUT', headers: { ...json, 'If-Match': '"10"' }, body }),
      await withPlan(
        () => ({ kind: 'status', status: 503, headers: { 'Retry-After': '77' } }),
        () => ask(records, { headers: home.headers }),
      ),
    ]

    expect(errors.map(({ status, body }) => [status, (body as { errno: number }).errno])).toEqual([
      [400, 109],
      [401, 104],
      [404, 110],
      [404, 111],
      [405, 115],
      [412, 114],
      [503, 201],
    ])
    expect(errors[1]!.headers['www-authenticate']).toBe('BrowserID, Bearer')
    expect(errors[5]!.body).toMatchObject({ details: { existing: { id: 'seeded0', payload: '0' } } })
    expect(errors[6]!.headers['retry-after']).toBe('77')
  })

  it('follows the redirect to the version, with its body and credentials', async () => {
    const unversioned = records.replace('/v1/', '/')

    const answer = await call(page, 'fetch', { url: unversioned, init: { headers: home.headers } })

    expect(answer.status).toBe(200)
    expect((answer.body as { data: unknown[] }).data).toHaveLength(26)
  })
})

describe('cors_origins with a list, in Chromium', () => {
  it('allows its origins and rejects others before anything is executed', async () => {
    const [welcome, stranger] = [startApplication(), startApplication()]
    const bridge = await startTestBridge({
      settings: { cors_origins: `${welcome.origin}, https://app.example` },
      writable: ['bookmarks'],
    })
    const { sandbox, user } = bridge
    sandbox.write(user, 'bookmarks', seeded)
    const home = homeIn(bridge)
    const record = `${home.remote}/buckets/${home.bucket}/collections/bookmarks/records/seeded0`
    const headers = { ...home.headers, 'Content-Type': 'application/json' }
    const write = { method: 'PUT', headers, body: '{"data":{"payload":"x"}}' }

    const page = await browser.open(stranger.origin)
    const refused = await Promise.allSettled([
      call(page, 'fetch', { url: record, init: write }),
      call(page, 'fetch', { url: record, init: { headers: home.headers } }),
      call(page, 'fetch', { url: `${home.remote}/` }),
    ])
    const askedForStranger = sandbox.requests.storage.entries.length + sandbox.requests.token.entries.length
    await page.goto(welcome.origin)
    const written = await call(page, 'fetch', { url: record, init: write })
    await page.close()
    await Promise.all([bridge.stop(), welcome.stop(), stranger.stop()])

    expect(refused.map((outcome) => outcome.status === 'rejected' && String(outcome.reason))).toEqual(
      Array(3).fill(expect.stringContaining('Failed to fetch')),
    )
    expect(askedForStranger).toBe(0)
    expect(statusesOf(bridge, 'GET')).toEqual([400])
    expect(written).toMatchObject({ status: 200, body: { data: { id: 'seeded0', payload: 'x' } } })
    expect(written.headers.etag).toMatch(/^"\d{13}"$/)
  })
})
