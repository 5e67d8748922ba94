import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'

export interface Viewport {
  width: number
  height: number
}

/** A page, and what went wrong in it. */
export interface WatchedPage {
  page: Page
  /** The URL of every request. */
  requested: string[]
  /** What the console called an error, violations of a policy among it, and what was thrown. */
  errors: string[]
}

/** The machine's Chromium, cut off from every host but loopback. */
export interface TestBrowser {
  /** Opens a page: a small one unless told otherwise, because pixels are drawn without the help of a graphics card. */
  open(viewport?: Viewport): Promise<WatchedPage>
  stop(): Promise<void>
}

// Names resolve nowhere, so that nothing could leave this machine; addresses of this machine need no names.
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
]

/** Starts the browser. Rejects when the machine has none, and says which package has it. */
export async function startBrowser(): Promise<TestBrowser> {
  const executablePath = Bun.which('chromium')
  if (!executablePath) {
    throw new Error(
      'Cannot find the program "chromium": install the package chromium (apt-get install chromium)',
    )
  }
  const browser: Browser = await chromium.launch({ executablePath, args: flags })
  return {
    async open(viewport = { width: 800, height: 600 }) {
      // Requests are watched, not intercepted: interception would answer preflights by itself.
      const page = await browser.newPage({ viewport })
      const requested: string[] = []
      const errors: string[] = []
      page.on('request', (request) => requested.push(request.url()))
      page.on('console', (message) => {
        if (message.type() === 'error') errors.push(message.text())
      })
      page.on('pageerror', (error) => errors.push(error.message))
      return { page, requested, errors }
    },
    stop: () => browser.close(),
  }
}
