import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { settingsPage } from '../../.ci/settings-page.ts'
import { collectionGate, settingsSchema } from '../../src/settings/schema.ts'

const page = (name: string) => Bun.file(join(import.meta.dir, '../..', name)).text()

describe('docs/settings.md', () => {
  it('has all settings', async () => {
    expect(await page('docs/settings.md')).toBe(settingsPage())
  })
})

describe('the README', () => {
  it('names settings that exist, and links to the page with all of them', async () => {
    const [section] = (await page('README.md')).split('\n## Settings\n')[1]!.split('\n## ') as [string]
    const named = [...section.matchAll(/`([a-z_]+(?:<collection>[a-z_]+)?)(?: = [^`]*)?`/g)]
    const names = named.map(([, name]) => name!.replace('<collection>', 'tabs'))

    expect(section).toContain('(docs/settings.md)')
    expect(names.length).toBeGreaterThan(5)
    expect(names.filter((name) => !(name in settingsSchema) && !collectionGate(name))).toEqual([])
  })
})
