import { afterAll, describe, expect, it } from 'bun:test'
import { basename } from 'node:path'
import { Glob } from 'bun'
import { startTestBridge } from '../support/bridge.ts'
import type { SearchSection } from '../../src/guides/guides-search.ts'

const settings = { explorer_enabled: 'true', project_name: 'Ours & <more>' }
const bridge = await startTestBridge({ settings })
afterAll(() => bridge.stop())

const open = (path: string) => bridge.ask(path, { as: null })
const linksOf = (html: string) => [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, target]) => target!)

describe('GET /docs/guides', () => {
  it('links to the enabled pages, and to every guide', async () => {
    const { text, headers } = await open('/v1/docs/guides')

    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(text).toContain('<h1>Ours &amp; &lt;more&gt;</h1>')
    expect(linksOf(text).slice(0, 9).join(' ')).toBe(
      'favicon.png guides.css guides-search.js guides ../explore ../docs ../ ../explore ../docs',
    )
    const shown = linksOf(text).filter((target) => target.startsWith('guides/'))
    expect(shown).toContain('guides/troubleshooting')
    expect(shown).toContain('guides/run')
  })

  it('lists every page of the documentation, with its purpose', async () => {
    const { text } = await open('/v1/docs/guides/promises')
    const { text: front } = await open('/v1/docs/guides')
    const pages = [...new Glob('docs/*.md').scanSync('.')].map((path) => basename(path, '.md'))

    expect(pages.filter((name) => !linksOf(text).includes(name))).toEqual([])
    expect(front).toContain('<span>How to install a bridge, with TLS,')
    expect(front).not.toContain('<span></span>')
  })

  it('links from each page to the previous and the next one', async () => {
    const { text } = await open('/v1/docs/guides/connect')

    expect(text).toContain('<a rel="prev" href="your-data">← Your data</a>')
    expect(text).toContain('<a rel="next" href="backup">Back up every night →</a>')
  })

  it('has the sections of all pages for the search', async () => {
    const { headers, text } = await open('/v1/docs/guides/search.js')
    const sections = JSON.parse(text.replace('globalThis.searchSections = ', '')) as SearchSection[]

    const found = sections.find(({ id }) => id === 'replace-the-secret')
    expect(headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(found).toMatchObject({ page: 'run', title: 'Run a bridge', heading: 'Replace the secret' })
    expect(found!.text).toContain('Remove cache_hmac_secret_previous , and restart again.')
    expect(sections.filter((section) => /<\w|&amp;/.test(section.heading))).toEqual([])
  })

  it('links to guides whose links all work, including anchors', async () => {
    const ids = new Map<string, Set<string> | null>()
    const broken: string[] = []
    const follow = async (address: URL): Promise<void> => {
      if (ids.has(address.pathname)) return
      const { status, headers, text } = await open(address.pathname)
      const isPage = status === 200 && headers.get('content-type')!.startsWith('text/html')
      ids.set(address.pathname, null)
      if (status !== 200) broken.push(`${address.pathname}: ${status}`)
      // The other pages have their own tests.
      if (!isPage || !address.pathname.includes('/docs/guides')) return
      ids.set(address.pathname, new Set([...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id!)))
      for (const target of linksOf(text)) {
        const there = new URL(target, address)
        if (there.origin !== address.origin) continue
        await follow(there)
        const known = ids.get(there.pathname)
        const id = decodeURIComponent(there.hash.slice(1))
        if (id !== '' && !known?.has(id)) broken.push(`${address.pathname} leads to ${target}`)
      }
    }

    await follow(new URL('/v1/docs/guides', bridge.url))

    expect(broken).toEqual([])
    expect(ids.size).toBeGreaterThan(30)
  })

  it('serves pages under a policy that only runs our script, with all their files', async () => {
    const page = await open('/v1/docs/guides/promises')
    const example = await open('/v1/docs/guides/examples/python/first_steps.py')

    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'")
    expect(page.text).toContain('<title>Promises · Ours &amp; &lt;more&gt;</title>')
    expect(page.text.match(/<script.*?>/g)).toEqual(['<script defer src="../guides-search.js">'])
    expect(example.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(example.text).toBe(await Bun.file('docs/examples/python/first_steps.py').text())
  })

  it.each(['nothing', 'run.md', 'constructor', 'docs/run.md', '%2e%2e/run', 'run/', 'x/y'])(
    'has no guide %s',
    async (name) => {
      const { status, body } = await open(`/v1/docs/guides/${name}`)

      expect([status, body.errno]).toEqual([404, 111])
    },
  )
})

describe('GET /', () => {
  const leads = async (accept: string, method = 'GET') => {
    const response = await fetch(bridge.url, { method, headers: { Accept: accept }, redirect: 'manual' })
    return [response.status, response.headers.get('location')?.replace(bridge.url, '')]
  }

  it.each([
    'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
    'text/html, application/json;q=0.9',
  ])('shows a browser the guides and pages: Accept: %s', async (accept) => {
    expect(await leads(accept)).toEqual([307, '/v1/docs/guides'])
    expect(await leads(accept, 'HEAD')).toEqual([307, '/v1/docs/guides'])
    expect(await leads(accept, 'POST')).toEqual([307, '/v1/'])
  })

  it.each(['*/*', 'application/json, text/plain, */*', 'text/html;q=0.5, */*', 'text/html;q=x'])(
    'redirects a program to the root view: Accept: %s',
    async (accept) => {
      expect(await leads(accept)).toEqual([307, '/v1/'])
    },
  )

  it('shows a browser the enabled pages', async () => {
    const [explorer, none] = await Promise.all([
      startTestBridge({ settings: { docs_enabled: 'false', explorer_enabled: 'true' } }),
      startTestBridge({ settings: { docs_enabled: 'false' } }),
    ])
    const locations = await Promise.all(
      [explorer, none].map(async ({ url }) => {
        const answer = await fetch(url, { headers: { Accept: 'text/html' }, redirect: 'manual' })
        return answer.headers.get('location')!.replace(url, '')
      }),
    )
    const help = await explorer.ask('/v1/explore', { as: null })
    await Promise.all([explorer.stop(), none.stop()])

    expect(locations).toEqual(['/v1/explore', '/v1/'])
    expect(help.text).not.toContain('docs/guides')
    expect((await open('/v1/explore')).text).toContain('href="docs/guides/connect"')
  })
})
