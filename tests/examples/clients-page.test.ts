import { afterAll, describe, expect, it } from 'bun:test'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { IDBKeyRange, indexedDB } from 'fake-indexeddb'
import { folderCalled } from '../../src/client/edit/tree.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { accountAt } from '../client/world.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge } from '../support/bridge.ts'
import { clientPackage } from '../support/client-package.ts'
import { makeFolder, endAll } from '../support/executable.ts'
import { eventually } from '../support/eventually.ts'
import { accountOf, foreign, linesOf } from '../support/records.ts'

interface Bookmark {
  id: string
  type?: string
  title?: string
  parentid?: string
  children?: string[]
  tags?: string[]
  keyword?: string
}

/** The definitions in the page's program. */
interface Program {
  data: { id: string; payload: string }[]
  last_modified: string
  ok: boolean
  keyPair: unknown
  client: { backoff: number; listBuckets(): Promise<unknown> }
  decryptRecord(keyPair: unknown, record: { id: string; payload: string }): Promise<Bookmark>
  encryptRecord(keyPair: unknown, clear: Bookmark): Promise<string>
  local: {
    create(record: Bookmark): Promise<{ data: Bookmark }>
    update(record: Bookmark, options: { patch: true }): Promise<unknown>
    sync(): Promise<{ ok: boolean }>
  }
  remove(id: string): Promise<unknown>
  list(): Promise<Bookmark[]>
}

const root = join(import.meta.dir, '../..')
const bridge = await startTestBridge({ writable: ['bookmarks'] })
afterAll(async () => {
  await bridge.stop()
  endAll()
})

// Processes and a bridge, because readers run these programs so.
describe('the code in docs/clients.md', () => {
  it('reads, decrypts, encrypts, and deletes in the way that Firefox understands, skipping an unreadable record', async () => {
    fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 30, history: 1 })
    bridge.sandbox.write(bridge.user, 'bookmarks', [{ id: 'foreignrecor', payload: foreign }])
    Object.assign(globalThis, { indexedDB, IDBKeyRange })

    const { data, last_modified, ok, keyPair, decryptRecord, local, remove, list } = await runProgram()
    const before = await list()
    const [edited, removed] = before.filter(({ type }) => type === 'bookmark')
    await local.update({ id: edited!.id, title: 'Edited' }, { patch: true })
    await local.update({ id: 'foreignrecor' }, { patch: true })
    await remove(removed!.id)
    const created = await local.create({ title: 'Created' } as Bookmark)
    const published = await local.sync()
    const shown = await list()

    const stored = bridge.sandbox.records(bridge.user, 'bookmarks')
    const record = (id: string) => stored.find((each) => each.id === id)!
    const clear = (id: string) => decryptRecord(keyPair, record(id))
    expect(before.length).toBe(data.length - 1)
    expect(last_modified).toMatch(/^\d{13}$/)
    expect([ok, published.ok]).toEqual([true, true])
    expect(await clear(edited!.id)).toMatchObject({ title: 'Edited' })
    expect(await clear(edited!.id)).not.toHaveProperty('sortindex')
    expect(record(edited!.id).sortindex).toBeGreaterThan(0)
    expect(record('foreignrecor').payload).toBe(foreign)
    expect(await clear(removed!.id)).toEqual({ id: removed!.id, deleted: true } as Bookmark)
    expect((await clear(removed!.parentid!)).children).not.toContain(removed!.id)
    expect(created.data.id).toMatch(/^[\w-]{12}$/)
    expect(await clear(created.data.id)).toEqual({ id: created.data.id, title: 'Created' })
    expect(shown.map(({ id }) => id)).not.toContain(removed!.id)
    expect(shown.map(({ id }) => id)).not.toContain('foreignrecor')
    expect(shown).toHaveLength(before.length)
  })

  it('does not bring back the tags and the keyword that Firefox has removed', async () => {
    const { sandbox, user } = bridge
    const { keyPair, decryptRecord, encryptRecord, local } = await runProgram()
    const id = 'withlesslate'
    const write = async (fields: Partial<Bookmark>) =>
      sandbox.write(user, 'bookmarks', [{ id, payload: await encryptRecord(keyPair, { id, ...fields }) }])
    await write({ title: 'Before', tags: ['gone'], keyword: 'gone' })
    await local.sync()

    await write({ title: 'Removed' })
    await local.sync()
    await local.update({ id, title: 'Edited' }, { patch: true })
    await local.sync()

    const stored = sandbox.records(user, 'bookmarks').find((record) => record.id === id)!
    expect(await decryptRecord(keyPair, stored)).toEqual({ id, title: 'Edited' })
  })

  it('respects a pause set by the operator', async () => {
    await using pausing = await startTestBridge({ settings: { backoff: '3600' } })
    fillSampleData(pausing.sandbox, pausing.user, { bookmarks: 5, history: 1 })

    const { client, local } = await runProgram(pausing)
    const again = local.sync()
    await again.catch(() => {})

    expect(client.backoff).toBeGreaterThan(3_000_000)
    await expect(again).rejects.toThrow(/back off/)
  })
})

