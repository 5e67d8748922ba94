import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decryptRecords } from '../../docs/examples/sync-crypto.js'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { startTestBridge } from '../support/bridge.ts'
import { runToEnd } from '../support/processes.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { accountOf, encrypted, foreign, keyPairOf } from './records.ts'

const examples = join(import.meta.dir, '../../docs/examples')
const bridge = await startTestBridge({ writable: ['bookmarks', 'passwords', 'forms'] })
const { sandbox } = bridge
afterAll(async () => {
  await bridge.stop()
  endAll()
})

/** Somebody with a little data, and a folder for the backups. */
function someone(name: string) {
  const user = sandbox.addUser(name)
  fillSampleData(sandbox, user, { bookmarks: 20, history: 3 })
  return { user, folder: makeFolder() }
}

function run(user: SandboxUser, [script, ...rest]: string[], more: Record<string, string> = {}) {
  const environment = { BRIDGE_URL: bridge.url, ...accountOf(user), ...more }
  return runToEnd([process.execPath, join(examples, script!), ...rest], { environment })
}

const well = ['', 0]
const said = ({ errors, code }: Awaited<ReturnType<typeof run>>) => [errors, code]

/** The backups in a folder, the oldest first, each as the payloads of its records by their places. */
function backupsIn(folder: string): Record<string, string>[] {
  const contentOf = (name: string) => {
    const files = readdirSync(join(folder, name)).filter((file) => file.endsWith('.jsonl'))
    return files.flatMap((file) => {
      const lines = readFileSync(join(folder, name, file), 'utf8')
        .split('\n')
        .filter(Boolean)
      const records = lines.map((line) => JSON.parse(line) as { id: string; payload: string })
      return records.map(({ id, payload }) => [`${file.replace('.jsonl', '')}/${id}`, payload])
    })
  }
  return readdirSync(folder)
    .toSorted()
    .map((name) => Object.fromEntries(contentOf(name)))
}

/** What the storage has, in the same form. */
function stored(user: SandboxUser): Record<string, string> {
  const names = ['bookmarks', 'clients', 'crypto', 'forms', 'history', 'meta', 'passwords', 'prefs', 'tabs']
  return Object.fromEntries(
    names.flatMap((name) => sandbox.records(user, name).map(({ id, payload }) => [`${name}/${id}`, payload])),
  )
}

