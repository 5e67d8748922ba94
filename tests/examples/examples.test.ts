import { afterAll, describe, expect, it } from 'bun:test'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startBrowser } from '../browser/browser.ts'
import { startTestBridge } from '../support/bridge.ts'

const examples = join(import.meta.dir, '../../docs/examples')
const bridge = await startTestBridge()
fillSampleData(bridge.sandbox, bridge.user)
afterAll(() => bridge.stop())

const environment = {
  PATH: process.env.PATH!,
  BRIDGE_URL: bridge.url,
  BUCKET: bridge.user.clientState,
  BEARER_TOKEN: bridge.user.bearerToken(),
  KEY_ID: bridge.user.keyId,
  SYNC_KEY: bridge.user.syncKey.toString('hex'),
}

describe('bookmarks.ts', () => {
  it('prints all bookmarks as a tree', async () => {
    const { output, code } = await run([process.execPath, join(examples, 'bookmarks.ts')])

    const lines = output.trimEnd().split('\n')
    expect(code).toBe(0)
    expect(lines.at(-1)).toBe('300 bookmarks and folders')
    expect(lines.filter((line) => /<https?:/.test(line)).length).toBeGreaterThan(200)
    expect(lines.some((line) => /^ {4,}\S/.test(line))).toBe(true)
  })

  it('tells when the key is another one', async () => {
    const { output, code } = await run([process.execPath, join(examples, 'bookmarks.ts')], {
      SYNC_KEY: '00'.repeat(64),
    })

    expect(code).not.toBe(0)
    expect(output).toContain('encrypted with another key')
  })
})

describe('backup.ts', () => {
  it('saves every record, and the next time only what has changed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'backup-'))
    const command = [process.execPath, join(examples, 'backup.ts'), folder]

    const first = await run(command)
    const second = await run(command)
    bridge.sandbox.write(bridge.user, 'prefs', [{ id: 'another', payload: 'changed' }])
    const third = await run(command)

    const stored = bridge.sandbox.records(bridge.user, 'passwords')
    const files = await readdir(join(folder, 'passwords'))
    const kept = JSON.parse(await readFile(join(folder, 'prefs', 'another.json'), 'utf8'))
    await rm(folder, { recursive: true })
    expect(first.output).toMatch(/history: 3000 records/)
    expect(files.map((file) => decodeURIComponent(file.slice(0, -5))).toSorted()).toEqual(
      stored.map(({ id }) => id),
    )
    expect(
      second.output
        .trimEnd()
        .split('\n')
        .every((line) => line.endsWith('unchanged')),
    ).toBe(true)
    expect(third.output).toMatch(/prefs: 1 record\n/)
    expect(kept.payload).toBe('changed')
  })
})

describe('tabs.html', () => {
  it('shows the tabs of all devices, from another origin', async () => {
    const files = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: async ({ url }) => {
        const file = Bun.file(join(examples, new URL(url).pathname))
        return (await file.exists()) ? new Response(file) : new Response(null, { status: 404 })
      },
    })
    const browser = await startBrowser()
    const { page, errors } = await browser.open()

    await page.goto(`${files.url}tabs.html`)
    for (const name of ['BRIDGE_URL', 'BUCKET', 'BEARER_TOKEN', 'KEY_ID', 'SYNC_KEY'] as const) {
      await page.fill(`input[name=${name}]`, environment[name])
    }
    await page.click('button')
    await page.waitForSelector('#devices section, #problem:not(:empty)')
    const problem = await page.textContent('#problem')
    const devices = await page.locator('h2').allTextContents()
    const tabs = await page.locator('li').count()
    await browser.stop()
    await files.stop(true)

    expect(problem).toBe('')
    expect(devices.toSorted()).toEqual(['Desk computer (14)', 'Pocket phone (6)', '居間のタブレット (3)'])
    expect(tabs).toBe(23)
    expect(errors.filter((error) => !error.includes('favicon') && !error.includes('404'))).toEqual([])
  })
})

describe('first-steps.sh', () => {
  it('walks through the first requests', async () => {
    const { output, code } = await run(['sh', join(examples, 'first-steps.sh')])

    expect(code).toBe(0)
    expect(output).toContain('"project_name":"Sync Bridge"')
    expect(output).toContain('"id":"bookmarks"')
    expect(output.toLowerCase()).toContain('total-records: 300')
    expect(output.toLowerCase()).toContain('next-page: http://')
  })
})

async function run(command: string[], more: Record<string, string> = {}) {
  const child = Bun.spawn(command, { env: { ...environment, ...more }, stdout: 'pipe', stderr: 'pipe' })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { output: out + errors, code }
}
