import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { startTestBridge } from '../support/bridge.ts'
import type { TestBridge } from '../support/bridge.ts'

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

describe('GET /docs', () => {
  let bridge: TestBridge

  beforeAll(async () => {
    bridge = await startTestBridge()
  })

  afterAll(() => bridge.stop())

  it('is a page of HTML under a policy that lets it load from its own origin only', async () => {
    const { status, headers, text } = await bridge.ask('/v1/docs', { as: null })

    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(headers.get('content-security-policy')).toBe(policy)
    expect(text).toStartWith('<!doctype html>')
  })

  it('comes with every file that it names, each of its type', async () => {
    const { text } = await bridge.ask('/v1/docs', { as: null })
    const named = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path!)

    const types = await Promise.all(
      named.map(async (path) => {
        const answer = await bridge.ask(`/v1/${path}`, { as: null })
        return [path, answer.status, answer.headers.get('content-type')] as const
      }),
    )

    expect(types).toEqual([
      ['docs/favicon.png', 200, 'image/png'],
      ['docs/swagger-ui.css', 200, 'text/css; charset=utf-8'],
      ['docs/page.css', 200, 'text/css; charset=utf-8'],
      ['docs/guides', 200, 'text/html; charset=utf-8'],
      ['docs/guides/connect', 200, 'text/html; charset=utf-8'],
      ['docs/guides/clients', 200, 'text/html; charset=utf-8'],
      ['__api__', 200, 'application/json; charset=utf-8'],
      ['__api__', 200, 'application/json; charset=utf-8'],
      ['docs/swagger-ui-bundle.js', 200, 'text/javascript; charset=utf-8'],
      ['docs/page.js', 200, 'text/javascript; charset=utf-8'],
    ])
  })

  it('points to no other origin in its styles', async () => {
    const sheets = await Promise.all(
      ['swagger-ui.css', 'page.css', 'guides.css'].map((file) =>
        bridge.ask(`/v1/docs/${file}`, { as: null }),
      ),
    )

    const targets = sheets.flatMap(({ text }) => [...text.matchAll(/url\(["']?([^"')]{0,40})|@import/g)])

    expect(targets.filter(([, target]) => !target?.startsWith('data:'))).toEqual([])
  })

  it('has no other files', async () => {
    const answers = await Promise.all(
      ['absent.js', 'package.json', 'constructor', '%2e%2e%2fpackage.json'].map((file) =>
        bridge.ask(`/v1/docs/${file}`, { as: null }),
      ),
    )

    expect(new Set(answers.map(({ status, body }) => `${status} ${body.errno}`))).toEqual(
      new Set(['404 111']),
    )
  })
})

describe('docs_enabled = false', () => {
  it('removes the page and its files', async () => {
    const bridge = await startTestBridge({ settings: { docs_enabled: 'false' } })

    const answers = await Promise.all(
      ['/v1/docs', '/v1/docs/page.js', '/v1/docs/guides', '/v1/docs/guides/connect'].map((path) =>
        bridge.ask(path, { as: null }),
      ),
    )
    await bridge.stop()

    expect(new Set(answers.map(({ status, body }) => `${status} ${body.errno}`))).toEqual(
      new Set(['404 111']),
    )
  })
})