describe('backup.ts', () => {
  it('makes a whole backup each time, and asks only for what has changed', async () => {
    const { user, folder } = someone('first')
    const before = stored(user)

    const first = await run(user, ['backup.ts', folder])
    const second = await run(user, ['backup.ts', folder])
    sandbox.write(user, 'forms', [
      await encrypted(sandbox, user, 'forms', { id: 'made+/', name: 'a', value: 'b' }),
    ])
    const third = await run(user, ['backup.ts', folder])

    const [one, two, three] = backupsIn(folder)
    const [name] = readdirSync(folder)
    expect([first, second, third].map(said)).toEqual([well, well, well])
    expect(first.output).toMatch(/^\[1\/9\] bookmarks: 20 records\n/)
    expect(second.output.match(/unchanged/g)).toHaveLength(9)
    expect(third.output.match(/unchanged/g)).toHaveLength(8)
    expect(third.output).toContain('forms: 1 record\n')
    expect([one, two, three]).toEqual([before, before, stored(user)])
    expect(name).toMatch(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/)
    expect(statSync(join(folder, name!)).mode & 0o777).toBe(0o700)
    expect(statSync(join(folder, name!, 'forms.jsonl')).mode & 0o777).toBe(0o600)
  })

  it('keeps as many as it is told', async () => {
    const { user, folder } = someone('keeper')
    const command = ['backup.ts', folder, '--keep', '2']

    const codes = [await run(user, command), await run(user, command)].map(({ code }) => code)
    const [, kept] = readdirSync(folder).toSorted()
    codes.push((await run(user, command)).code)

    expect(codes).toEqual([0, 0, 0])
    expect(readdirSync(folder)).toHaveLength(2)
    expect(readdirSync(folder)).toContain(kept!)
  })

  it('is not disturbed by another run at the same time', async () => {
    const { user, folder } = someone('twin')
    const command = ['backup.ts', folder, '--keep', '2']
    for (const _ of [1, 2]) await run(user, command)

    const outcomes = await Promise.all([run(user, command), run(user, command)])

    expect(outcomes.map(said)).toEqual([well, well])
    expect(backupsIn(folder).slice(-2)).toEqual([stored(user), stored(user)])
  })

  it('says what is missing when most of a collection is gone, and removes no old backup then', async () => {
    const { user, folder } = someone('loser')
    await run(user, ['backup.ts', folder])
    sandbox.remove(user, 'passwords')
    sandbox.remove(user, 'forms')
    sandbox.write(user, 'forms', [await encrypted(sandbox, user, 'forms', { id: 'left' })])
    const [global] = sandbox.records(user, 'meta')
    const payload = global!.payload.replace(/("forms":\{"version":1,"syncID":")[^"]+/, '$1anotherIdOf')
    sandbox.write(user, 'meta', [{ id: 'global', payload }])

    const command = ['backup.ts', folder, '--keep', '1']
    const outcomes = [await run(user, command), await run(user, command)]

    const missing = [
      'forms: of 8 records in the last backup 1 are left',
      'passwords: of 4 records in the last backup 0 are left',
    ]
    for (const { errors, code } of outcomes) {
      expect([errors.trimEnd().split('\n').toSorted(), code]).toEqual([missing, 1])
    }
    expect(readdirSync(folder)).toHaveLength(3)
  })

  it('compares with one that lacks something only after somebody has accepted it', async () => {
    const { user, folder } = someone('accepter')
    await run(user, ['backup.ts', folder])
    const [whole] = readdirSync(folder)
    sandbox.remove(user, 'passwords')
    const command = ['backup.ts', folder, '--keep', '1']
    for (const _ of [1, 2]) await run(user, command)
    const [, first, second] = readdirSync(folder).toSorted()

    const before = await run(user, ['restore.ts', folder])
    renameSync(join(folder, second!), join(folder, second!.replace('-incomplete', '')))
    const between = await run(user, ['restore.ts', folder])
    const accepted = await run(user, command)

    expect([first, second]).toEqual(Array(2).fill(expect.stringMatching(/^[\dT.-]+Z-incomplete$/)))
    expect(before.output).toStartWith(`From ${join(folder, whole!)}\n`)
    expect(before.output).toContain('passwords: 4 to write')
    expect(between.output).toStartWith(`From ${join(folder, second!.replace('-incomplete', ''))}\n`)
    expect(said(accepted)).toEqual(well)
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^[\dT.-]+Z$/)])
    expect(backupsIn(folder)).toEqual([stored(user)])
  })

  it('says which records cannot be decrypted, and fails when they have become more', async () => {
    const { user, folder } = someone('unread')
    await run(user, ['backup.ts', folder])
    sandbox.write(user, 'bookmarks', [{ id: 'foreignrecor', payload: foreign }])

    const found = await run(user, ['backup.ts', folder])
    const [, name] = readdirSync(folder).toSorted()
    renameSync(join(folder, name!), join(folder, name!.replace('-incomplete', '')))
    const known = await run(user, ['backup.ts', folder])
    const elsewhere = await run(user, ['backup.ts', folder], { SYNC_KEY: '00'.repeat(64) })

    const finding = 'bookmarks: 1 of 21 cannot be decrypted: foreignrecor\n'
    const otherKey = 'Cannot decrypt "keys": it was encrypted with another key\n'
    expect([found, known, elsewhere].map(said)).toEqual([[finding, 1], well, [otherKey, 1]])
    expect(known.output).toContain(finding)
  })

  it('goes on without a collection that cannot be read, and without what Firefox says of its collections', async () => {
    const { user, folder } = someone('partly')
    await run(user, ['backup.ts', folder])
    sandbox.write(user, 'meta', [{ id: 'global', payload: '' }])
    await using proxy = await startFaultProxy({ target: bridge.url })
    const body = JSON.stringify({
      code: 503,
      errno: 201,
      error: 'Service Unavailable',
      message: 'Not today',
    })
    proxy.plan(({ path }) => (path.includes('/passwords/') ? { kind: 'status', status: 500, body } : null))

    const partly = await run(user, ['backup.ts', folder], { BRIDGE_URL: proxy.url })
    const [, name] = readdirSync(folder).toSorted()
    const whole = await run(user, ['backup.ts', folder])

    expect(said(partly)).toEqual(['passwords: The bridge answers 500: Not today\n', 1])
    expect(name).toEndWith('-incomplete')
    const places = Object.keys(stored(user)).filter((place) => !place.startsWith('passwords/'))
    expect(Object.keys(backupsIn(folder)[1]!).toSorted()).toEqual(places.toSorted())
    expect(said(whole)).toEqual(well)
    expect(backupsIn(folder)[2]).toEqual(stored(user))
  })

  it('leaves nothing behind when it fails', async () => {
    const { user, folder } = someone('silent')

    const { errors, code } = await run(user, ['backup.ts', folder], { BRIDGE_URL: 'http://127.0.0.1:1' })

    expect([errors, code]).toEqual(['Nobody answers at http://127.0.0.1:1: is the bridge running?\n', 1])
    expect(readdirSync(folder)).toEqual([])
  })

  it('mends what the last backup lacks, and takes what has come with an old date', async () => {
    const { user, folder } = someone('mender')
    await run(user, ['backup.ts', folder])
    const [name] = readdirSync(folder)
    const file = join(folder, name!, 'forms.jsonl')
    writeFileSync(file, readFileSync(file, 'utf8').split('\n').slice(1).join('\n'))
    const old = await encrypted(sandbox, user, 'bookmarks', { id: 'oldbookmarkk', type: 'bookmark' })
    sandbox.load(user, 'bookmarks', [{ ...old, sortindex: null, expiry: null, modified: 1_000_000_000_000 }])
    sandbox.write(user, 'bookmarks', [await encrypted(sandbox, user, 'bookmarks', { id: 'newbookmarkk' })])

    const { errors, code } = await run(user, ['backup.ts', folder])

    expect([errors, code]).toEqual(well)
    expect(backupsIn(folder)[1]).toEqual(stored(user))
  })

  it('says which backup cannot be read, and goes on with the one before once that is removed', async () => {
    const { user, folder } = someone('damaged')
    for (const _ of [1, 2]) await run(user, ['backup.ts', folder])
    const last = join(folder, readdirSync(folder).toSorted()[1]!)
    writeFileSync(join(last, 'state.json'), '')

    const outcomes = [await run(user, ['backup.ts', folder]), await run(user, ['restore.ts', folder])]
    rmSync(last, { recursive: true })
    const removed = await run(user, ['backup.ts', folder])

    for (const { errors, code } of outcomes) {
      expect(errors).toStartWith(`Cannot read ${last}: `)
      expect(errors).toEndWith('. Remove it, and the one before takes its place\n')
      expect(code).toBe(1)
    }
    expect(said(removed)).toEqual(well)
    expect(removed.output.match(/unchanged/g)).toHaveLength(9)
  })

  it('takes collections that are called like what every object has', async () => {
    const { user, folder } = someone('named')
    const names = ['__proto__', 'constructor']
    for (const name of names) {
      sandbox.write(user, name, [await encrypted(sandbox, user, name, { id: 'a' })])
    }

    const first = await run(user, ['backup.ts', folder])
    const second = await run(user, ['backup.ts', folder])
    const restored = await run(user, ['restore.ts', folder, ...names])

    expect([first, second, restored].map(said)).toEqual([well, well, well])
    expect(first.output).toContain('constructor: 1 record\n')
    expect(second.output.match(/unchanged/g)).toHaveLength(11)
    expect(restored.output).toContain('__proto__: 0 to write, 0 different')
  })

  it('says how it is called', async () => {
    const { user, folder } = someone('caller')

    const outcomes = [
      await run(user, ['backup.ts']),
      await run(user, ['backup.ts', folder, '--keep', '0']),
      await run(user, ['restore.ts', folder, '--all']),
    ]

    const usages = ['bun backup.ts FOLDER [--keep N]', 'bun backup.ts FOLDER [--keep N]']
    usages.push('bun restore.ts FOLDER [COLLECTION ...] [--write | --overwrite]')
    expect(outcomes.map(said)).toEqual(usages.map((usage) => [`Usage: ${usage}\n`, 2]))
  })
})

