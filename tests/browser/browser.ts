import { chromium, type BrowserContext, type Page } from 'playwright-core'

export interface Viewport {
  width: number
  height: number
}

export const desk: Viewport = { width: 1280, height: 860 }
export const phone: Viewport = { width: 390, height: 844 }

export interface OpenOptions {
  /** @default a small one, because there is no GPU */
  viewport?: Viewport
  /** @default light */
  scheme?: 'light' | 'dark'
  /** The page is expected to log errors, so `endPages` ignores them. */
  mayFail?: boolean
  /** `endPages` checks the page and leaves it open, because several tests use it. */
  isShared?: boolean
  /** Origins that the page may ask besides its own. */
  askedOrigins?: string[]
  /** Not in the tab of an earlier page, because the test changes the tab itself. */
  isOwnTab?: boolean
}

/** The machine's Chromium, limited to loopback: only a browser has focus, layout, policies and origins. */
export interface TestBrowser {
  /** Opens a page at an address. */
  open(address: string, options?: OpenOptions): Promise<Page>
  /**
   * Ends all pages except shared ones; returns console errors and policy violations, uncaught exceptions, requests with a secret in their
   * URL, and requests to an origin other than the page's.
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

interface Chromium {
  context: BrowserContext
  /** The second page of a tab takes a third of the CPU time of the first, which is seconds. */
  idleTabs: Page[]
}

/** One for all files of a worker, because its start takes seconds of CPU time. It ends with the worker. */
let running: Promise<Chromium> | null = null

async function launchChromium(): Promise<Chromium> {
  const executablePath = Bun.which('chromium')
  if (!executablePath) {
    throw new Error(
      'Cannot find the program "chromium": install the package chromium (apt-get install chromium)',
    )
  }
  const browser = await chromium.launch({ executablePath, args: flags, timeout: patienceMs })
  browser.on('disconnected', () => (running = null))
  const context = await browser.newContext()
  context.setDefaultTimeout(patienceMs)
  return { context, idleTabs: [] }
}

/** Starts the browser, unless it runs. Rejects if it is not installed, and names the package. */
export async function startBrowser(): Promise<TestBrowser> {
  const { context, idleTabs } = await (running ??= launchChromium())
  let opened: { page: Page; isShared: boolean; end(): Promise<string[]> }[] = []
  return {
    async open(address, options = {}) {
      const { viewport = { width: 800, height: 600 }, scheme = 'light', isShared = false } = options
      const page = (options.isOwnTab ? undefined : idleTabs.pop()) ?? (await context.newPage())
      // A page behind another one draws a frame a second.
      await page.bringToFront()
      await page.setViewportSize(viewport)
      await page.emulateMedia({ colorScheme: scheme })
      // Watches requests without intercepting, because interception would answer preflights.
      const requested = new Set<string>()
      const errors: string[] = []
      page.on('request', (request) => requested.add(request.url()))
      page.on('console', (message) => {
        if (message.type() === 'error') errors.push(message.text())
      })
      page.on('pageerror', (error) => errors.push(error.message))
      const end = async () => {
        const own = [address, page.url(), ...(options.askedOrigins ?? [])].map((url) => new URL(url).origin)
        if (options.isOwnTab) await page.close()
        else if (!isShared) idleTabs.push(await emptied(page))
        const isWrong = (url: string) =>
          !own.includes(new URL(url).origin) || /SYNC_KEY|BEARER_TOKEN/.test(url)
        const wrong = requested.size === 0 ? ['nothing was requested'] : [...requested].filter(isWrong)
        return options.mayFail ? wrong : [...errors.splice(0), ...wrong]
      }
      opened.push({ page, isShared, end })
      await page.goto(address)
      return page
    },
    async endPages() {
      const told = await Promise.all(opened.map(({ end }) => end()))
      opened = opened.filter(({ isShared }) => isShared)
      return told.flat()
    },
    async stop() {
      for (const { page } of opened) await page.close()
      await context.clearPermissions()
    },
  }
}

/** The tab without its page, and what that has stored and the test has set. */
async function emptied(tab: Page): Promise<Page> {
  await tab.evaluate(() => sessionStorage.clear())
  tab.removeAllListeners()
  await tab.unrouteAll()
  await tab.goto('about:blank')
  return tab
}
