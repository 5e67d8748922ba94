import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'

export interface Viewport {
  width: number
  height: number
}

export const desk: Viewport = { width: 1280, height: 860 }
export const phone: Viewport = { width: 390, height: 844 }

/** Where to keep a screenshot of that name. */
export const screenshot = (name: string) => join(import.meta.dir, '../../dist/screenshots', `${name}.png`)

export interface OpenOptions {
  /** @default a small one, because there is no GPU */
  viewport?: Viewport
  /** @default light */
  scheme?: 'light' | 'dark'
  /** The page is expected to log errors, so `endPages` ignores them. */
  mayFail?: boolean
}

/** The machine's Chromium, limited to loopback. */
export interface TestBrowser {
  /** Opens a page at an address. */
  open(address: string, options?: OpenOptions): Promise<Page>
  /**
   * Closes all pages; returns console errors and policy violations, uncaught exceptions, requests with a secret in their URL, and requests
   * to an origin other than the page's.
   */
  endPages(): Promise<string[]>
  stop(): Promise<void>
}

// Names don't resolve, so nothing can leave this machine. One does, because browsers trust 127.0.0.1 like https.
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP nas.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
]

// As long as a test may take, because slowness only shows that the machine is busy.
const patienceMs = 110_000

/** Starts the browser. Rejects if it is not installed, and names the package. */
export async function startBrowser(): Promise<TestBrowser> {
  const executablePath = Bun.which('chromium')
  if (!executablePath) {
    throw new Error(
      'Cannot find the program "chromium": install the package chromium (apt-get install chromium)',
    )
  }
  const browser = await chromium.launch({ executablePath, args: flags, timeout: patienceMs })
  let ends: (() => Promise<string[]>)[] = []
  return {
    async open(address, { viewport = { width: 800, height: 600 }, scheme = 'light', mayFail = false } = {}) {
      // Watches requests without intercepting, because interception would answer preflights.
      const page = await browser.newPage({ viewport, colorScheme: scheme })
      page.setDefaultTimeout(patienceMs)
      const requested = new Set<string>()
      const errors: string[] = []
      page.on('request', (request) => requested.add(request.url()))
      page.on('console', (message) => {
        if (message.type() === 'error') errors.push(message.text())
      })
      page.on('pageerror', (error) => errors.push(error.message))
      ends.push(async () => {
        const own = [address, page.url()].map((url) => new URL(url).origin)
        await page.close()
        const isWrong = (url: string) =>
          !own.includes(new URL(url).origin) || /SYNC_KEY|BEARER_TOKEN/.test(url)
        const wrong = requested.size === 0 ? ['nothing was requested'] : [...requested].filter(isWrong)
        return mayFail ? wrong : [...errors, ...wrong]
      })
      await page.goto(address)
      return page
    },
    async endPages() {
      const told = await Promise.all(ends.map((end) => end()))
      ends = []
      return told.flat()
    },
    stop: () => browser.close(),
  }
}
