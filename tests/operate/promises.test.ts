import { describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'

import { brokenPromises, interfacePage, interfacePath, interfaceSections } from '../../.ci/interface-page.ts'
import { removedSettings } from '../../src/settings/schema.ts'

const page = readFileSync(interfacePath, 'utf8')
const sections = interfaceSections()

describe('docs/interface.md', () => {
  it('promises nothing that the code no longer has', () => {
    expect(brokenPromises(page, sections)).toEqual([])
  })

  it('has every name of the code; "make promises" adds new ones', () => {
    expect(page).toBe(interfacePage(sections))
  })

  it('says what to do about a name that is gone', () => {
    const without = sections.map((section) => ({
      ...section,
      entries: section.entries.filter(([name]) => name !== 'port' && name !== 'redis error'),
    }))

    expect(brokenPromises(page, without)).toEqual([
      '1.x promises the setting "port", and the code no longer has it: bring it back, or add it to removedSettings in ' +
        'src/settings/schema.ts, so that a start warns of it',
      '1.x promises the log event "redis error", and the code no longer has it: bring it back, or delete its line from ' +
        'docs/interface.md, say so in CHANGELOG.md, and release 2.0',
    ])
  })

  it('lets a setting go that a start warns of', () => {
    const [gone] = removedSettings
    const earlier = page.replace('- `port`\n', `- \`port\`\n- \`${gone}\`\n`)

    expect(earlier).not.toBe(page)
    expect(brokenPromises(earlier, sections)).toEqual([])
  })
})
