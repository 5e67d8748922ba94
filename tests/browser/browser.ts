import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'

export interface Viewport {
  width: number
  height: number
}

export const desk: Viewport = { width: 1280, height: 860 }
export const phone: Viewport = { width: 390, height: 844 }

/** Where a picture of this name is kept for people to look at. */
export const screenshot = (name: string) => join(import.meta.dir, '../../dist/screenshots', `${name}.png`)

export interface OpenOptions {
  /** @default a small one, because pixels are drawn without the help of a graphics card */
  viewport?: Viewport
  /** @default light */
  scheme?: 'light' | 'dark'
  /** Errors are part of the test: `endPages` does not tell them. */
  mayFail?: boolean
}

/** The machine's Chromium, cut off from every host but loopback. */
export interface TestBrowser {
  /** Opens a page at an address. */
  open(address: string, options?: OpenOptions): Promise<Page>
  /**
   * Closes all pages, and tells what went wrong in them: what the console called an error, violations of a policy among it, what
   * was thrown, and requests with a secret in their address, or to another origin than those that the page began and ended with.
   */
  endPages(): Promise<string[]>
  stop(): Promise<void>
}

// Names resolve nowhere, so that nothing could leave this machine. One does, because browsers trust 127.0.0.1 like https.
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

// As long as a test may take, because a busy machine says nothing about a page.
const patienceMs = 110_000

/** Starts the browser. Rejects when the machine has none, and says which package has it. */
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
      // Requests are watched, not intercepted: interception would answer preflights by itself.
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
