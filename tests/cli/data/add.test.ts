import { afterAll, describe, expect, it } from 'bun:test'
import { dirname } from 'node:path'
import { executablePath } from '../../support/executable.ts'
import { runToEnd } from '../../support/processes.ts'
import { clearRecordsOf } from '../../support/records.ts'
import { startPeople } from './people.ts'
import { runWith } from './world.ts'
import type { SandboxUser } from '../../../src/sandbox/sandbox-user.ts'

const { sandbox, someone, write, stop } = await startPeople()
afterAll(stop)

const bookmarksOf = (user: SandboxUser) => clearRecordsOf(sandbox, user, 'bookmarks')

describe('add', () => {
  it('exits 3 if the bookmark is added, but its id cannot be printed', async () => {
    const { user, account } = someone('full output')
    const script = '"$0" add https://full.example/ --no-undo --account "$1" > /dev/full'

    const { errors, code } = await runToEnd(['/bin/sh', '-c', script, executablePath, account])

    const added = [...(await bookmarksOf(user)).values()].map((each) => each?.bmkUri)
    expect(added).toContain('https://full.example/')
    expect(errors).toContain(`Cannot write to standard output: ENOSPC. Everything is added\n`)
    expect(code).toBe(3)
  })

  it('adds nothing twice if it is killed before the ids are printed, and run again', async () => {
    const { user, account } = someone('killed')
    const command = ['add', 'https://killed.example/']
    // A pipe that nothing reads is full after 64 KB.
    const script =
      'mkfifo "$1/full"; exec 3<>"$1/full"; head -c 65536 /dev/zero >&3; exec "$0" add https://killed.example/ >&3'
    const child = Bun.spawn(['/bin/sh', '-c', script, executablePath, dirname(account)], {
      env: { ...process.env, SYNC_BRIDGE_ACCOUNT: account, XDG_STATE_HOME: dirname(account) },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream()))
      if (text.includes('Added 1 bookmark')) break
    // Time to end, for one that would not wait for its ids.
    await Bun.sleep(100)
    child.kill('SIGKILL')
    await child.exited

    const { output, errors } = await runWith(account, command)

    const added = [...(await bookmarksOf(user)).values()].filter(
      (each) => each?.bmkUri === 'https://killed.example/',
    )
    expect(added.map((each) => `${each!.id}\n`)).toEqual([output])
    expect(errors).toEndWith('To take this back: sync-bridge undo 1 --write\n')
  })

  it('adds a bookmark to its folder, in one batch, like Firefox', async () => {
    const { user, account } = someone('adder')
    const words = ['https://new.example/', '--title', 'New', '--folder', 'menu', '--tag', 'a', '--tag', 'b c']

    const { output, errors, code } = await runWith(account, ['add', ...words])

    const bookmarks = await bookmarksOf(user)
    const id = output.trimEnd()
    const undo = 'To take this back: sync-bridge undo 1 --write\n'
    expect([errors, code]).toEqual([`Added 1 bookmark to Bookmarks Menu\n${undo}`, 0])
    expect(bookmarks.get(id)).toMatchObject({
      type: 'bookmark',
      title: 'New',
      bmkUri: 'https://new.example/',
      parentid: 'menu',
      tags: ['a', 'b c'],
    })
    expect(bookmarks.get('menu')!.children).toEqual(expect.arrayContaining([id]))
  })

  it.each([
    ['example.org', 'Cannot add "example.org"'],
    ['http://a b/', 'Cannot add "http://a b/"'],
    [
      `https://example.org/${'x'.repeat(70_000)}`,
      `Cannot add "https://example.org/${'x'.repeat(80)}…": an address of 70020 characters`,
    ],
  ])('rejects %p, which Firefox would remove', async (url, problem) => {
    const { user, account } = someone(`refused-${problem}`)
    const before = sandbox.records(user, 'bookmarks').length

    const { errors, code } = await runWith(account, ['add', url])

    expect(errors).toStartWith(`sync-bridge: ${problem}`)
    expect(code).toBe(1)
    expect(sandbox.records(user, 'bookmarks')).toHaveLength(before)
  })

  it('writes nothing to a full folder', async () => {
    const { user, account } = someone('full')
    const children = Array.from({ length: 14_000 }, (_, index) => `child${String(index).padStart(7, '0')}`)
    await write(user, { id: 'fullfullfull', type: 'folder', title: 'Full', parentid: 'menu', children })
    sandbox.switches.limits.max_record_payload_bytes = 280_000
    const before = sandbox.records(user, 'bookmarks').length

    const { errors, code } = await runWith(account, ['add', 'https://new.example/', '--folder', 'Full'])
    sandbox.switches.limits.max_record_payload_bytes = 2_500_000

    expect(errors).toContain(
      'Nothing was written: the folder "Full" is too large for the storage with 14001 entries',
    )
    expect(code).toBe(1)
    expect(sandbox.records(user, 'bookmarks')).toHaveLength(before)
  })
})
