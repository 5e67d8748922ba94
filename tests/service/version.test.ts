import { afterAll, describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { Glob } from 'bun'
import { manualPages } from '../../.ci/manual-page.ts'
import { startTestBridge } from '../support/bridge.ts'

const root = join(import.meta.dir, '../..')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
const bridge = await startTestBridge()
afterAll(() => bridge.stop())

describe('the version in package.json', () => {
  it('is that of the root view, the version resource, the API document and the metrics', async () => {
    const [rootView, build, document, metrics] = await Promise.all(
      ['/v1/', '/v1/__version__', '/v1/__api__', '/v1/__metrics__'].map((path) =>
        bridge.ask(path, { as: null }),
      ),
    )

    expect(rootView!.body.project_version).toBe(version)
    expect(build!.body.version).toBe(version)
    expect(document!.body.info.version).toBe(version)
    expect(metrics!.text).toContain(`sync_bridge_build_info{version="${version}",`)
  })

  it('is sent to the token server and the storage, after the name of the client', async () => {
    await bridge.ask('/collections', { headers: { 'User-Agent': 'Someone/2' } })

    const { token, storage } = bridge.sandbox.requests
    const product = `sync-bridge/${version}`
    expect(token.entries.at(-1)!.headers.get('user-agent')).toBe(product)
    expect(storage.entries.at(-1)!.headers.get('user-agent')).toBe(`Someone/2 ${product}`)
  })

  it('is that of the manual page, and of every file or image name of a release', () => {
    const named = /sync[-_]bridge(?:_client)?[-_:](\d+\.\d+\.\d+)/g
    const patterns = ['*.md', 'docs/**/*', 'clients/*/*.md', '.github/**/*']
    const files = patterns.flatMap((pattern) => [...new Glob(pattern).scanSync({ cwd: root, dot: true })])
    const found = files
      .filter((name) => name !== 'CHANGELOG.md')
      .flatMap((name) => Array.from(readFileSync(join(root, name), 'utf8').matchAll(named), ([, one]) => one))

    for (const page of Object.values(manualPages(version, '2026-01-01')))
      expect(page).toContain(`"sync-bridge ${version}"`)
    expect(found.length).toBeGreaterThan(1)
    expect(readFileSync(join(root, 'clients/python/pyproject.toml'), 'utf8')).toContain(
      `\nversion = "${version}"\n`,
    )
    expect(new Set(found)).toEqual(new Set([version]))
  })
})
