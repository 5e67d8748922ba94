import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Glob } from 'bun'
import { makeSite, writePages } from '../../.ci/site.ts'
import { desk, phone, startBrowser, type TestBrowser } from '../browser/browser.ts'
import { accessibilityFaults } from '../browser/inspect.ts'
import { endAll } from '../support/executable.ts'
import { hasNoTerminals } from '../support/machine.ts'
import { temporaryFolder } from '../support/processes.ts'

const folder = temporaryFolder()
const source = 'https://example.org/sync-bridge'
/** The cast is recorded on a terminal. */
const describeMade = describe.skipIf(hasNoTerminals)
let browser: TestBrowser
let server: ReturnType<typeof serve>

beforeAll(async () => {
  if (hasNoTerminals) return
  const [started] = await Promise.all([startBrowser(), makeSite(folder.path, source)])
  browser = started
  server = serve()
}, 300_000)

afterEach(async () => expect(await browser.endPages()).toEqual([]))

afterAll(async () => {
  await browser?.stop()
  await server?.stop()
  endAll()
  folder[Symbol.dispose]()
})

/** Serves the site below a path, like hosts of static pages, to a browser, which alone runs the search and plays the cast. */
function serve() {
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ url }) {
      const path = new URL(url).pathname.replace(/^\/some\/where\//, '').replace(/^$/, 'index.html')
      const file = Bun.file(folder.file(path))
      return existsSync(folder.file(path)) ? new Response(file) : new Response(null, { status: 404 })
    },
  })
}

const address = (page: string) => `http://127.0.0.1:${server.port}/some/where/${page}`

describeMade('the site', () => {
  const pages = () => [...new Glob('**/*.html').scanSync(folder.path)]
  const read = (name: string) => readFileSync(folder.file(name), 'utf8')
  const idsOf = (html: string) => Array.from(html.matchAll(/ id="([^"]*)"/g), ([, id]) => id!)

  it('has links that lead to its own files and headings, or to other web sites', () => {
    const broken = pages().flatMap((page) =>
      Array.from(read(page).matchAll(/<(\w+)[^>]* (?:href|src|srcset)="([^"]*)"/g), ([, element, target]) => {
        if (element === 'a' && target!.startsWith('https://')) return null
        const [path, id] = target!.split('#')
        const file = path === '' ? folder.file(page) : resolve(dirname(folder.file(page)), path!)
        const isInside = !relative(folder.path, file).startsWith('..') && /\.\w+$/.test(file)
        if (isInside && existsSync(file) && (!id || idsOf(readFileSync(file, 'utf8')).includes(id)))
          return null
        return `${page}: ${target}`
      }),
    )

    expect(pages().length).toBeGreaterThan(20)
    expect(broken.length).toBeGreaterThan(500)
    expect(broken.filter(Boolean)).toEqual([])
  })

  it('has all guides, and the files that they link to as text', () => {
    const guides = [...new Glob('docs/*.md').scanSync('.')].map((path) => path.replace('docs/', ''))

    expect(guides.filter((name) => !pages().includes(name.replace(/\.md$/, '.html')))).toEqual([])
    expect(read('examples/tabs.html.txt')).toBe(readFileSync('docs/examples/tabs.html', 'utf8'))
    expect(read('index.html')).toContain(`git clone ${source} sync-bridge &amp;&amp; cd sync-bridge\n`)
  })

  it('is reproducible, except for pictures and cast', async () => {
    using again = temporaryFolder()
    await writePages(again.path, source)

    const names = [...new Glob('**/*').scanSync(folder.path)].filter((name) => !/\.png$|cast/.test(name))
    const differ = names.filter(
      (name) => !readFileSync(again.file(name)).equals(readFileSync(folder.file(name))),
    )
    expect(names.length).toBeGreaterThan(30)
    expect(differ).toEqual([])
  })
})

