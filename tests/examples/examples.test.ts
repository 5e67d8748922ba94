import { afterAll, describe, expect, it } from 'bun:test'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  collectionKeys,
  decryptRecords,
  encryptRecord,
  keyPairFromHex,
} from '../../docs/examples/sync-crypto.js'
import type { ClearRecord } from '../../docs/examples/sync-crypto.js'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startBrowser } from '../browser/browser.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { startTestBridge } from '../support/bridge.ts'

const examples = join(import.meta.dir, '../../docs/examples')
const bridge = await startTestBridge({ writable: ['passwords', 'forms'] })
fillSampleData(bridge.sandbox, bridge.user)
afterAll(() => bridge.stop())

function identityOf(user: SandboxUser) {
  return {
    BUCKET: user.clientState,
    BEARER_TOKEN: user.bearerToken(),
    KEY_ID: user.keyId,
    SYNC_KEY: user.syncKey.toString('hex'),
  }
}

const environment = { PATH: process.env.PATH!, BRIDGE_URL: bridge.url, ...identityOf(bridge.user) }

async function keyPairOf(user: SandboxUser, collection: string) {
  const [keys] = bridge.sandbox.records(user, 'crypto')
  return (await collectionKeys(keyPairFromHex(user.syncKey.toString('hex')), keys!))(collection)
}

// Encrypted with nobody's key, and not encrypted at all: both are in real accounts.
const foreign = JSON.stringify({ ciphertext: 'AAAA', IV: 'AAAAAAAAAAAAAAAAAAAAAA==', hmac: '00'.repeat(32) })

async function encrypted(collection: string, clear: ClearRecord) {
  return { id: clear.id, payload: await encryptRecord(await keyPairOf(bridge.user, collection), clear) }
}

