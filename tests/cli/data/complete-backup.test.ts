import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { encrypted, foreign } from '../../support/records.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { makeFolder } from '../../support/executable.ts'
import { codeOf, flipIn, idsOf, startBackupWorld } from './backup-world.ts'
import { accountFile, runWith, valuesOf } from './world.ts'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'

const { bridge, sandbox, someone, run, writeForms, deleteForms, stop } = await startBackupWorld()
afterAll(stop)

/** The names of the backups in a folder, oldest first. */
const namesIn = (folder: string) => readdirSync(folder).toSorted()

/** Renames an incomplete backup, which accepts it. */
function accept(folder: string, name: string) {
  renameSync(join(folder, name), join(folder, name.replace('-incomplete', '')))
}

/** A way to the bridge on which a collection does not seem to exist. */
async function hide(name: string) {
  const proxy = await startFaultProxy({ target: bridge.url })
  const body = JSON.stringify({ code: 404, errno: 111, error: 'Not Found', message: 'Path not found' })
  const withoutIt = (list: string) => {
    const { data } = JSON.parse(list) as { data: { id: string }[] }
    return JSON.stringify({ data: data.filter(({ id }) => id !== name) })
  }
  proxy.plan(({ path }) => {
    // The number counts what is hidden, too.
    const headers = { 'Total-Records': null, 'Total-Objects': null }
    if (path.endsWith('/collections')) return { kind: 'rewrite', body: withoutIt, headers }
    return path.includes(`/${name}/`) ? { kind: 'status', status: 404, body } : null
  })
  return proxy
}

const lastLine = ({ said }: { said: string }) => said.trimEnd().split('\n').at(-1)

describe('what a complete backup has', () => {
  it.each([
    ['crypto, meta, bookmarks', /^passwords: Firefox syncs it, and this bridge does not expose it$/m],
    ['crypto, bookmarks', /^meta: .*does not expose it$/m],
    ['meta, bookmarks', /^crypto: .*does not expose it$/m],
  ])('is more than a bridge shows that exposes only %s', async (readable_collections, missing) => {
    await using hiding = await startTestBridge({ settings: { readable_collections } })
    const user = hiding.sandbox.addUser('hidden')
    fillSampleData(hiding.sandbox, user, { bookmarks: 20, history: 3 })
    const account = accountFile(valuesOf(hiding.sandbox, user))
    const folder = makeFolder()

    const { code, errors } = await runWith(account, ['backup', folder, '--bridge', hiding.url])

    expect(errors).toMatch(missing)
    expect(errors).not.toContain('is complete')
    expect([code, namesIn(folder)]).toEqual([3, [expect.stringMatching(/-incomplete$/)]])
  })

  it('is what an export of everything has, which names what the bridge hides', async () => {
    const { user } = someone('exported')
    await using hiding = await hide('passwords')
    const withoutEngines = await hide('meta')

    const hidden = await run(user, ['export', 'everything'], { BRIDGE_URL: hiding.url })
    const unknown = await run(user, ['export', 'everything'], { BRIDGE_URL: withoutEngines.url })
    await withoutEngines[Symbol.asyncDispose]()
    const whole = await run(user, ['export', 'everything'])

    const { incomplete, collections } = JSON.parse(hidden.output)
    expect(incomplete).toEqual({ passwords: 'this bridge does not expose it' })
    expect(collections.bookmarks).toHaveLength(20)
    expect(hidden.said).toEndWith('Cannot read passwords: this bridge does not expose it\n')
    expect(JSON.parse(unknown.output).incomplete).toEqual({ meta: 'this bridge does not expose it' })
    expect(JSON.parse(whole.output).incomplete).toEqual({})
    expect([hidden, unknown, whole].map(codeOf)).toEqual([3, 3, 0])
  })

  it('is what an earlier backup has, even if Firefox does not sync it', async () => {
    const { user, folder } = someone('other program')
    sandbox.write(user, 'notes', [await encrypted(sandbox, user, 'notes', { id: 'one' })])
    await run(user, ['backup', folder])
    await using hiding = await hide('notes')

    const outcome = await run(user, ['backup', folder], { BRIDGE_URL: hiding.url })

    expect([outcome.code, lastLine(outcome)]).toEqual([
      3,
      expect.stringMatching(/^notes: .*does not expose it$/),
    ])
  })

  it('includes engines that have never stored anything, which are empty', async () => {
    const user = sandbox.addUser('empty')
    fillSampleData(sandbox, user, { isEmpty: true })
    const folder = makeFolder()

    const { said, code } = await run(user, ['backup', folder])

    expect(said).toContain('passwords: 0 records: unchanged\n')
    expect(code).toBe(0)
  })

  it('is unknown without the list of what Firefox syncs', async () => {
    const { user, folder } = someone('without global')
    sandbox.write(user, 'meta', [{ id: 'global', payload: '' }])

    const outcome = await run(user, ['backup', folder])
    const exported = await run(user, ['export', 'everything'])

    const reason = 'the list of what Firefox syncs is missing or damaged'
    expect([outcome.code, lastLine(outcome)]).toEqual([3, `meta: ${reason}`])
    expect([exported.code, JSON.parse(exported.output).incomplete]).toEqual([3, { meta: reason }])
  })
})

