import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../../src/cli/run.ts'
import { fakeHost } from '../cli/fake-host.ts'
import { fieldNames, oddValues } from '../client/odd.ts'
import { accountFile } from '../cli/data/world.ts'
import { accountOf, encrypted } from '../support/records.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy.ts'
import type { ClearRecord } from '../../src/client/crypto.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const url = 'https://a.example/'
/** A valid record of each collection; each is there five times. */
const valid: Record<string, Omit<ClearRecord, 'id'>> = {
  bookmarks: { type: 'bookmark', title: 'a', bmkUri: url, parentid: 'unfiled', tags: [] },
  passwords: { hostname: 'https://a.example', formSubmitURL: '', username: 'u', password: 'p' },
  history: { histUri: url, title: 'a', visits: [{ date: 1, type: 1 }] },
  forms: { name: 'a', value: 'b' },
  addresses: { entry: { name: 'a', version: 1 } },
  creditcards: { entry: { 'cc-name': 'a', version: 3 } },
  tabs: { clientName: 'a', tabs: [] },
  prefs: { value: { a: true } },
  'extension-storage': { extId: 'a', data: '{}' },
}
const names = Object.keys(valid)
/** Unlike the record of any engine. */
const hostile = Object.fromEntries(
  fieldNames.map((name, index) => [name, oddValues[index % oddValues.length]]),
)

const json = (status: number, number: number): Fault => {
  const body = JSON.stringify({ code: status, errno: number, error: 'No', message: 'No.' })
  // Longer than any command waits.
  const headers = { 'Content-Type': 'application/json', 'Retry-After': '86400' }
  return { kind: 'status', status, headers, body }
}

/** What can happen to the reading of one collection. */
const faults: Record<string, Fault> = {
  'a lost connection': { kind: 'reset-mid-body', afterBytes: 300 },
  'a 503': json(503, 201),
  'a 404': { kind: 'status', status: 404, body: 'Not found' },
  'a hidden collection': json(404, 111),
  'half a page': { kind: 'rewrite', body: (text) => text.slice(0, text.length / 2) },
  'a page without its last record': { kind: 'rewrite', body: (text) => withoutLast(text) },
  'a larger Total-Records': { kind: 'rewrite', headers: { 'Total-Records': '9' } },
  'no JSON': { kind: 'rewrite', body: '<!doctype html><title>Sign in</title>' },
}

function withoutLast(text: string): string {
  const { data } = JSON.parse(text) as { data: unknown[] }
  return JSON.stringify({ data: data.slice(0, -1) })
}

let bridge: TestBridge
let proxy: FaultProxy
let user: SandboxUser
let account: string
let backups: string

beforeAll(async () => {
  bridge = await startTestBridge()
  proxy = await startFaultProxy({ target: bridge.url })
  user = await addUser('faulty', {})
  account = accountFile({ ...accountOf(user), BRIDGE_URL: proxy.url })
  backups = makeFolder()
  expect((await command('backup', backups)).code).toBe(0)
})
afterAll(async () => {
  await proxy.stop()
  await bridge.stop()
  endAll()
})

/** A user with five records in each collection, and some more. */
async function addUser(name: string, more: Record<string, ClearRecord>): Promise<SandboxUser> {
  const { sandbox } = bridge
  const added = sandbox.addUser(name)
  const { fillSampleData } = await import('../../src/sandbox/sample-data.ts')
  fillSampleData(sandbox, added, { isEmpty: true })
  for (const collection of names) {
    const records = Array.from({ length: 5 }, (_, index) => ({ id: `id${index}`, ...valid[collection] }))
    const all: ClearRecord[] = more[collection] ? [...records, more[collection]] : records
    const sealed = await Promise.all(all.map((clear) => encrypted(sandbox, added, collection, clear)))
    sandbox.write(added, collection, sealed)
  }
  return added
}

