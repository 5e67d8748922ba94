import { afterAll, describe, expect, it } from 'bun:test'
import { expectError } from '../spec/expectations.ts'
import { startTestBridge } from '../support/bridge.ts'

const bridge = await startTestBridge()
afterAll(() => bridge.stop())

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

describe('GET /docs', () => {
  it('is an HTML page under a policy that lets it load only from its own origin', async () => {
    const { status, headers, text } = await bridge.ask('/v1/docs', { as: null })

    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(headers.get('content-security-policy')).toBe(policy)
    expect(text).toStartWith('<!doctype html>')
  })

  it('has no other files', async () => {
    for (const file of ['absent.js', 'package.json', 'constructor', '%2e%2e%2fpackage.json'])
      expectError(await bridge.ask(`/v1/docs/${file}`, { as: null }), 404, 111)
  })
})

describe('docs_enabled = false', () => {
  it('removes the page and its files', async () => {
    await using plain = await startTestBridge({ settings: { docs_enabled: 'false' } })

    for (const path of ['/v1/docs', '/v1/docs/page.js', '/v1/docs/guides', '/v1/docs/guides/connect'])
      expectError(await plain.ask(path, { as: null }), 404, 111)
  })
})