describe('records that the key does not open', () => {
  it('make a backup incomplete above a tenth, until it is renamed; known ones are named in one line', async () => {
    const { user, folder } = someone('unread')
    const damaged = sandbox.records(user, 'passwords').slice(0, 3)
    sandbox.write(
      user,
      'passwords',
      damaged.map(({ id }) => ({ id, payload: foreign })),
    )

    const first = await run(user, ['backup', folder])
    accept(folder, namesIn(folder)[0]!)
    const second = await run(user, ['backup', folder])
    await writeForms(user, idsOf(12))
    sandbox.write(user, 'forms', [{ id: 'leftover', payload: foreign }])
    const third = await run(user, ['backup', folder])
    const elsewhere = await run(user, ['backup', folder], { SYNC_KEY: '00'.repeat(64) })

    expect([first, second, third, elsewhere].map(codeOf)).toEqual([3, 0, 0, 3])
    expect(lastLine(first)).toBe('passwords: the key opens only 1 of 4 records')
    expect(second.said).toContain('passwords: 4 records, of which the key opens 1: unchanged\n')
    expect(third.said.match(/cannot be decrypted.*/g)).toEqual([
      expect.stringMatching(/: (?=.*forms\/leftover)(passwords\/\S+ ?|forms\/leftover ?){4}$/),
    ])
    expect(elsewhere.said).toContain(
      'Cannot decrypt "keys": it was encrypted with another key, or tampered with\n',
    )
  })

  it('are no fault if other programs have stored them without encryption, and come back', async () => {
    const { user, folder } = someone('plain')
    const plain = { id: 'plain', payload: '{"text":"not encrypted"}' }
    for (const name of ['notes', 'forms']) sandbox.write(user, name, [plain])

    const saved = await run(user, ['backup', folder])
    for (const name of ['notes', 'forms']) sandbox.remove(user, name, ['plain'])
    const restored = await run(user, ['restore', folder, 'forms', '--write'])

    expect([saved, restored].map(codeOf)).toEqual([0, 0])
    expect(saved.said).toContain('notes: 1 record: 1 added')
    expect(sandbox.records(user, 'forms').find(({ id }) => id === 'plain')).toMatchObject(plain)
  })

  it('include a payload that was cut off', async () => {
    const { user, folder } = someone('cut off')
    const [login] = sandbox.records(user, 'passwords')
    sandbox.write(user, 'passwords', [{ id: login!.id, payload: login!.payload.slice(0, 50) }])

    const outcome = await run(user, ['backup', folder])

    expect([outcome.code, lastLine(outcome)]).toEqual([3, 'passwords: the key opens only 3 of 4 records'])
  })

  it('are not known without the key, which is said', async () => {
    const { user, folder } = someone('keyless')

    const { said, code } = await run(user, ['backup', folder], { SYNC_KEY: '' })

    expect(said).toContain('SYNC_KEY is missing from the account: records are counted, and not decrypted\n')
    expect(said).toContain('forms: 8 records: 8 added, 0 changed, 0 deleted\n')
    expect(code).toBe(0)
  })
})