describe('restore.ts', () => {
  it('puts back what is missing, after a dry run, and overwrites only when told to', async () => {
    const { user, folder } = someone('restored')
    await run(user, ['backup.ts', folder])
    const [gone, changed] = sandbox.records(user, 'passwords')
    sandbox.remove(user, 'passwords', [gone!.id])
    sandbox.write(user, 'passwords', [{ id: changed!.id, payload: foreign }])
    const payloadOf = (id: string) =>
      sandbox.records(user, 'passwords').find((each) => each.id === id)?.payload

    const dry = await run(user, ['restore.ts', folder, 'passwords'])
    const untouched = payloadOf(gone!.id)
    const missing = await run(user, ['restore.ts', folder, 'passwords', '--write'])
    const [restored, left] = [payloadOf(gone!.id), payloadOf(changed!.id)]
    const all = await run(user, ['restore.ts', folder, 'passwords', '--overwrite'])
    const overwritten = payloadOf(changed!.id)
    const again = await run(user, ['restore.ts', folder, '--write'])
    const refused = await run(user, ['restore.ts', folder, 'crypto', '--write'])

    expect(dry.output.split('\n')).toEqual([
      `From ${join(folder, readdirSync(folder)[0]!)}`,
      'passwords: 1 to write, 1 different in the storage',
      'Nothing was written. Write with --write.',
      '',
    ])
    expect(untouched).toBeUndefined()
    expect(missing.output).toContain('  1 written, 0 left alone')
    expect([restored, left]).toEqual([gone!.payload, foreign])
    expect(all.output).toContain('  1 written, 0 left alone')
    expect(overwritten).toBe(changed!.payload)
    expect([again.code, again.output.match(/[1-9]\d* (to write|written)/g)]).toEqual([0, null])
    expect(again.output).not.toMatch(/^(crypto|meta|tabs|clients)/m)
    expect(said(refused)).toEqual(['crypto is not in this backup, or is not for restoring\n', 1])
  })

  it('puts back what was deleted since, which only the key tells from other changes', async () => {
    const { user, folder } = someone('deleter')
    await run(user, ['backup.ts', folder])
    const [gone, changed] = sandbox.records(user, 'passwords')
    const tombstone = await encrypted(sandbox, user, 'passwords', { id: gone!.id, deleted: true })
    sandbox.write(user, 'passwords', [tombstone, { id: changed!.id, payload: foreign }])
    const command = ['restore.ts', folder, 'passwords']

    const keyless = await run(user, [...command, '--write'], { SYNC_KEY: '' })
    const dry = await run(user, command)
    const { output } = await run(user, [...command, '--write'])

    const now = new Map(sandbox.records(user, 'passwords').map(({ id, payload }) => [id, payload]))
    const warning = '  Without SYNC_KEY nobody can say which of them were only deleted\n'
    expect(keyless.output).toContain(`passwords: 0 to write, 2 different in the storage\n${warning}`)
    expect(dry.output).toContain(
      'passwords: 1 to write, 1 different in the storage\n  1 of them were deleted',
    )
    expect(output).toContain('  1 written, 0 left alone')
    expect([now.get(gone!.id), now.get(changed!.id)]).toEqual([gone!.payload, foreign])
  })

  it('puts back an older backup by its name, in as many batches as it takes', async () => {
    const { user, folder } = someone('older')
    const made = Array.from({ length: 60 }, (_, index) => ({ id: `made/${index}+`, payload: foreign }))
    sandbox.write(user, 'forms', made)
    await run(user, ['backup.ts', folder])
    sandbox.write(
      user,
      'forms',
      made.map(({ id }) => ({ id, payload: 'later' })),
    )
    await run(user, ['backup.ts', folder])
    const [older] = readdirSync(folder).toSorted()

    const last = await run(user, ['restore.ts', folder, 'forms'])
    const { output } = await run(user, ['restore.ts', join(folder, older!), 'forms', '--overwrite'])

    const restored = sandbox.records(user, 'forms').filter(({ payload }) => payload === foreign)
    expect(last.output).toContain('forms: 0 to write, 0 different')
    expect(output).toContain('  60 written, 0 left alone')
    expect(restored).toHaveLength(60)
  })

  it('goes on where writes are not allowed, and says so', async () => {
    const { user, folder } = someone('refused')
    await run(user, ['backup.ts', folder])
    sandbox.remove(user, 'prefs')
    sandbox.remove(user, 'forms')

    const { output, errors, code } = await run(user, ['restore.ts', folder, 'forms', 'prefs', '--write'])

    expect(output).toContain('forms: 8 to write, 0 different in the storage\n  8 written, 0 left alone')
    expect([errors, code]).toEqual(['  1 refused: writes to this collection are not enabled\n', 1])
  })

  it('tells what it has written when it cannot go on', async () => {
    const { user, folder } = someone('stopped')
    const made = Array.from({ length: 60 }, (_, index) => ({ id: `made${index}`, payload: foreign }))
    sandbox.write(user, 'forms', made)
    await run(user, ['backup.ts', folder])
    sandbox.remove(user, 'forms')
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 3 ? { kind: 'reset-after' } : null))

    const command = ['restore.ts', folder, 'forms', '--write']
    const stopped = await run(user, command, { BRIDGE_URL: proxy.url })
    const again = await run(user, command)

    const unknown = 'No answer came: nobody knows whether this was written. Look before you repeat it\n'
    expect(said(stopped)).toEqual([unknown, 1])
    expect(stopped.output).toEndWith('  50 written, 0 left alone: changed meanwhile\n')
    expect(again.output).toContain('forms: 0 to write, 0 different')
  })

  it('encrypts anew when the account has got new keys, skips what it cannot read, and knows it again', async () => {
    const { user: before, folder } = someone('before')
    sandbox.write(before, 'passwords', [{ id: '{foreign}', payload: foreign }])
    await run(before, ['backup.ts', folder])
    const after = sandbox.addUser('after')
    fillSampleData(sandbox, after, { isEmpty: true })
    const command = ['restore.ts', folder, 'passwords']
    const BACKUP_SYNC_KEY = before.syncKey.toString('hex')

    const keyless = await run(after, command, { SYNC_KEY: '' })
    const translated = await run(after, [...command, '--write'], { BACKUP_SYNC_KEY })
    const again = await run(after, command, { BACKUP_SYNC_KEY })
    const keyPair = await keyPairOf(sandbox, after, 'passwords')
    const { readable } = await decryptRecords(keyPair, sandbox.records(after, 'passwords'))

    const wanted = sandbox.records(before, 'passwords').filter(({ id }) => id !== '{foreign}')
    expect([keyless.code, keyless.errors]).toEqual([1, expect.stringContaining('set SYNC_KEY')])
    expect(translated.output).toContain('passwords: 4 to write, 0 different in the storage\n')
    expect(translated.output).toContain('cannot be read: {foreign}')
    expect(again.output).toContain('passwords: 0 to write, 0 different in the storage\n')
    expect(readable.map(({ id }) => id)).toEqual(wanted.map(({ id }) => id))
  })

  it('asks for a Firefox first where the account has no keys', async () => {
    const { user, folder } = someone('keyed')
    await run(user, ['backup.ts', folder])
    const empty = sandbox.addUser('empty')

    const refused = await run(empty, ['restore.ts', folder, '--write'])

    const advice = 'There are no keys in the account: let a Firefox sync first, it makes them\n'
    expect(said(refused)).toEqual([advice, 1])
  })
})
