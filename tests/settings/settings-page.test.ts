import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { settingsPage } from '../../.ci/settings-page.ts'

const page = (name: string) => Bun.file(join(import.meta.dir, '../..', name)).text()

describe('docs/settings.md', () => {
  it('has all settings; "make pages" adds new ones', async () => {
    expect(await page('docs/settings.md')).toBe(settingsPage())
  })
})
