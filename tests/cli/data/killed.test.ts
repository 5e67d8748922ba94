import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isReadable } from '../../../src/client/collection.ts'
import { readTree } from '../../../src/client/edit/tree.ts'
import { SyncClient } from '../../../src/client/sync-client.ts'
import { complaints, shapeOf } from '../../client/edit/trees.ts'
import { accountAt, all, replaceKeys, upload } from '../../client/world.ts'
import { accountOf } from '../../support/records.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { eventually } from '../../support/eventually.ts'
import { endAll, executablePath } from '../../support/executable.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { accountFile, runWith } from './world.ts'
import { clearBookmark, clearFolder } from '../../client/records.ts'

const bridge = await startTestBridge({ writable: ['bookmarks', 'passwords'] })
const proxy = await startFaultProxy({ target: bridge.url })
afterAll(async () => {
  await proxy.stop()
  await bridge.stop()
  endAll()
})

const folder = (id: string, parentid: string, ...children: string[]) =>
  clearFolder(id, parentid, children, { title: `Folder ${id}` })
const link = (id: string, parentid: string) => clearBookmark(id, parentid, { title: `Title ${id}` })

/** A user with bookmarks and a login, who reaches the bridge through the proxy. */
async function someone() {
  const { sandbox } = bridge
  const user = sandbox.addUser(`killed ${crypto.randomUUID()}`)
  const world = { sandbox, user }
  await replaceKeys(world)
  await upload(
    world,
    'bookmarks',
    folder('menu', 'places', 'news', 'a'),
    folder('toolbar', 'places'),
    folder('unfiled', 'places'),
    folder('mobile', 'places'),
    folder('news', 'menu', 'b'),
    link('a', 'menu'),
    link('b', 'news'),
  )
  await upload(world, 'passwords', { id: '{1}', hostname: 'https://x.example', username: 'u', password: 'p' })
  const account = accountFile({ ...accountOf(user), BRIDGE_URL: proxy.url })
  const state = join(dirname(account), 'sync-bridge')
  const client = new SyncClient(accountAt(bridge, user))
  const bookmarks = () => all(client.collection('bookmarks').records())
  return {
    lines: join(dirname(account), 'lines'),
    run: (command: string[]) => runWith(account, command, input),
    start: (command: string[]) =>
      Bun.spawn([executablePath, ...command], {
        env: { ...process.env, SYNC_BRIDGE_ACCOUNT: account, XDG_STATE_HOME: dirname(account) },
        stdio: [Buffer.from(input), 'ignore', 'ignore'],
      }),
    complaints: async () => complaints(await bookmarks()),
    /** What is there; without ids, which something new gets at random. */
    async contents() {
      const logins = (await all(client.collection('passwords').records())).filter(isReadable)
      const shape = shapeOf(readTree(await bookmarks())).replaceAll(/[\w-]{12}\|/g, '|')
      return [shape, ...logins.map(({ clear }) => `${String(clear.username)} ${String(clear.password)}`)]
    },
    /** The texts that `undo` reads. */
    entries: () =>
      readdirSync(state, { recursive: true })
        .map(String)
        .filter((name) => name.endsWith('.json'))
        .map((name) => readFileSync(join(state, name), 'utf8')),
  }
}

const input = 'secret\n'
const rm = ['rm', 'bookmarks', 'news', '--write']
type Prepare = (who: Awaited<ReturnType<typeof someone>>) => Promise<string[]> | string[]
const commands: [string, Prepare][] = [
  ['rm', () => rm],
  ['set', () => ['set', 'passwords', '{1}', '--username', 'new', '--password-stdin', '--write']],
  ['add', () => ['add', 'https://one.example', 'https://two.example', '--make-folder', 'New']],
  [
    'edit',
    async ({ run, lines }) => {
      const { output } = await run(['edit', '--print'])
      const edited = output
        .replace('Title a', 'Mine')
        .replace(/^.*\^news\n/m, '')
        .replace('    Title b', '  Title b')
        .replace(/^.*\^unfiled\n/m, '$&  New <https://new.example>\n')
      writeFileSync(lines, edited)
      return ['edit', '--yes', '--file', lines]
    },
  ],
  [
    'undo',
    async ({ run }) => {
      await run(rm)
      return ['undo', '--write']
    },
  ],
]

// The executable, because only a process can be killed between two requests.
describe.each(commands)('%s', (name, prepare) => {
  it.each(['before', 'after'])(
    'has the same end if it is killed %s its write is applied, and run again; then it can be taken back',
    async (moment) => {
      const other = await someone()
      await other.run(await prepare(other))
      const wanted = await other.contents()
      const who = await someone()
      const command = await prepare(who)
      const before = await who.contents()
      const killed = Promise.withResolvers<void>()
      const sent = Promise.withResolvers<void>()
      proxy.plan(({ path }) => {
        if (path !== '/v1/batch') return null
        sent.resolve()
        if (moment === 'after') return { kind: 'hang-after' }
        return killed.promise.then(() => ({ kind: 'reset-before' }))
      })

      const child = who.start(command)
      await sent.promise
      if (moment === 'after')
        await eventually('the write is applied', async () => Bun.deepEquals(await who.contents(), wanted))
      child.kill('SIGKILL')
      await child.exited
      killed.resolve()
      proxy.plan(() => null)
      const between = await who.contents()
      const entries = who.entries()
      await who.run(command)
      const end = [await who.contents(), await who.complaints()]
      const undone = await who.run(['undo', ...(name === 'undo' ? ['2'] : []), '--write'])

      expect(between).toEqual(moment === 'after' ? wanted : before)
      expect(entries.flatMap((text) => text.split('\n')).map((line) => typeof JSON.parse(line))).toContain(
        'object',
      )
      expect(end).toEqual([wanted, []])
      expect([undone.code, await who.contents()]).toEqual([0, before])
    },
  )
})
