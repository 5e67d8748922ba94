import type { Page } from 'playwright-core'
import { collectionKeys, decryptRecord, encryptRecord, keyPairFromHex } from '../../src/client/crypto.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { desk, startBrowser, type OpenOptions, type TestBrowser } from './browser.ts'

export const markup = '<img src=x onerror="globalThis.executed = 1"><script>globalThis.executed = 2</script>'

interface ExplorerOptions extends OpenOptions {
  /** @default the bridge's first user, who has sample data */
  user?: SandboxUser
  /** @default the first */
  view?: string
}

/** A bridge with the explorer over sample data, and a browser; a desktop window by default. */
export interface ExplorerWorld {
  bridge: TestBridge
  browser: TestBrowser
  /** A user with little data, for tests that open an account several times. */
  friend: SandboxUser
  /** The address of the page. */
  url: string
  /** Opens an account by pasting its lines, waits until everything is read, and goes to a view. */
  open(options?: ExplorerOptions): Promise<Page>
  /** One page of the first user for all tests that only look at the account; at this view, with nothing open, sorted or searched. */
  look(view: string): Promise<Page>
  stop(): Promise<void>
}

/** Every page that is opened decrypts all records of `history`. */
export async function startExplorer({ history }: { history: number }): Promise<ExplorerWorld> {
  const bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
  fillSampleData(bridge.sandbox, bridge.user, { history })
  await addUnusualBookmarks(bridge)
  const friend = bridge.sandbox.addUser('friend')
  fillSampleData(bridge.sandbox, friend, { bookmarks: 40, history: 10 })
  const browser = await startBrowser()
  const url = `${bridge.url}/v1/explore`
  let shared: Page | null = null

  async function open({ user = bridge.user, view, ...options }: ExplorerOptions = {}): Promise<Page> {
    const page = await browser.open(url, { viewport: desk, ...options })
    await connectWith(page, linesFor(user))
    await isRead(page)
    if (view !== undefined) await choose(page, view)
    return page
  }

  return {
    bridge,
    browser,
    friend,
    url,
    open,
    async look(view) {
      shared ??= await open({ isShared: true })
      await shared.bringToFront()
      await shared.evaluate(startAgain, view)
      return shared
    },
    async stop() {
      await browser.stop()
      await bridge.stop()
    },
  }
}

/** In the page: closes what is open, clears search, order and filter, and draws a view anew. */
function startAgain(view: string): void {
  for (const dialog of document.querySelectorAll('dialog')) dialog.close()
  for (const menu of document.querySelectorAll<HTMLElement>(':popover-open')) menu.hidePopover()
  for (const id of ['search', 'order', 'tag']) (document.getElementById(id) as HTMLInputElement).value = ''
  for (const name of ['devices', view]) document.querySelector<HTMLElement>(`[data-view=${name}]`)!.click()
}

/** An undecryptable record, one whose title is markup, and one with a URL that must not become a link. */
async function addUnusualBookmarks({ sandbox, user }: TestBridge): Promise<void> {
  const [keys] = sandbox.records(user, 'crypto')
  const keysOf = await collectionKeys(keyPairFromHex(user.syncKey.toString('hex')), keys!)
  const keyPair = keysOf('bookmarks')
  const stored = sandbox.records(user, 'bookmarks').find(({ id }) => id === 'unfiled')!
  const folder = await decryptRecord(keyPair, stored)
  const made = [
    { id: 'markupmarkup', title: markup, bmkUri: 'https://markup.example.org/' },
    { id: 'scriptscript', title: 'A script', bmkUri: 'javascript:globalThis.executed=3' },
  ].map((bookmark) => ({ ...bookmark, type: 'bookmark', parentid: 'unfiled' }))
  const children = [...made.map(({ id }) => id), ...(folder.children as string[])]
  const clear = [...made, { ...folder, children }]
  const records = clear.map(async (record) => ({
    id: record.id,
    payload: await encryptRecord(keyPair, record),
  }))
  sandbox.write(user, 'bookmarks', [
    ...(await Promise.all(records)),
    { id: 'foreignrecor', payload: stored.payload },
  ])
}

/** The lines that Firefox prints for an account. */
export function linesFor(user: SandboxUser, token = user.bearerToken()): string {
  const { clientState, keyId, syncKey } = user
  return `BUCKET=${clientState}\nKEY_ID=${keyId}\nBEARER_TOKEN=${token}\nSYNC_KEY=${syncKey.toString('hex')}\n`
}

/** Pastes lines into the form, and connects. */
export async function connectWith(page: Page, lines: string): Promise<void> {
  await page.locator('#connect:not([hidden])').waitFor()
  await page.evaluate((pasted) => {
    const clipboardData = new DataTransfer()
    clipboardData.setData('text', pasted)
    const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })
    document.querySelector('input[name=token]')!.dispatchEvent(event)
  }, lines)
  await page.click('#open')
}

/** Waits until everything is read. Rejects if the page shows an error. */
export async function isRead(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const trouble = document.querySelector<HTMLElement>('#trouble:not([hidden])')
    if (trouble?.offsetParent) throw new Error(trouble.innerText)
    const counts = [...document.querySelectorAll('#nav small')]
    return counts.length > 5 && counts.every(({ textContent }) => textContent !== '…')
  })
}

/** The page's summary after searching for a word. */
export async function lookFor(page: Page, word: string): Promise<string[]> {
  await page.fill('#search', word)
  await page.locator('#found strong').getByText(word, { exact: true }).waitFor()
  return (await page.locator('#found').innerText()).split('\n').slice(1)
}

export const choose = (page: Page, view: string) => page.click(`[data-view=${view}]`)

/** The links of rows to their records. Links to sites open another tab. */
export const detailsLinks = (page: Page) => page.locator('#view .row a:not([target])')

/** The values of the form's fields. */
export const formValues = (page: Page) =>
  page
    .locator('#credentials input[name]')
    .evaluateAll((all) => all.map((each) => (each as HTMLInputElement).value))

/** The name of the focused field. */
export const focusedField = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute('name'))

/** The text of the focused element. */
export const focusedText = (page: Page) =>
  page.evaluate(() => (document.activeElement as HTMLElement).innerText)

/** The rows, once drawn: in the frame after the list has arrived. */
export async function titles(page: Page): Promise<string[]> {
  await page.locator('.row-title').first().waitFor()
  return page.locator('.row-title').allInnerTexts()
}

/** The contents of the file that a menu button saves. */
export async function download(page: Page, button: string) {
  await page.click('#download')
  return fileFrom(page, button)
}

/** The contents of the file that is saved when this is clicked. */
export async function fileFrom(page: Page, button: string): Promise<{ name: string; text: string }> {
  const [file] = await Promise.all([page.waitForEvent('download'), page.click(button)])
  return { name: file.suggestedFilename(), text: await Bun.file((await file.path())!).text() }
}
