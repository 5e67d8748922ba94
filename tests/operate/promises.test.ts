import { describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Glob } from 'bun'

import { brokenPromises, interfacePages, textOf } from '../../.ci/interface-page.ts'
import { logEvents } from '../../src/observability/log-events.ts'
import { removedSettings } from '../../src/settings/schema.ts'

const pages = interfacePages()
const names = pages[0]!
const text = readFileSync(names.path, 'utf8')

describe.each(pages.map((page) => [basename(page.path), page] as const))('docs/%s', (_, page) => {
  const written = readFileSync(page.path, 'utf8')

  it('promises nothing that the code no longer has', () => {
    expect(brokenPromises(written, page)).toEqual([])
  })

  it('has every name of the code; "make pages" adds new ones', () => {
    expect(written).toBe(textOf(page))
  })
})

describe('a removed name', () => {
  it('comes with instructions', () => {
    const sentences = pages.flatMap((page) => {
      const sections = page.sections.map((section) => ({
        ...section,
        entries: section.entries.filter(([name]) => name !== 'port' && name !== 'redis error'),
      }))
      return brokenPromises(readFileSync(page.path, 'utf8'), { ...page, sections })
    })

    expect(sentences).toEqual([
      '1.x promises the setting "port", and the code no longer has it: bring it back, or add it to removedSettings in ' +
        'src/settings/schema.ts, so that a start warns of it',
      '1.x promises the log event "redis error", and the code no longer has it: bring it back, or delete its line from ' +
        'docs/log-events-and-metrics.md: if a release had it, say so in CHANGELOG.md, and release 2.0',
    ])
  })

  it('may be a setting that causes a warning at the start', () => {
    const [gone] = removedSettings
    const earlier = text.replace('`port`, ', `\`port\`, \`${gone}\`, `)

    expect(earlier).not.toBe(text)
    expect(brokenPromises(earlier, names)).toEqual([])
  })
})

describe('the levels of log events', () => {
  it('are those at which the code logs them', async () => {
    const root = join(import.meta.dir, '../..')
    const sources = await Promise.all(
      Array.from(new Glob('src/**/*.ts').scanSync(root), (path) => Bun.file(join(root, path)).text()),
    )
    const calls = sources.flatMap((source) => [
      ...source.matchAll(/\blog\.(debug|info|warning|error)\('([^']+)'/g),
    ])
    const byLevel: Record<string, object> = logEvents
    const wrong = calls.filter(([, level, event]) => !Object.hasOwn(byLevel[level!]!, event!))

    expect(calls.length).toBeGreaterThan(15)
    expect(wrong.map(([call]) => call)).toEqual([])
  })
})
