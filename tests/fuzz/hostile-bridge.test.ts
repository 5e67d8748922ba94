import { afterAll, describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../../src/cli/run.ts'
import { formatAccount } from '../../src/client/account.ts'
import { bookmarkTree } from '../../src/client/bookmarks.ts'
import { changes } from '../../src/client/changes.ts'
import { isReadable, type ReadableRecord } from '../../src/client/collection.ts'
import { describeRecord, faultOf, nameRecord } from '../../src/client/engine-records.ts'
import { readVisitedPage } from '../../src/client/record-readers.ts'
import { ClientError } from '../../src/client/errors.ts'
import { exportFormats } from '../../src/client/export-formats.ts'
import { deviceTabs } from '../../src/client/record-formats.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { fakeHost } from '../cli/fake-host.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { Chance } from './chance.ts'
import { hostileAccount, HostileBridge } from './hostile-answers.ts'

/** The number of bridges: of 100 random requests, one is of these. */
const count = Math.ceil(Number(process.env.FUZZ ?? 15_000) / 100)
const seed = Number(process.env.FUZZ_SEED ?? 20_780)

/** What a program does with a client, each with what it needs. */
const uses: Record<string, (client: SyncClient) => Promise<unknown>> = {
  collections: (client) => client.collections(),
  info: (client) => client.info(),
  count: (client) => client.collection('history').count(),
  records: async (client) => {
    for (const { name } of await client.collections())
      for await (const { clear } of client.collection(name).records())
        if (clear) for (const read of [describeRecord, nameRecord, faultOf]) read(name, clear)
  },
  pages: (client) => Array.fromAsync(client.collection('forms').pages({ pageSize: 2 })),
  stored: (client) => Array.fromAsync(client.collection('meta').storedPages()),
  exports: async (client) => {
    const records = new Map<string, ReadableRecord[]>()
    for (const name of ['bookmarks', 'history', 'passwords', 'tabs'])
      records.set(name, (await Array.fromAsync(client.collection(name).records())).filter(isReadable))
    const data = {
      bookmarks: bookmarkTree(records.get('bookmarks')!),
      history: records.get('history')!.map(({ clear }) => readVisitedPage(clear)),
      passwords: records.get('passwords')!,
      tabs: records.get('tabs')!.map((record) => deviceTabs(record)),
      everything: { records: [...records.values()].flat(), incomplete: new Map(), exportedAt: new Date(0) },
    }
    for (const [what, formats] of Object.entries(exportFormats))
      for (const [name, format] of Object.entries(formats)) {
        const text = [...format(data[what as keyof typeof data] as never)].join('')
        if (name.endsWith('json')) JSON.parse(text)
      }
  },
  add: (client) => client.edit([{ op: 'add', address: 'https://new.example/', tags: ['x'], folder: 'menu' }]),
  edit: (client) => client.edit([{ op: 'change', id: 'aaaaaaaaaaaa', fields: { title: 'B', tags: ['y'] } }]),
  remove: async (client) => {
    const { saved } = await client.remove('bookmarks', ['ffffffffffff'])
    if (saved) await client.undo(saved)
  },
  changes: async (client) => {
    const watching = changes(client, { since: 0, everySeconds: 0 })
    await watching.next()
    await watching.return(undefined)
  },
}

// A server for the commands only: an account file names it by its address.
describe(`${count} bridges with random answers, FUZZ_SEED=${seed}`, () => {
  it('never end the package with anything but a ClientError', async () => {
    const failures: string[] = []
    const outcomes = { done: 0, refused: 0 }
    let damaged = 0
    for (let run = 0; run < count; run += 1) {
      const chance = new Chance(seed * 1_000_003 + run)
      const bridge = new HostileBridge(chance, chance.of([3, 10, 30]))
      let answers = 0
      const fetch = async (url: string, { method, body }: RequestInit) => {
        // Nothing may ask for ever.
        answers += 1
        if (answers > 300) throw new Error('too many requests')
        const { status, headers, text } = await bridge.answer(url, body as string | undefined)
        const isEmpty = method === 'HEAD' || status === 304
        return new Response(isEmpty ? null : text, { status, headers })
      }
      for (const [name, use] of Object.entries(uses)) {
        const client = new SyncClient(hostileAccount, { fetch, sleep: async () => {} })
        try {
          await use(client)
          outcomes.done += 1
        } catch (error) {
          outcomes.refused += 1
          if (!(error instanceof ClientError))
            failures.push(`run ${run}, ${name}: ${error instanceof Error ? error.stack : String(error)}`)
          else if (answers > 300) failures.push(`run ${run}, ${name}: asks for ever`)
          if (answers > 300) answers = 0
        }
      }
      damaged += bridge.damaged
    }

    // oxlint-disable-next-line no-console -- figures of a long run
    console.log(JSON.stringify({ runs: count, ...outcomes, damaged, failures: failures.length }))
    expect(failures.slice(0, 5)).toEqual([])
    // Most answers must get past the first reader, or little would be tested.
    expect(outcomes.done).toBeGreaterThan(outcomes.refused / 4)
  }, 3_600_000)

  it('never end a command with a stack trace', async () => {
    let bridge = new HostileBridge(new Chance(0), 0)
    using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request) {
        const { status, headers, text } = await bridge.answer(request.url, await request.text())
        // A command would wait for a shorter pause.
        const later = (status === 503 || status === 429) && { 'Retry-After': '999' }
        const isEmpty = request.method === 'HEAD' || status === 304
        return new Response(isEmpty ? null : text, { status, headers: { ...headers, ...later } })
      },
    })
    const bridgeUrl = `http://127.0.0.1:${server.port}`
    const account = join(
      makeFolder({ 'account.env': formatAccount({ ...hostileAccount, bridgeUrl }) }),
      'account.env',
    )
    const codes = new Map<number, number>()
    const failures: string[] = []

    for (let seeded = 0; seeded < count / 10; seeded += 1) {
      const backups = join(makeFolder(), 'backups')
      const commands = [
        'ls',
        'ls bookmarks',
        'ls history --json',
        'export everything',
        'export tabs',
        'export passwords',
        'export history -f json',
        'export bookmarks -f csv',
        `backup ${backups}`,
        `restore ${backups}`,
        'add https://new.example/ --tag x',
      ]
      for (const [index, command] of commands.entries()) {
        const chance = new Chance(seed * 1_000_003 + seeded * 100 + index)
        bridge = new HostileBridge(chance, chance.of([3, 10, 30]))
        const host = fakeHost(
          {},
          { SYNC_BRIDGE_ACCOUNT: account },
          {
            readFile: (path) => readFileSync(path, 'utf8'),
          },
        )
        const code = await run(command.split(' '), host).catch((error: Error) => {
          failures.push(`${seeded}, ${command}: ${error.stack}`)
          return -1
        })
        codes.set(code, (codes.get(code) ?? 0) + 1)
        if (/^ {4}at /m.test(host.err)) failures.push(`${seeded}, ${command}: ${host.err}`)
      }
    }

    // oxlint-disable-next-line no-console -- figures of a long run
    console.log(JSON.stringify({ codes: Object.fromEntries(codes), failures: failures.length }))
    expect(failures.slice(0, 5)).toEqual([])
    expect(codes.get(0) ?? 0).toBeGreaterThan(count / 10)
  }, 3_600_000)
})

afterAll(endAll)
