import { afterAll, describe, expect, it } from 'bun:test'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { IDBKeyRange, indexedDB } from 'fake-indexeddb'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge } from '../support/bridge.ts'

interface Bookmark {
  id: string
  title?: string
}

/** What the program of the page defines. */
interface Program {
  data: { id: string; payload: string }[]
  last_modified: string
  ok: boolean
  keyPair: unknown
  decryptRecord(keyPair: unknown, record: { id: string; payload: string }): Promise<object>
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
const folder = await mkdtemp(join(tmpdir(), 'clients-page-'))
afterAll(async () => {
  await bridge.stop()
  await rm(folder, { recursive: true })
})

describe('the code in docs/clients.md', () => {
  it('is a program that reads, decrypts, encrypts, and deletes so that Firefox understands', async () => {
    fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 30, history: 1 })
    Object.assign(globalThis, { indexedDB, IDBKeyRange })

    const { data, last_modified, ok, keyPair, decryptRecord, local, remove, list } = await runProgram()
    const [edited, removed] = await list()
    await local.update({ id: edited!.id, title: 'Edited' }, { patch: true })
    await remove(removed!.id)
    const created = await local.create({ title: 'Created' } as Bookmark)
    const published = await local.sync()
    const shown = await list()

    const stored = bridge.sandbox.records(bridge.user, 'bookmarks')
    const clear = (id: string) =>
      decryptRecord(
        keyPair,
        stored.find((record) => record.id === id)!,
      )
    expect(data).toHaveLength(30)
    expect(last_modified).toMatch(/^\d{13}$/)
    expect([ok, published.ok]).toEqual([true, true])
    expect(shown).toHaveLength(30)
    expect(await clear(edited!.id)).toMatchObject({ title: 'Edited' })
    expect(await clear(removed!.id)).toEqual({ id: removed!.id, deleted: true })
    expect(created.data.id).toMatch(/^[\w-]{12}$/)
    expect(await clear(created.data.id)).toEqual({ id: created.data.id, title: 'Created' })
    expect(shown.map(({ id }) => id)).not.toContain(removed!.id)
  })
})

/** Runs all the pieces in their order, bundled as for a browser, with this bridge in the place of the one they name. */
async function runProgram(): Promise<Program> {
  const page = await Bun.file(join(root, 'docs/clients.md')).text()
  const pieces = [...page.matchAll(/^```js\n([^]*?)^```$/gm)].map(([, code]) => code!)
  const { user } = bridge
  const given = {
    accessToken: user.bearerToken(),
    keyId: user.keyId,
    clientState: user.clientState,
    syncKey: user.syncKey.toString('hex'),
  }
  const program = [
    ...Object.entries(given).map(([name, value]) => `const ${name} = ${JSON.stringify(value)}`),
    ...pieces,
    'export { data, last_modified, ok, keyPair, decryptRecord, local, remove, list }',
  ]
  const entry = join(folder, 'program.js')
  await Bun.write(entry, program.join('\n').replaceAll('https://sync.example.org', bridge.url))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await symlink(join(root, 'docs/examples/sync-crypto.js'), join(folder, 'sync-crypto.js'))
  const built = await Bun.build({ entrypoints: [entry], target: 'browser', outdir: join(folder, 'bundle') })
  return (await import(built.outputs[0]!.path)) as Program
}
