import { afterAll, describe, expect, it } from 'bun:test'
import { explorerFiles } from '../../src/explorer/page-files.ts'
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

  it('comes with all files that it loads, none of them external and no script with types', async () => {
    const seen = new Map<string, string>()
    const follow = async (path: string): Promise<void> => {
      if (seen.has(path)) return
      const { status, headers, text } = await ask(`/v1/${path}`)
      seen.set(path, `${status} ${headers.get('content-type')}`)
      if (headers.get('content-type')!.startsWith('text/javascript'))
        new Bun.Transpiler({ loader: 'js' }).scan(text)
      const named = text.matchAll(/(?:src|href)="(explore\/[^"]+)"|from ?"\.\/([^"]+)"/g)
      const folder = path.slice(0, path.lastIndexOf('/') + 1)
      for (const [, file, module] of named) await follow(file ?? folder + module)
    }

    await follow('explore')

    const files = Object.keys(explorerFiles).map((name) => {
      if (name === 'explore.html') return ['explore', '200 text/html; charset=utf-8']
      return [`explore/${name}`, `200 text/${name.endsWith('.css') ? 'css' : 'javascript'}; charset=utf-8`]
    })
    expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(files))
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