describe('bookmarks.ts', () => {
  const command = [process.execPath, join(examples, 'bookmarks.ts')]

  it('prints all bookmarks as a tree', async () => {
    const { output, code } = await run(command)

    const lines = output.trimEnd().split('\n')
    expect(code).toBe(0)
    expect(lines.at(-1)).toMatch(/^\d{3} bookmarks and folders$/)
    expect(lines.filter((line) => /<https?:/.test(line)).length).toBeGreaterThan(200)
    expect(lines.some((line) => /^ {4,}\S/.test(line))).toBe(true)
  })

  it('counts and names what nobody can read, and keeps control characters from the terminal', async () => {
    const title = 'red \u001b[31m bell \u0007 \u009b2J \u202e end'
    bridge.sandbox.write(bridge.user, 'bookmarks', [
      { id: 'foreignrecor', payload: foreign },
      { id: 'plainrecord1', payload: 'plain' },
      await encrypted('bookmarks', { id: 'menu', type: 'folder', children: ['controlchars', 'menu'] }),
      await encrypted('bookmarks', { id: 'controlchars', type: 'bookmark', parentid: 'menu', title }),
    ])

    const { output, code } = await run(command)

    expect(code).toBe(0)
    expect(output).toContain('2 cannot be read: ')
    expect(output).toContain('foreignrecor')
    expect(output).toContain('red  [31m bell')
    expect(output).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
  })

  it('tells when the key is another one', async () => {
    const { output, code } = await run(command, { SYNC_KEY: '00'.repeat(64) })

    expect(code).toBe(1)
    expect(output).toBe('Cannot decrypt "keys": it was encrypted with another key\n')
  })

  it('tells what is missing, and takes an address that ends in /v1', async () => {
    const missing = await run(command, { SYNC_KEY: '', KEY_ID: '' })
    const versioned = await run(command, { BRIDGE_URL: `${bridge.url}/v1/` })
    const nowhere = await run(command, { BRIDGE_URL: 'http://127.0.0.1:1' })
    const expired = await run(command, { BEARER_TOKEN: bridge.user.bearerToken({ expiresInSeconds: -60 }) })

    expect(missing).toEqual({
      output: 'Set KEY_ID, SYNC_KEY: docs/connect.md tells where to get them\n',
      code: 1,
    })
    expect(versioned.code).toBe(0)
    expect(nowhere.output).toBe('Nobody answers at http://127.0.0.1:1: is the bridge running?\n')
    expect(expired.output).toBe('The access token was refused: it may have expired, get a new one\n')
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

describe('restore.ts', () => {
  const script = join(examples, 'restore.ts')

  it('puts back what is missing, after a dry run, and overwrites only when told to', async () => {
    const { sandbox, user } = bridge
    const folder = await mkdtemp(join(tmpdir(), 'restore-'))
    await run([process.execPath, join(examples, 'backup.ts'), folder])
    const [gone, changed] = sandbox.records(user, 'passwords')
    sandbox.remove(user, 'passwords', [gone!.id])
    sandbox.write(user, 'passwords', [{ id: changed!.id, payload: foreign }])
    const payloadOf = (id: string) =>
      sandbox.records(user, 'passwords').find((each) => each.id === id)?.payload

    const dry = await run([process.execPath, script, folder, 'passwords'])
    const untouched = payloadOf(gone!.id)
    const missing = await run([process.execPath, script, folder, 'passwords', '--write'])
    const [restored, left] = [payloadOf(gone!.id), payloadOf(changed!.id)]
    const all = await run([process.execPath, script, folder, 'passwords', '--overwrite'])
    const overwritten = payloadOf(changed!.id)
    const again = await run([process.execPath, script, folder, '--write'])
    const refused = await run([process.execPath, script, folder, 'crypto', '--write'])
    await rm(folder, { recursive: true })

    expect(dry.output).toBe(
      'passwords: 1 to write, 1 different in the storage\nNothing was written. Write with --write.\n',
    )
    expect(untouched).toBeUndefined()
    expect(missing.output).toContain('  1 written, 0 left alone')
    expect([restored, left]).toEqual([gone!.payload, foreign])
    expect(all.output).toContain('  1 written, 0 left alone')
    expect(overwritten).toBe(changed!.payload)
    expect([again.code, again.output.match(/[1-9]\d* (to write|written)/g)]).toEqual([0, null])
    expect(again.output).not.toMatch(/^(crypto|meta|tabs|clients)/m)
    expect([refused.code, refused.output]).toEqual([
      1,
      'crypto is not in this backup, or is not for restoring\n',
    ])
  })

  it('encrypts anew when the account has got new keys, and skips what it cannot read', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'restore-'))
    const before = bridge.sandbox.addUser('before')
    fillSampleData(bridge.sandbox, before, { bookmarks: 20, history: 1 })
    bridge.sandbox.write(before, 'passwords', [{ id: '{foreign}', payload: foreign }])
    await run([process.execPath, join(examples, 'backup.ts'), folder], identityOf(before))
    const after = bridge.sandbox.addUser('after')
    fillSampleData(bridge.sandbox, after, { bookmarks: 20, history: 1 })
    const command = [process.execPath, script, folder, 'passwords', '--write']

    const keyless = await run(command, { ...identityOf(after), SYNC_KEY: '' })
    const translated = await run(command, {
      ...identityOf(after),
      BACKUP_SYNC_KEY: before.syncKey.toString('hex'),
    })
    const { readable } = await decryptRecords(
      await keyPairOf(after, 'passwords'),
      bridge.sandbox.records(after, 'passwords'),
    )
    await rm(folder, { recursive: true })

    expect(keyless).toMatchObject({ code: 1, output: expect.stringContaining('set SYNC_KEY') })
    expect(translated.output).toContain('cannot be read: {foreign}')
    const wanted = bridge.sandbox.records(before, 'passwords').filter(({ id }) => id !== '{foreign}')
    expect(readable.map(({ id }) => id)).toEqual(expect.arrayContaining(wanted.map(({ id }) => id)))
  })

  it('sends many records in as many batches as it takes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'restore-'))
    await run([process.execPath, join(examples, 'backup.ts'), folder])
    const stored = bridge.sandbox.records(bridge.user, 'forms')
    await mkdir(join(folder, 'forms'), { recursive: true })
    for (let index = 0; index < 60; index += 1) {
      const record = { id: `made/${index}+`, last_modified: 1, payload: stored[0]!.payload }
      await writeFile(join(folder, 'forms', `${encodeURIComponent(record.id)}.json`), JSON.stringify(record))
    }

    const { output } = await run([process.execPath, script, folder, 'forms', '--write'])
    const ids = bridge.sandbox.records(bridge.user, 'forms').map(({ id }) => id)
    await rm(folder, { recursive: true })

    expect(output).toContain('  60 written, 0 left alone')
    expect(ids.filter((id) => id.startsWith('made/'))).toHaveLength(60)
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
    bridge.sandbox.write(bridge.user, 'tabs', [{ id: 'foreigndevic', payload: foreign }])
    const browser = await startBrowser()
    const { page, errors } = await browser.open()

    await page.goto(`${files.url}tabs.html`)
    for (const name of ['BRIDGE_URL', 'BUCKET', 'BEARER_TOKEN', 'KEY_ID', 'SYNC_KEY'] as const) {
      await page.fill(`input[name=${name}]`, environment[name])
    }
    await page.click('button')
    await page.waitForSelector('#devices section')
    await page.waitForSelector('#problem:not(:empty)')
    const problem = await page.textContent('#problem')
    const devices = await page.locator('h2').allTextContents()
    const tabs = await page.locator('li').count()
    await browser.stop()
    await files.stop(true)

    expect(problem).toBe('1 devices cannot be read with this key: foreigndevic')
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
    expect(output.toLowerCase()).toMatch(/total-records: 30\d/)
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