describeMade('the cast', () => {
  const lines = () => readFileSync(folder.file('sync-bridge.cast'), 'utf8').trimEnd().split('\n')
  const events = () =>
    lines()
      .slice(1)
      .map((line) => JSON.parse(line) as [number, string, string])
  const shown = () =>
    events()
      .flatMap(([, code, text]) => (code === 'o' ? [text] : []))
      .join('')

  it('shows connect, export and restore in about 20 seconds', () => {
    const [header] = lines().map((line) => JSON.parse(line))
    const times = events().map(([seconds]) => seconds)

    expect(header).toMatchObject({ version: 2, width: 92, height: 28 })
    expect(times).toEqual(times.toSorted((left, right) => left - right))
    expect(times.at(-1)).toBeWithin(15, 30)
    expect(shown()).toContain('$ sync-bridge connect\r\n')
    expect(shown()).toContain('Found 272 bookmarks, 3 devices\r\nConnected.')
    expect(shown()).toMatch(
      /\$ sync-bridge export bookmarks .*\r\n[^$]*Wrote 272 bookmarks to bookmarks.html\r\n/,
    )
    expect(shown()).toMatch(
      /\$ sync-bridge restore .* --write\r\n[^]*38 written\r\nTo take this back: .*\r\n\$ $/,
    )
  })

  it('shows no secret, and nothing of the machine that made it', () => {
    // The patterns of secrets in tests/run.sh.
    expect(shown()).not.toMatch(/eyJ[\w-]{20}|\d{13}-[\w-]{22}|[\w-]{43}=|[0-9a-f]{32}/)
    expect(shown()).not.toMatch(/\/(tmp|home|root|usr|work)\//)
  })
})

describeMade('the site in Chromium', () => {
  it('can be searched and read as files, without a server', async () => {
    const page = await browser.open(pathToFileURL(folder.file('index.html')).href, { viewport: desk })
    await page.getByLabel('Search').fill('SECRET replace')
    const results = page.getByRole('search').getByRole('link')
    await results.first().waitFor()
    const first = await results.first().innerText()
    await page.getByLabel('Search').press('Enter')
    await page.waitForURL('**/run.html#replace-the-secret')
    await page.locator('[rel=next]').click()
    await page.getByRole('navigation', { name: 'Pages' }).getByText('Get started').click()
    const started = page.url()
    await page.locator('[rel=prev]').click()

    expect(first).toBe('Run a bridge: Replace the secret')
    expect(started).toEndWith('/get-started.html')
    expect(page.url()).toEndWith('/index.html')
  })

  it('plays the cast, whose last frame it shows first', async () => {
    const page = await browser.open(address(''), { viewport: desk })
    const terminal = page.locator('#cast .ap-term')
    await terminal.getByText('38 written').waitFor()
    const before = await terminal.innerText()
    await page.locator('#cast .ap-overlay-start').click()
    await terminal.getByText('38 written').waitFor({ state: 'detached' })
    await terminal.getByText('on an empty line, or Ctrl+D.').waitFor()
    const after = await terminal.innerText()

    expect(before).toContain('$ sync-bridge restore')
    expect(after).not.toContain('restore')
  })

  it.each([
    ['desk', desk, 'light'],
    ['phone', phone, 'dark'],
  ] as const)('has an accessible front page: %s %p %s', async (_, viewport, scheme) => {
    const page = await browser.open(address(''), { viewport, scheme })
    await page.locator('#cast').getByText('38 written').waitFor()
    const faults = await accessibilityFaults(page)
    const width = await page.evaluate(() => document.documentElement.scrollWidth)
    const pictures = await page.locator('picture img').evaluateAll((images) => {
      return images.map((image) => (image as HTMLImageElement).currentSrc)
    })

    const ending = scheme === 'dark' ? '-dark.png' : '.png'
    expect(faults).toEqual([])
    expect(width).toBe(viewport.width)
    expect(pictures).toEqual(
      ['explorer', 'record', 'phone'].map((name) => address(`images/${name}${ending}`)),
    )
  })
})