describe('the program for the JavaScript package in docs/clients.md', () => {
  it('lists and adds', async () => {
    await using own = await startTestBridge({ writable: ['bookmarks'] })
    fillSampleData(own.sandbox, own.user, { bookmarks: 30, history: 1 })
    const page = await Bun.file(join(root, 'docs/clients.md')).text()
    const [, program] = /^```ts\n([^]*?)^```$/m.exec(page)!
    const account = linesOf({ BRIDGE_URL: own.url, ...accountOf(own.user) })
    const folder = makeFolder({
      'app.mts': program!.replace('sync-bridge-client', join(root, 'src/client/index.ts')),
      'account.env': account,
    })
    const environment = { ...process.env, SYNC_BRIDGE_ACCOUNT: join(folder, 'account.env') }
    const child = Bun.spawn([process.execPath, 'app.mts'], {
      cwd: folder,
      env: environment,
      stderr: 'inherit',
    })
    const printed = new Response(child.stdout).text()
    const count = () => own.sandbox.records(own.user, 'bookmarks').length
    const before = count()

    await eventually('the bookmark is there', () => count() > before)
    child.kill()

    expect(await printed).toContain('"Bookmarks Toolbar"')
  })
})

describe('the program that sorts a folder in docs/clients.md', () => {
  it('sorts it by title', async () => {
    await using own = await startTestBridge({ writable: ['bookmarks'] })
    fillSampleData(own.sandbox, own.user, { bookmarks: 200, history: 1 })
    const page = await Bun.file(join(root, 'docs/clients.md')).text()
    const [, program] = [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code!)
    const account = linesOf({ BRIDGE_URL: own.url, ...accountOf(own.user) })
    const client = new SyncClient(accountAt(own))
    const folder = makeFolder({
      'app.mts': program!.replace('sync-bridge-client', join(root, 'src/client/index.ts')),
      'account.env': account,
    })
    const titles = async () => {
      const tree = await client.tree()
      return folderCalled(tree, 'Travel').children.map((id) => tree.items.get(id)!.title)
    }
    const before = await titles()

    const environment = { ...process.env, SYNC_BRIDGE_ACCOUNT: join(folder, 'account.env') }
    const child = Bun.spawn([process.execPath, 'app.mts'], {
      cwd: folder,
      env: environment,
      stderr: 'inherit',
    })
    const code = await child.exited

    const sorted = before.toSorted((one, other) => one.localeCompare(other))
    expect([code, await titles()]).toEqual([0, sorted])
    expect(sorted).not.toEqual(before)
  })
})

/** Runs all snippets in order, bundled for a browser, with this bridge in place of the one they name. */
async function runProgram(over = bridge): Promise<Program> {
  const page = await Bun.file(join(root, 'docs/clients.md')).text()
  const pieces = [...page.matchAll(/^```js\n([^]*?)^```$/gm)].map(([, code]) => code!)
  const { user } = over
  const given = {
    accessToken: user.bearerToken(),
    keyId: user.keyId,
    clientState: user.clientState,
    syncKey: user.syncKey.toString('hex'),
  }
  const program = [
    ...Object.entries(given).map(([name, value]) => `const ${name} = ${JSON.stringify(value)}`),
    ...pieces,
    'export { client, data, last_modified, ok, keyPair, decryptRecord, encryptRecord, local, remove, list }',
  ]
  const text = program.join('\n').replaceAll('https://sync.example.org', over.url)
  const folder = makeFolder({ 'program.js': text })
  const entry = join(folder, 'program.js')
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(join(root, 'node_modules/kinto'), join(folder, 'node_modules/kinto'))
  symlinkSync(join(root, 'node_modules/kinto-http'), join(folder, 'node_modules/kinto-http'))
  symlinkSync(clientPackage().folder, join(folder, 'node_modules/sync-bridge-client'))
  const built = await Bun.build({ entrypoints: [entry], target: 'browser', outdir: join(folder, 'bundle') })
  return (await import(built.outputs[0]!.path)) as Program
}
