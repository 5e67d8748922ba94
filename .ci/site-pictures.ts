import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { desk, phone, startBrowser, type Viewport } from '../tests/browser/browser.ts'
import { choose, isRead } from '../tests/browser/explorer.ts'
import { start } from '../tests/support/executable.ts'

/** Each navigates to its subject, and returns the part to capture; null for the whole page. */
const views = {
  async explorer(page: Page) {
    await choose(page, 'bookmarks')
    await page.locator('.bookmark .row-title').first().waitFor()
    return null
  },
  async record(page: Page) {
    await page.locator('.row-main', { hasText: 'MDN Web Docs' }).first().click()
    const dialog = page.getByRole('dialog')
    // It is drawn last.
    await dialog.getByText(/^changed /).waitFor()
    const { x, y, width, height } = (await dialog.boundingBox())!
    // Without the edge, which may lie between two rows of pixels.
    return { x: Math.ceil(x) + 1, y: Math.ceil(y) + 1, width: width - 3, height: Math.floor(height) - 3 }
  },
  async phone(page: Page) {
    await page.setViewportSize(phone)
    await choose(page, 'devices')
    await page.locator('.row').first().waitFor()
    return null
  },
}

type PictureName = keyof typeof views

/** The space that a page reserves for each of them until it is loaded. */
export const pictureSizes: Record<PictureName, Viewport> = {
  explorer: desk,
  record: { width: 1017, height: 653 },
  phone,
}

/** Takes screenshots of the explorer over the data of a sandbox, in both colour schemes: `NAME.png` and `NAME-dark.png`. */
export async function takePictures(folder: string): Promise<void> {
  await using sandbox = start(['sandbox', '--port', '0'])
  const browser = await startBrowser()
  try {
    const [, link] = await sandbox.line(/^(http\S+\/explore#\S+)$/)
    const page = await browser.open(link!, { viewport: desk })
    await isRead(page)
    for (const name of ['explorer', 'record', 'phone'] as const) {
      const clip = await views[name](page)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        const file = colorScheme === 'dark' ? `${name}-dark.png` : `${name}.png`
        await page.screenshot({ path: join(folder, file), ...(clip && { clip }) })
      }
      await page.keyboard.press('Escape')
    }
  } finally {
    await browser.stop()
  }
}