describe('a mass deletion', () => {
  it('is noticed though tombstones remain, rotates nothing out, and is the measure once it is accepted', async () => {
    const { user, folder } = someone('loser')
    await writeForms(user, idsOf(30))
    await run(user, ['backup', folder])
    const [good] = namesIn(folder)
    await deleteForms(user, idsOf(25))
    const command = ['backup', folder, '--keep', '1']

    const noticed = [await run(user, command), await run(user, command)]
    const names = namesIn(folder)
    const restored = await run(user, ['restore', folder])
    accept(folder, names.at(-1)!)
    const accepted = await run(user, command)

    expect(noticed.map(codeOf)).toEqual([3, 3])
    expect(noticed[0]!.said).toContain(
      'forms: 38 records, of which the key opens 38: 0 added, 0 changed, 25 deleted\n',
    )
    for (const outcome of noticed)
      expect(lastLine(outcome)).toBe(`forms: only 13 of 38 living records in ${good} are left`)
    expect(names).toEqual([good!, ...Array(2).fill(expect.stringMatching(/-incomplete$/))])
    expect(restored.said).toStartWith(`From ${join(folder, good!)}\n`)
    // The incomplete one that was not accepted has nothing that the new one lacks.
    expect([accepted.code, namesIn(folder)]).toEqual([0, [expect.stringMatching(/Z$/)]])
  })

  it('is not reported of a collection that cannot be read, which is', async () => {
    const { user, folder } = someone('read in part')
    await writeForms(user, idsOf(30))
    await run(user, ['backup', folder])
    await writeForms(user, ['one'])
    await using proxy = await startFaultProxy({ target: bridge.url })
    const fault = { kind: 'status', status: 500, body: '{"message":"Not today"}' } as const
    proxy.plan(({ path }) => (path.includes('/forms/') ? fault : null))

    const { said, code } = await run(user, ['backup', folder], { BRIDGE_URL: proxy.url })

    expect(said.match(/^forms: .*/gm)).toEqual(['forms: Not today'])
    expect(code).toBe(3)
  })

  it('counts records without the key, and says so', async () => {
    const { user, folder } = someone('keyless loser')
    await writeForms(user, idsOf(30))
    await run(user, ['backup', folder], { SYNC_KEY: '' })
    sandbox.remove(user, 'forms')
    await writeForms(user, ['one'])
    const [global] = sandbox.records(user, 'meta')
    const payload = global!.payload.replace(/("forms":\{"version":1,"syncID":")[^"]+/, '$1anotherIdOf')
    sandbox.write(user, 'meta', [{ id: 'global', payload }])

    const outcome = await run(user, ['backup', folder], { SYNC_KEY: '' })

    expect([outcome.code, lastLine(outcome)]).toEqual([
      3,
      expect.stringContaining('forms: only 1 of 38 records in '),
    ])
  })
})

describe('a folder of backups', () => {
  it('keeps and names the backups of another account, and restores the own one', async () => {
    const { user, folder } = someone('one of two')
    const other = sandbox.addUser('other of two')
    fillSampleData(sandbox, other, { bookmarks: 20, history: 3 })
    await run(other, ['backup', folder])
    const [foreignName] = namesIn(folder)
    const command = ['backup', folder, '--keep', '1']

    const outcomes = [await run(user, command), await run(user, command)]
    const listed = await run(user, ['backup', folder, '--list'])
    const restored = await run(other, ['restore', folder])

    const [, ownName] = namesIn(folder)
    expect(outcomes.map(codeOf)).toEqual([0, 0])
    expect(outcomes[0]!.said).toContain('[3/9] bookmarks: 20 records, of which the key opens 20: 20 added')
    for (const { said } of outcomes)
      expect(said).toStartWith(
        `1 backup of another account, or from before a password reset, not counted or removed: ${foreignName}\n`,
      )
    expect(listed.output.match(/account [\da-f]{8}/g)).toHaveLength(2)
    expect(restored.said).toContain(`From ${join(folder, foreignName!)}\n`)
    expect(restored.said).toContain(`not used: ${ownName}\n`)
  })

  it('links unchanged files, and keeps two copies of each', async () => {
    const { user, folder } = someone('linker')
    const inodes = () => namesIn(folder).map((name) => statSync(join(folder, name, 'bookmarks.jsonl')).ino)
    for (const _ of [1, 2, 3, 4]) await run(user, ['backup', folder, '--keep', '3'])
    const before = inodes()
    // The copy of the other two is damaged, so the next run has to make another one.
    const alone = before.findIndex((inode) => before.indexOf(inode) === before.lastIndexOf(inode))
    flipIn(join(folder, namesIn(folder)[alone]!, 'bookmarks.jsonl'))
    const damaged = before[alone]!

    const { code } = await run(user, ['backup', folder, '--keep', '3'])

    const after = inodes().filter((inode) => inode !== damaged)
    expect([before.length, new Set(before).size]).toEqual([3, 2])
    expect([code, new Set(after).size]).toEqual([0, 2])
  })

  it('loses an incomplete backup only when a complete one has every living record of it', async () => {
    const { user, folder } = someone('superseded')
    await using hiding = await hide('passwords')
    const hidden = { BRIDGE_URL: hiding.url }
    await writeForms(user, ['lost'])
    await run(user, ['backup', folder], hidden)
    await deleteForms(user, ['lost'])
    await run(user, ['backup', folder], hidden)
    const [first, second] = namesIn(folder)

    const { code } = await run(user, ['backup', folder])

    const names = namesIn(folder)
    expect([first, second]).toEqual(Array(2).fill(expect.stringMatching(/-incomplete$/)))
    expect([code, names]).toEqual([0, [first!, expect.stringMatching(/Z$/)]])
  })

  it('is listed with date, records, size, and what each lacks', async () => {
    const { user, folder } = someone('lister')
    await run(user, ['backup', folder])
    sandbox.write(user, 'meta', [{ id: 'global', payload: '' }])
    await run(user, ['backup', folder])
    const [whole, incomplete] = namesIn(folder)

    const listed = await run(user, ['backup', folder, '--list'])
    flipIn(join(folder, whole!, 'forms.jsonl'))
    rmSync(join(folder, whole!, 'prefs.jsonl'))
    const damaged = await run(user, ['backup', folder, '--list'])

    const reason = 'meta: the list of what Firefox syncs is missing or damaged'
    expect(listed.output).toMatch(new RegExp(`^${whole}  44 records  0.0 MB  complete\n`))
    expect(listed.output).toEndWith(`${incomplete}  44 records  0.0 MB  incomplete: ${reason}\n`)
    expect(damaged.output).toMatch(
      new RegExp(`^${whole}  .*  damaged: (forms.jsonl, prefs|prefs.jsonl, forms).jsonl\n`),
    )
    expect([listed, damaged].map(codeOf)).toEqual([0, 3])
  })
})
