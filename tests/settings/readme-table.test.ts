import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { settingsTable } from '../support/settings-table.ts'

describe('the settings in README.md', () => {
  it('are those that there are', async () => {
    const readme = await Bun.file(join(import.meta.dir, '../../README.md')).text()

    expect(readme).toContain(`\n${settingsTable()}`)
  })
})