/** Runs a command in this process. */
async function command(...words: string[]) {
  const host = fakeHost(
    {},
    { SYNC_BRIDGE_ACCOUNT: account },
    { readFile: (path) => readFileSync(path, 'utf8'), now: Date.now },
  )
  const code = await run(words, host)
  return { code, out: host.out, err: host.err, all: host.all }
}

/** Makes every reading of a collection fail. */
function failAt(collection: string, fault: Fault | null): void {
  proxy.plan(({ method, path }) =>
    method === 'GET' && path.endsWith(`/collections/${collection}/records`) ? fault : null,
  )
}

const others = (collection: string) => names.filter((name) => name !== collection)
const stack = /^ +at \S/m

// Each collection meets a fault, and each fault a collection, because all are read in the same way.
const met = names.map((collection, index) => {
  const [name, fault] = Object.entries(faults)[index % Object.keys(faults).length]!
  return [name, collection, fault] as const
})

describe('while a collection is read', () => {
  it.each(met)(
    'no command says after %s that %s is complete, and the others are',
    async (_, collection, fault) => {
      failAt(collection, fault)
      const folder = makeFolder()

      const backup = await command('backup', folder)
      const exported = await command('export', 'everything')
      const listed = await command('ls', collection)
      const other = collection === 'forms' ? 'prefs' : 'forms'
      const shown = await command('restore', backups, collection, other)

      const [name] = readdirSync(folder)
      const records = (each: string) =>
        readFileSync(join(folder, name!, `${each}.jsonl`), 'utf8')
          .trim()
          .split('\n').length
      expect([backup.code, exported.code, shown.code]).toEqual([3, 3, 3])
      expect(listed.code).not.toBe(0)
      for (const { all } of [backup, exported, listed, shown]) expect(all).not.toMatch(stack)
      for (const { err } of [backup, exported, shown])
        expect(err).toMatch(new RegExp(`^.*\\b${collection}\\b`, 'm'))
      expect(name).toEndWith('-incomplete')
      expect(others(collection).map(records)).toEqual(others(collection).map(() => 5))
      expect(shown.err).toContain(`${other}: 0 to write`)
      const content = JSON.parse(exported.out) as {
        collections: Record<string, unknown[]>
        incomplete: object
      }
      expect(others(collection).map((each) => content.collections[each]?.length)).toEqual(
        others(collection).map(() => 5),
      )
    },
  )
})

describe('a record that its engine would never write', () => {
  it.each(names)('is listed, exported and saved, and costs no other: %s', async (collection) => {
    failAt(collection, null)
    const odd: ClearRecord = { ...hostile, id: 'hostile', deleted: undefined, type: ['folder'] }
    const owner = await addUser(`hostile ${collection}`, { [collection]: odd })
    account = accountFile({ ...accountOf(owner), BRIDGE_URL: proxy.url })
    const folder = makeFolder()

    const backup = await command('backup', folder)
    const exported = await command('export', 'everything')
    const listed = await command('ls', collection, '--json')
    bridge.sandbox.remove(owner, collection)
    const shown = await command('restore', folder, collection)

    for (const { all } of [backup, exported, listed, shown]) expect(all).not.toMatch(stack)
    expect([backup.code, listed.code]).toEqual([0, 0])
    expect(
      listed.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).id)
        .toSorted(),
    ).toEqual(['hostile', ...Array.from({ length: 5 }, (_, index) => `id${index}`)])
    const content = JSON.parse(exported.out) as { collections: Record<string, unknown[]> }
    expect([exported.code, content.collections[collection]?.length]).toEqual([0, 6])
    const isSkipped = /^ {2}1 record not what Firefox writes, and not restored: hostile$/m.test(shown.err)
    const count = Number(/: (\d+) to write/.exec(shown.err)?.[1])
    // Bookmarks come with the folder that lists them.
    const folders = collection === 'bookmarks' ? 1 : 0
    expect([count - folders, shown.code]).toEqual(isSkipped ? [5, 3] : [6, 0])
  })
})
