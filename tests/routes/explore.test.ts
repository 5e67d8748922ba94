import { afterAll, describe, expect, it } from 'bun:test'
import { expectError } from '../spec/expectations.ts'
import { startTestBridge } from '../support/bridge.ts'

const bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
afterAll(() => bridge.stop())

describe('GET /explore', () => {
  const ask = (path: string, method = 'GET') => bridge.ask(path, { as: null, method })

  it("is a page that may only load from its own origin, can't be framed, and creates no markup from text", async () => {
    const { status, headers, text } = await ask('/v1/explore')

    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; " +
        "require-trusted-types-for 'script'; trusted-types 'none'",
    )
    expect(text).toStartWith('<!doctype html>')
  })

  it('has no other files, and no other methods', async () => {
    const files = [
      'absent.js', 'explore.html/x', 'constructor', '__proto__', '%2e%2e%2fpackage.json', 'page.css',
    ] // prettier-ignore

    for (const file of files) expectError(await ask(`/v1/explore/${file}`), 404, 111)
    const [head, put] = [await ask('/v1/explore', 'HEAD'), await ask('/v1/explore', 'PUT')]

    expect([head.status, put.status, put.headers.get('allow')]).toEqual([200, 405, 'GET, HEAD, OPTIONS'])
  })
})

describe('explorer_enabled, which is false by default', () => {
  it('removes the page and its files', async () => {
    await using plain = await startTestBridge()

    for (const path of ['/v1/explore', '/v1/explore/main.ts', '/v1/explore/client/crypto.ts'])
      expectError(await plain.ask(path, { as: null }), 404, 111)
  })
})
