import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { clearRecordsOf, encrypted, foreign } from '../../support/records.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { idsOf, startBackupWorld } from './backup-world.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'
import type { SandboxUser } from '../../../src/sandbox/sandbox-user.ts'

const { bridge, sandbox, state, someone, run, writeForms, stop } = await startBackupWorld()
afterAll(stop)

/** The living records of a collection by id; null for one that the key does not open. */
async function livingOf(user: SandboxUser, name: string): Promise<Record<string, ClearRecord | null>> {
  const records = await clearRecordsOf(sandbox, user, name)
  const found = [...records].filter(([, clear]) => clear?.deleted !== true)
  return Object.fromEntries(found.toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

const collections = ['bookmarks', 'passwords', 'forms']

async function everythingOf(user: SandboxUser) {
  const contents = await Promise.all(collections.map((name) => livingOf(user, name)))
  return Object.fromEntries(collections.map((name, index) => [name, contents[index]]))
}

/** Writes records, or changes them: an object is merged into what is there. */
async function write(user: SandboxUser, name: string, ...changes: ({ id: string } & Partial<ClearRecord>)[]) {
  const now = await livingOf(user, name)
  for (const change of changes)
    sandbox.write(user, name, [await encrypted(sandbox, user, name, { ...now[change.id], ...change })])
}

describe('undo of a restore', () => {
  it('gives back what was there before it: what was overwritten, deleted, missing and moved', async () => {
    const { user, folder } = someone('undone')
    await writeForms(user, idsOf(60))
    await run(user, ['backup', folder])
    const [login] = sandbox.records(user, 'passwords')
    const bookmarks = Object.values(await livingOf(user, 'bookmarks')).map((clear) => clear!)
    const [one, two, three] = bookmarks.filter((each) => each.type === 'bookmark')
    await write(user, 'passwords', { id: login!.id, password: 'changed since' })
    await write(user, 'forms', { id: 'made1', deleted: true }, { id: 'made2', value: 'changed since' })
    await write(user, 'forms', { id: 'added', name: 'a', value: 'b' })
    sandbox.remove(user, 'forms', idsOf(60).slice(3))
    // One is renamed, the next is moved into a new folder, and the third is deleted.
    for (const { id, children } of bookmarks.filter((each) => Array.isArray(each.children))) {
      const left = (children as string[]).filter((each) => each !== two!.id && each !== three!.id)
      await write(user, 'bookmarks', { id, children: id === 'menu' ? ['new folder', ...left] : left })
    }
    await write(
      user,
      'bookmarks',
      { id: one!.id, title: 'changed since' },
      { id: two!.id, parentid: 'new folder' },
      { id: 'new folder', type: 'folder', title: 'New', parentid: 'menu', children: [two!.id] },
      { id: three!.id, deleted: true },
    )
    const before = await everythingOf(user)

    const restored = await run(user, ['restore', folder, ...collections, '--overwrite', '--write'])
    const between = await everythingOf(user)
    const shown = await run(user, ['undo'])
    const still = await everythingOf(user)
    const undone = await run(user, ['undo', '--write'])
    const after = await everythingOf(user)
    const redone = await run(user, ['undo', '2', '--write'])

    expect(restored.said).toEndWith('To take this back: sync-bridge undo 1 --write\n')
    expect(between).not.toEqual(before)
    expect(still).toEqual(between)
    expect([restored.code, shown.code, undone.code, redone.code]).toEqual([0, 0, 0, 0])
    expect(undone.said).toContain('forms: 58 deleted, 1 changed, on all devices after their next sync\n')
    expect(shapeOf(after)).toEqual(shapeOf(before))
    expect(shapeOf(await everythingOf(user))).toEqual(shapeOf(between))
  })

  it('keeps what was changed since, and names it', async () => {
    const { user, folder } = someone('changed since')
    await writeForms(user, idsOf(5))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms', idsOf(4))
    await run(user, ['restore', folder, 'forms', '--write'])
    await write(user, 'forms', { id: 'made1', value: 'later' })
    sandbox.remove(user, 'forms', ['made2'])

    const undone = await run(user, ['undo', '--write'])

    const left = await livingOf(user, 'forms')
    expect(undone.said).toContain('"made1" was changed by another device meanwhile: it stays\n')
    expect(undone.code).toBe(3)
    expect(Object.keys(left).filter((id) => id.startsWith('made'))).toEqual(['made1', 'made4'])
  })

  it('names what the key does not decrypt, and leaves it', async () => {
    const { user, folder } = someone('undecipherable')
    await run(user, ['backup', folder])
    const [login, other] = sandbox.records(user, 'passwords')
    sandbox.write(user, 'passwords', [{ id: login!.id, payload: foreign }])
    await write(user, 'passwords', { id: other!.id, password: 'changed since' })
    await run(user, ['restore', folder, 'passwords', '--overwrite', '--write'])

    const undone = await run(user, ['undo', '--write'])

    const left = await livingOf(user, 'passwords')
    expect(undone.said).toContain(`1 record stays, because the key does not decrypt it: ${login!.id}\n`)
    expect([undone.code, left[login!.id]!.hostname, left[other!.id]!.password]).toEqual([
      3,
      expect.any(String),
      'changed since',
    ])
  })

  it('keeps nothing with --no-undo, or if nothing was written', async () => {
    const { user, folder } = someone('careless')
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')

    const idle = await run(user, ['restore', folder, 'passwords', '--write'])
    const careless = await run(user, ['restore', folder, '--write', 'forms', '--no-undo'])
    const nothing = await run(user, ['undo'])

    expect([idle.said, careless.said].join('')).not.toContain('To take this back')
    expect(nothing.said).toContain('There is nothing to take back for this account')
  })

  it('takes back what a restore has written that failed midway, which says how much that is', async () => {
    const { user, folder } = someone('broken off')
    await writeForms(user, idsOf(52))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 3 ? { kind: 'reset-after' } : null))

    const stopped = await run(user, ['restore', folder, 'forms', '--write'], { BRIDGE_URL: proxy.url })
    const again = await run(user, ['restore', folder, 'forms'])
    const undone = await run(user, ['undo', '--write'])

    expect(stopped.said).toContain('  50 written\nTo take this back: sync-bridge undo 1 --write\n')
    expect(stopped.said).toEndWith(
      'No response: the write may have been applied. Check before you repeat it.\n',
    )
    // What was lost is the response, so the rest is there, too.
    expect(again.said).toContain('forms: 0 to write, 0 different')
    expect([stopped.code, undone.code, await livingOf(user, 'forms')]).toEqual([1, 0, {}])
  })

  it('continues after an interruption, before which it was taken back in part', async () => {
    const { user, folder } = someone('interrupted')
    await writeForms(user, idsOf(52))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')
    await run(user, ['restore', folder, 'forms', '--write'])
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) =>
      path === '/v1/batch' && ++batches > 1 ? { kind: 'status', status: 403, body: '{}' } : null,
    )

    const stopped = await run(user, ['undo', '--write'], { BRIDGE_URL: proxy.url })
    const list = await run(user, ['undo', '--list'])
    const left = Object.keys(await livingOf(user, 'forms')).length
    const undone = await run(user, ['undo', '--write'])
    const after = await run(user, ['undo', '--list'])

    expect([stopped.code, left < 52, left > 0, undone.code]).toEqual([1, true, true, 0])
    expect(list.output).toMatch(/ 1 .*restore .* \(taken back in part\)\n/)
    expect(after.output).toMatch(/ 1 .*restore .* \(taken back\)\n/)
    expect(await livingOf(user, 'forms')).toEqual({})
  })

  it('keeps only the ids of what it adds', async () => {
    const { user, folder } = someone('small')
    await writeForms(user, idsOf(500))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')

    await run(user, ['restore', folder, 'forms', '--write'])

    const own = join(state, 'sync-bridge', user.clientState)
    const [file] = readdirSync(own, { recursive: true }).filter((name) => String(name).endsWith('.json'))
    const kept = readFileSync(join(own, String(file)), 'utf8')
    expect(kept.length).toBeLessThan(508 * 70 + 21 * 700)
    expect(sandbox.records(user, 'forms').filter(({ payload }) => kept.includes(payload))).toEqual([])
  })
})

/** Records without what a write adds to a bookmark. */
function shapeOf(contents: Awaited<ReturnType<typeof everythingOf>>) {
  const simple = (clear: ClearRecord) => ({ ...clear, parentName: '', keyword: clear.keyword ?? '' })
  return Object.fromEntries(
    Object.entries(contents).map(([name, records]) => [
      name,
      Object.fromEntries(Object.entries(records!).map(([id, clear]) => [id, clear && simple(clear)])),
    ]),
  )
}
