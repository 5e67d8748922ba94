import { afterAll, describe, expect, it, spyOn } from 'bun:test'
import { cpSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { clearBookmark, clearFolder } from '../../client/records.ts'
import { replaceKeys, upload } from '../../client/world.ts'
import { accountOf, encrypted, foreign, linesOf, readableOf } from '../../support/records.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { eventually } from '../../support/eventually.ts'
import { makeFolder, start } from '../../support/executable.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { codeOf, flipIn, idsOf, startBackupWorld } from './backup-world.ts'
import { accountFile, runAlone, runWith, valuesOf } from './world.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'

const { bridge, sandbox, state, someone, fileOf, run, writeForms, deleteForms, stop } =
  await startBackupWorld()
afterAll(stop)

describe('restore', () => {
  it('restores missing records, and overwrites only with --overwrite; nothing without --write', async () => {
    const { user, folder } = someone('restored')
    await run(user, ['backup', folder])
    const [gone, changed] = sandbox.records(user, 'passwords')
    sandbox.remove(user, 'passwords', [gone!.id])
    sandbox.write(user, 'passwords', [{ id: changed!.id, payload: foreign }])
    const payloadOf = (id: string) =>
      sandbox.records(user, 'passwords').find((each) => each.id === id)?.payload

    const dry = await run(user, ['restore', folder, 'passwords'])
    const untouched = payloadOf(gone!.id)
    const missing = await run(user, ['restore', folder, 'passwords', '--write'])
    const [restored, left] = [payloadOf(gone!.id), payloadOf(changed!.id)]
    const shown = await run(user, ['restore', folder, 'passwords', '--overwrite'])
    const unchanged = payloadOf(changed!.id)
    const all = await run(user, ['restore', folder, 'passwords', '--overwrite', '--write'])
    const overwritten = payloadOf(changed!.id)
    const again = await run(user, ['restore', folder, '--write'])
    const refused = await run(user, ['restore', folder, 'crypto', '--write'])

    expect(dry.said.split('\n')).toEqual([
      `From ${join(folder, readdirSync(folder)[0]!)}`,
      'passwords: 1 to write, 1 different in the storage',
      'Nothing was written. Add --write to write this.',
      '',
    ])
    expect(dry.output).toBe(
      'passwords  missing   https://library.example.org sämple@example.org\n' +
        'passwords  stays     https://mail.example.com sample.user  cannot be decrypted in the storage\n',
    )
    expect(shown.output).toBe(dry.output.split('\n')[1]!.replace('stays  ', 'differs') + '\n')
    expect(shown.said).toEndWith('Nothing was written. Add --write to write this.\n')
    expect(unchanged).toBe(foreign)
    expect(missing.output).toBe('')
    expect(untouched).toBeUndefined()
    expect(missing.said).toContain('  1 written')
    expect([restored, left]).toEqual([gone!.payload, foreign])
    expect(all.said).toContain('  1 written')
    expect(overwritten).toBe(changed!.payload)
    expect([again.code, again.said.match(/[1-9]\d* (to write|written)/g)]).toEqual([0, null])
    expect(again.said).not.toMatch(/^(crypto|meta|tabs|clients)/m)
    expect(refused.said).toEndWith('crypto is not in this backup or cannot be restored\n')
    expect(refused.code).toBe(1)
  })

  it('warns that Firefox will delete what it does not sync yet', async () => {
    const { user, folder } = someone('declined')
    for (const name of ['addresses', 'creditcards', 'notes'])
      sandbox.write(user, name, [await encrypted(sandbox, user, name, { id: 'one' })])
    await run(user, ['backup', folder])
    for (const name of ['addresses', 'creditcards', 'notes', 'forms']) sandbox.remove(user, name)
    const { syncID } = JSON.parse(sandbox.records(user, 'meta')[0]!.payload) as { syncID: string }
    const syncids = {
      version: 1,
      globalSyncID: syncID,
      engines: { creditcards: { version: 1, syncID: 'a' } },
    }
    sandbox.write(user, 'meta', [{ id: 'syncids', payload: JSON.stringify(syncids) }])

    const { said } = await run(user, ['restore', folder])

    expect(said).toContain('addresses: 1 to write, 0 different in the storage\n  Firefox does not sync these')
    expect(said.match(/does not sync/g)).toHaveLength(1)
  })

  it('restores an older backup by its name or by its date, in as many batches as needed', async () => {
    const { user, folder } = someone('older')
    await writeForms(user, idsOf(60))
    const first = sandbox.records(user, 'forms')
    await run(user, ['backup', folder])
    await writeForms(user, idsOf(60))
    await run(user, ['backup', folder])
    const [older, newer] = readdirSync(folder).toSorted()
    renameSync(join(folder, older!), join(folder, '2020-01-02T03-04-05.678Z'))

    const last = await run(user, ['restore', folder, 'forms', '--overwrite'])
    const dated = await run(user, ['restore', folder, 'forms', '--overwrite', '--at', '2020-01-03'])
    const early = await run(user, ['restore', folder, 'forms', '--at', '2020-01-02'])
    const named = ['restore', join(folder, '2020-01-02T03-04-05.678Z'), 'forms', '--overwrite', '--write']
    const { said } = await run(user, named)

    expect(last.said).toStartWith(`From ${join(folder, newer!)}\nforms: 0 to write`)
    expect(dated.said).toContain('2020-01-02T03-04-05.678Z\nforms: 0 to write')
    expect(early.said).toContain('No complete backup of this account from that time in ')
    expect(said).toContain('forms: 0 to write')
    expect(sandbox.records(user, 'forms')).toHaveLength(first.length)
  })

  it('continues if writes are not enabled, and reports that', async () => {
    const { user, folder } = someone('refused')
    await run(user, ['backup', folder])
    sandbox.remove(user, 'prefs')
    sandbox.remove(user, 'forms')

    const { said, code } = await run(user, ['restore', folder, 'forms', 'prefs', '--write'])

    expect(said).toContain('forms: 8 to write, 0 different in the storage\n  8 written')
    expect(said).toMatch(
      /\n {2}1 rejected: this bridge has not enabled writes to this collection\nTo take this back: .*\n$/,
    )
    expect(code).toBe(3)
  })

  it('continues if the bridge does not expose a collection, and says so', async () => {
    await using hiding = await startTestBridge({
      settings: { readable_collections: 'crypto, meta, prefs' },
      writable: ['prefs'],
    })
    const user = hiding.sandbox.addUser('hidden')
    fillSampleData(hiding.sandbox, user, { bookmarks: 20, history: 3 })
    const account = accountFile(valuesOf(hiding.sandbox, user))
    const folder = makeFolder()
    const asHidden = (...words: string[]) => runWith(account, [...words, '--bridge', hiding.url])
    await runWith(account, ['backup', folder])
    hiding.sandbox.remove(user, 'prefs')

    const restored = await asHidden('restore', folder, '--write')
    const listed = await asHidden('ls', 'history')
    const watched = await asHidden('watch', 'history')

    expect(restored.errors).toContain(
      'forms: cannot be read: this bridge does not expose this collection\nprefs: 1 to write',
    )
    expect(listed.errors).toContain('Path not found: the bridge does not expose this collection, or')
    expect(watched.errors).toBe(listed.errors)
    expect([restored.code, listed.code, watched.code]).toEqual([3, 1, 1])
  })

  it('writes folders first, for a Firefox that syncs after it has failed midway', async () => {
    const { user, folder } = someone('folders')
    const ids = ['a-folder', 'z-folder', ...Array.from({ length: 60 }, (_, index) => `made${index}`)]
    const seal = (clear: ClearRecord) => encrypted(sandbox, user, 'bookmarks', clear)
    const made = ids.map((id) =>
      seal({
        id,
        type: id.endsWith('folder') ? 'folder' : 'bookmark',
        bmkUri: 'https://a.example',
        children: [],
      }),
    )
    sandbox.write(user, 'bookmarks', await Promise.all(made))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'bookmarks', ids)
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 2 ? { kind: 'reset-before' } : null))

    await run(user, ['restore', folder, 'bookmarks', '--write'], { BRIDGE_URL: proxy.url })

    const written = sandbox.records(user, 'bookmarks').map(({ id }) => id)
    // Besides the folder that lists them.
    expect(written.filter((id) => ids.includes(id))).toHaveLength(24)
    expect(written).toEqual(expect.arrayContaining(['a-folder', 'z-folder']))
  })

  it('encrypts again for new keys, skips unreadable records, and recognizes them later', async () => {
    const { user: before, folder } = someone('before')
    await writeForms(before, idsOf(20))
    sandbox.write(before, 'forms', [{ id: 'foreign', payload: foreign }])
    await run(before, ['backup', folder])
    const after = sandbox.addUser('after')
    fillSampleData(sandbox, after, { isEmpty: true })
    const command = ['restore', folder, 'forms']
    const key = ['--key', accountFile(accountOf(before))]

    const keyless = await run(after, command, { SYNC_KEY: '' })
    const wrong = await run(after, command)
    const translated = await run(after, [...command, ...key, '--write'])
    const again = await run(after, [...command, ...key, '--overwrite'])
    const readable = await readableOf(sandbox, after, 'forms')

    const wanted = sandbox.records(before, 'forms').filter(({ id }) => id !== 'foreign')
    expect([keyless.code, keyless.said]).toEqual([1, expect.stringContaining('SYNC_KEY is missing')])
    expect([wrong.code, wrong.said]).toEqual([
      1,
      expect.stringContaining('The account has no key for this backup'),
    ])
    expect(translated.said).toContain('forms: 28 to write, 0 different in the storage\n')
    expect(translated.said).toContain('cannot be decrypted: foreign')
    expect(again.said).toContain('forms: 0 to write\n')
    expect(readable.map(({ id }) => id).toSorted()).toEqual(wanted.map(({ id }) => id).toSorted())
  })

  it('leaves out a damaged collection, and names the last backup whose copy is whole', async () => {
    const { user, folder } = someone('torn')
    for (const _ of [1, 2]) await run(user, ['backup', folder])
    const [first, second] = readdirSync(folder)
      .toSorted()
      .map((name) => join(folder, name))
    // Each in a file of its own.
    cpSync(join(first!, 'passwords.jsonl'), join(folder, 'copy'))
    renameSync(join(folder, 'copy'), join(second!, 'passwords.jsonl'))
    flipIn(join(second!, 'passwords.jsonl'))
    rmSync(join(first!, 'prefs.jsonl'))
    rmSync(join(second!, 'prefs.jsonl'))
    const before = sandbox.records(user, 'passwords')
    for (const name of ['passwords', 'forms']) sandbox.remove(user, name)

    const { said, code } = await run(user, ['restore', folder, '--write'])
    const left = sandbox.records(user, 'passwords')
    const other = await run(user, ['restore', first!, 'passwords', '--write'])

    const damage = 'damaged in this backup, and not restored'
    expect(said).toContain(`passwords: ${damage}. The last backup whose copy is whole: ${first}\n`)
    expect(said).toContain(`prefs: ${damage}. No other backup here has a whole copy\n`)
    expect(said).toContain('forms: 8 to write, 0 different in the storage\n  8 written')
    expect([code, left]).toEqual([3, []])
    expect(other.code).toBe(0)
    expect(sandbox.records(user, 'passwords').map(({ payload }) => payload)).toEqual(
      before.map(({ payload }) => payload),
    )
  })

  it('needs the keys of the backup as they were saved', async () => {
    const { user, folder } = someone('keys torn')
    await run(user, ['backup', folder])
    flipIn(join(folder, readdirSync(folder)[0]!, 'crypto.jsonl'))

    const { said, code } = await run(user, ['restore', folder, '--write'])

    expect([code, said]).toEqual([1, expect.stringContaining('is damaged: its keys are not what was saved')])
  })

  it('writes what matters first, and history last', async () => {
    const { user, folder } = someone('ordered')
    await run(user, ['backup', folder])

    const { said } = await run(user, ['restore', folder])

    expect(said.match(/^\w+(?=: 0 to write)/gm)).toEqual([
      'passwords',
      'bookmarks',
      'forms',
      'prefs',
      'history',
    ])
  })

  it('restores records by their ids, or what was deleted since a time, and names ids that the backup lacks', async () => {
    const { user, folder } = someone('searcher')
    await run(user, ['backup', folder])
    const [first, second] = sandbox.records(user, 'forms')
    await deleteForms(user, [first!.id])
    const { modified } = sandbox.records(user, 'forms').find(({ id }) => id === first!.id)!
    const since = new Date(modified).toISOString()
    await deleteForms(user, [second!.id])

    const byId = await run(user, ['restore', folder, '--id', 'absent', '--id', first!.id])
    const late = await run(user, ['restore', folder, 'forms', '--deleted-since', since])

    expect(byId.said).toContain('forms: 1 to write')
    expect(byId.said).toContain('Not found in the backup: absent\n')
    expect([byId.code, late.code]).toEqual([3, 0])
    expect(late.said).toContain('forms: 1 to write')
  })

  it('reads the key of the backup from a file in each form, or from standard input', async () => {
    const { user, folder } = someone('key forms')
    await run(user, ['backup', folder])
    const account = fileOf(user)
    const restored = (text: string) => {
      const file = join(makeFolder({ key: text }), 'key')
      return runWith(account, ['restore', folder, 'forms', '--key', file])
    }
    const command = ['restore', folder, 'forms', '--key', '-']

    const good = [
      await restored(`"${user.syncKey.toString('hex')}"\n`),
      await restored(user.syncKey.toString('base64url')),
      await restored(linesOf(accountOf(user))),
      await runAlone(account, command, {}, user.syncKey.toString('hex')),
    ]
    const bad = await restored('key')
    const other = await restored('ab'.repeat(64))

    expect(good.map(codeOf)).toEqual([0, 0, 0, 0])
    expect([other.code, other.errors]).toEqual([1, expect.stringContaining(' does not decrypt ')])
    expect([bad.code, bad.errors]).toEqual([
      2,
      expect.stringContaining('The sync key must be 128 hexadecimal digits'),
    ])
  })

  it('reports what it has written when it is interrupted', async () => {
    const { user, folder } = someone('interrupted')
    await writeForms(user, idsOf(52))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 2 ? { kind: 'hang' } : null))
    const environment = {
      SYNC_BRIDGE_ACCOUNT: fileOf(user, { BRIDGE_URL: proxy.url }),
      XDG_STATE_HOME: state,
    }
    await using restoring = start(['restore', folder, 'forms', '--write'], { environment })
    await proxy.waitFor(() => batches === 2)

    restoring.signal('SIGINT')
    await eventually('it says so', () => restoring.errors().includes('Stopping after this batch'))
    proxy.release()
    const code = await restoring.exited

    expect(restoring.errors()).toMatch(
      /  50 written\nTo take this back: .*\nsync-bridge: Interrupted: run it again to write the rest\n$/,
    )
    expect([code, sandbox.records(user, 'forms').length]).toEqual([1, 50])
  })

  it('gives each reason for a rejection once', async () => {
    const { user, folder } = someone('over quota')
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')
    sandbox.switches.quotaKilobytes = 0

    const { said, code } = await run(user, ['restore', folder, 'forms', '--write'])

    sandbox.switches.quotaKilobytes = null
    expect(said).toMatch(/^ {2}8 rejected \(403 The storage rejected this, .+\): \S+( \S+){7}$/m)
    expect(code).toBe(3)
  })

  it('restores one folder, with its contents, and lists it in its place', async () => {
    const { user, folder } = someone('recipes')
    sandbox.remove(user, 'bookmarks')
    const write = (...records: ClearRecord[]) => upload({ sandbox, user }, 'bookmarks', ...records)
    const menu = (...children: string[]) => clearFolder('menu', 'places', children)
    const box = { ...clearFolder('box', 'menu', ['first', 'second']), title: 'My recipes' }
    const contents = ['first', 'second'].map((id) => clearBookmark(id, 'box'))
    await write(
      menu('box', 'kept'),
      box,
      ...contents,
      clearBookmark('kept', 'menu'),
      clearBookmark('other', 'unfiled'),
    )
    await run(user, ['backup', folder])
    await write(menu('kept'), ...['box', 'first', 'second', 'other'].map((id) => ({ id, deleted: true })))
    const command = ['restore', folder, '--folder', 'My recipes']

    const dry = await run(user, command)
    const { said, code } = await run(user, [...command, '--write'])

    const now = new Map((await readableOf(sandbox, user, 'bookmarks')).map((each) => [each.id, each]))
    expect(dry.output).toMatch(/^bookmarks {2}deleted +My recipes\/$/m)
    expect(dry.output).toMatch(/^bookmarks {2}repaired +menu\/ +contents$/m)
    expect(said).toContain('bookmarks: 4 to write')
    expect(said).toContain('  3 of them deleted since the backup')
    expect(said).toContain('  4 written')
    expect([code, now.get('menu'), now.get('other')]).toMatchObject([
      0,
      menu('box', 'kept'),
      { deleted: true },
    ])
    for (const each of [box, ...contents]) expect(now.get(each.id)).toMatchObject(each)
  })

  it('enables writes of its own bridge only with --write, and to any collection of the backup', async () => {
    const { user, folder } = someone('own bridge')
    await upload({ sandbox, user }, 'notes', { id: 'note', text: 'kept' })
    await run(user, ['backup', folder])
    sandbox.remove(user, 'notes')
    const account = accountFile(valuesOf(sandbox, user))
    const { fetch } = globalThis
    const statuses: number[] = []
    // The bridge has a port that only the command knows.
    const putToo = async (url: RequestInfo | URL, init?: RequestInit | BunFetchRequestInit) => {
      if (/^http:.*\/v1\/buckets\/.*\/notes\/records/.test(String(url))) {
        const headers = { ...(init!.headers as object), 'Content-Type': 'application/json' }
        const record = String(url).replace(/records.*/, 'records/mine')
        const { status } = await fetch(record, { method: 'PUT', headers, body: '{"data":{"payload":"x"}}' })
        statuses.push(status)
      }
      return fetch(url, init)
    }
    using requests = spyOn(globalThis, 'fetch').mockImplementation(Object.assign(putToo, fetch))

    const shown = await runWith(account, ['restore', folder, 'notes'])
    requests.mockRestore()
    const { errors, code } = await runWith(account, ['restore', folder, 'notes', '--write'])

    expect([shown.code, new Set(statuses)]).toEqual([0, new Set([405])])
    expect(errors).toContain('notes: 1 to write, 0 different in the storage\n  1 written')
    expect([code, await readableOf(sandbox, user, 'notes')]).toEqual([0, [{ id: 'note', text: 'kept' }]])
  })

  it('encrypts again what the account can no longer decrypt', async () => {
    const { user, folder } = someone('rekeyed')
    await writeForms(user, ['kept'])
    await run(user, ['backup', folder])
    await replaceKeys({ sandbox, user })

    const { said } = await run(user, ['restore', folder, 'forms', '--overwrite', '--write'])

    expect(said).toContain('forms: 9 to write')
    expect(await readableOf(sandbox, user, 'forms')).toContainEqual({
      id: 'kept',
      name: 'kept',
      value: 'kept',
    })
  })

  it('asks the user to sync a Firefox first if the account has no keys', async () => {
    const { user, folder } = someone('keyed')
    await run(user, ['backup', folder])
    const empty = sandbox.addUser('empty')

    const refused = await run(empty, ['restore', folder, '--key', accountFile(accountOf(user)), '--write'])

    const advice = 'The storage has no keys for this account: sync a Firefox first\n'
    expect(refused.said).toEndWith(advice)
    expect(refused.code).toBe(1)
  })
})
