import { afterAll, describe, expect, it } from 'bun:test'
import { expectError } from '../spec/expectations.ts'
import { startTestBridge } from '../support/bridge.ts'

const bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
afterAll(() => bridge.stop())

const ask = (path: string, method = 'GET') => bridge.ask(path, { as: null, method })
const ownOrigin =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

describe.each([
  ['docs', ownOrigin],
  // It creates no markup from text.
  ['explore', `${ownOrigin}; require-trusted-types-for 'script'; trusted-types 'none'`],
])('GET /%s', (name, policy) => {
  it("is a page that may only load from its own origin, and can't be framed", async () => {
    const { status, headers, text } = await ask(`/v1/${name}`)

    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('content-security-policy')).toBe(policy)
    expect(text).toStartWith('<!doctype html>')
  })

  it('has no other files, and no other methods', async () => {
    for (const file of ['absent.js', 'package.json', 'constructor', '__proto__', '%2e%2e%2fpackage.json'])
      expectError(await ask(`/v1/${name}/${file}`), 404, 111)
    const [head, put] = [await ask(`/v1/${name}`, 'HEAD'), await ask(`/v1/${name}`, 'PUT')]

    expect([head.status, put.status, put.headers.get('allow')]).toEqual([200, 405, 'GET, HEAD, OPTIONS'])
  })
})

describe('docs_enabled = false, and explorer_enabled, which is false by default', () => {
  it('remove the pages and their files', async () => {
    await using plain = await startTestBridge({ settings: { docs_enabled: 'false' } })

    for (const path of [
      'docs',
      'docs/page.js',
      'docs/guides',
      'docs/guides/connect',
      'explore',
      'explore/main.ts',
    ])
      expectError(await plain.ask(`/v1/${path}`, { as: null }), 404, 111)
  })
})
