import { afterAll, describe, expect, it } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClearRecord } from '../../src/client/crypto.ts'
import { decryptRecords } from '../../src/client/decrypt-records.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { startTestBridge } from '../support/bridge.ts'
import { runToEnd } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, executablePath, makeFolder, start } from '../support/executable.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { accountFile, runWith, valuesOf } from './world.ts'
import { accountOf, encrypted, foreign, keyPairOf } from '../examples/records.ts'

const bridge = await startTestBridge({ writable: ['bookmarks', 'passwords', 'forms'] })
const { sandbox } = bridge
afterAll(async () => {
  await bridge.stop()
  endAll()
})

/** A user with a little data, and a folder for backups. */
function someone(name: string) {
  const user = sandbox.addUser(name)
  fillSampleData(sandbox, user, { bookmarks: 20, history: 3 })
  return { user, folder: makeFolder() }
}

/** The account file of a user, with its bridge. */
function fileOf(user: SandboxUser, more: Record<string, string> = {}): string {
  return accountFile({ ...accountOf(user), BRIDGE_URL: bridge.url, ...more })
}

/** Runs a command for a user; `more` overrides lines of the account file, and the environment. Leaves out the line that names the bridge. */
async function run(user: SandboxUser, command: string[], more: Record<string, string> = {}) {
  const { BACKUP_SYNC_KEY, ...values } = more
  const environment = {
    SYNC_BRIDGE_ACCOUNT: fileOf(user, values),
    ...(BACKUP_SYNC_KEY !== undefined && { BACKUP_SYNC_KEY }),
  }
  const { output, errors, code } = await runToEnd([executablePath, ...command], { environment })
  return { output, said: errors.replace(/^Bridge: .*\n/, ''), code }
}

const codeOf = ({ code }: { code: number }) => code

/** The backups in a folder, oldest first, each as its records' payloads by path. */
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

/** The storage's contents in the same form. */
function stored(user: SandboxUser): Record<string, string> {
  const names = ['bookmarks', 'clients', 'crypto', 'forms', 'history', 'meta', 'passwords', 'prefs', 'tabs']
  return Object.fromEntries(
    names.flatMap((name) => sandbox.records(user, name).map(({ id, payload }) => [`${name}/${id}`, payload])),
  )
}

describe('backup', () => {
  it('makes a complete backup each time, and requests only changes', async () => {
    const { user, folder } = someone('first')
    const before = stored(user)

    const first = await run(user, ['backup', folder])
    const second = await run(user, ['backup', folder])
    sandbox.write(user, 'forms', [
      await encrypted(sandbox, user, 'forms', { id: 'made+/', name: 'a', value: 'b' }),
    ])
    const third = await run(user, ['backup', folder])

    const [one, two, three] = backupsIn(folder)
    const [name] = readdirSync(folder)
    expect([first, second, third].map(codeOf)).toEqual([0, 0, 0])
    expect(first.said).toMatch(/^\[1\/9\] bookmarks: 20 records\n/)
    expect(second.said.match(/unchanged/g)).toHaveLength(9)
    expect(third.said.match(/unchanged/g)).toHaveLength(8)
    expect(third.said).toContain('forms: 1 record\n')
    expect([one, two, three]).toEqual([before, before, stored(user)])
    expect(name).toMatch(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/)
    expect(statSync(join(folder, name!)).mode & 0o777).toBe(0o700)
    expect(statSync(join(folder, name!, 'forms.jsonl')).mode & 0o777).toBe(0o600)
  })

  it('leaves out a login that was deleted without a tombstone, and keeps what may have expired', async () => {
    const { user, folder } = someone('merged')
    await run(user, ['backup', folder])
    const [login] = sandbox.records(user, 'passwords')
    const [page] = sandbox.records(user, 'history')
    sandbox.remove(user, 'passwords', [login!.id])
    sandbox.remove(user, 'history', [page!.id])

    const { code } = await run(user, ['backup', folder])

    expect(code).toBe(0)
    expect(backupsIn(folder)[1]).toEqual({ ...stored(user), [`history/${page!.id}`]: page!.payload })
  })

  it('keeps as many as --keep says', async () => {
    const { user, folder } = someone('keeper')
    const command = ['backup', folder, '--keep', '2']

    const codes = [await run(user, command), await run(user, command)].map(({ code }) => code)
    const [, kept] = readdirSync(folder).toSorted()
    codes.push((await run(user, command)).code)

    expect(codes).toEqual([0, 0, 0])
    expect(readdirSync(folder)).toHaveLength(2)
    expect(readdirSync(folder)).toContain(kept!)
  })

  it('is not affected by a concurrent run', async () => {
    const { user, folder } = someone('twin')
    const command = ['backup', folder, '--keep', '2']
    for (const _ of [1, 2]) await run(user, command)
    mkdirSync(join(folder, '.draft-other'))

    const outcomes = await Promise.all([run(user, command), run(user, command)])

    expect(outcomes.map(codeOf)).toEqual([0, 0])
    expect(backupsIn(folder).slice(-2)).toEqual([stored(user), stored(user)])
    expect(readdirSync(folder)).toContain('.draft-other')
  })

  it('reports that most of a collection is gone, and then removes no old backup', async () => {
    const { user, folder } = someone('loser')
    await run(user, ['backup', folder])
    sandbox.remove(user, 'passwords')
    sandbox.remove(user, 'forms')
    sandbox.write(user, 'forms', [await encrypted(sandbox, user, 'forms', { id: 'left' })])
    const [global] = sandbox.records(user, 'meta')
    const payload = global!.payload.replace(/("forms":\{"version":1,"syncID":")[^"]+/, '$1anotherIdOf')
    sandbox.write(user, 'meta', [{ id: 'global', payload }])

    const command = ['backup', folder, '--keep', '1']
    const outcomes = [await run(user, command), await run(user, command)]

    const missing = [
      'forms: only 1 of 8 records in the last backup remain',
      'passwords: only 0 of 4 records in the last backup remain',
    ]
    for (const { said, code } of outcomes) {
      expect([said.trimEnd().split('\n').slice(-2).toSorted(), code]).toEqual([missing, 3])
    }
    expect(readdirSync(folder)).toHaveLength(3)
  })

  it('compares with an incomplete one only after the user has accepted it', async () => {
    const { user, folder } = someone('accepter')
    await run(user, ['backup', folder])
    const [whole] = readdirSync(folder)
    sandbox.remove(user, 'passwords')
    const command = ['backup', folder, '--keep', '1']
    for (const _ of [1, 2]) await run(user, command)
    const [, first, second] = readdirSync(folder).toSorted()

    const before = await run(user, ['restore', folder])
    renameSync(join(folder, second!), join(folder, second!.replace('-incomplete', '')))
    const between = await run(user, ['restore', folder])
    const accepted = await run(user, command)

    expect([first, second]).toEqual(Array(2).fill(expect.stringMatching(/^[\dT.-]+Z-incomplete$/)))
    expect(before.said).toStartWith(`From ${join(folder, whole!)}\n`)
    expect(before.said).toContain('passwords: 4 to write')
    expect(between.said).toStartWith(`From ${join(folder, second!.replace('-incomplete', ''))}\n`)
    expect(accepted.code).toBe(0)
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^[\dT.-]+Z$/)])
    expect(backupsIn(folder)).toEqual([stored(user)])
  })

  it('reports undecryptable records, and fails if their number grows', async () => {
    const { user, folder } = someone('unread')
    await run(user, ['backup', folder])
    sandbox.write(user, 'bookmarks', [{ id: 'foreignrecor', payload: foreign }])

    const found = await run(user, ['backup', folder])
    const [, name] = readdirSync(folder).toSorted()
    renameSync(join(folder, name!), join(folder, name!.replace('-incomplete', '')))
    const known = await run(user, ['backup', folder])
    const elsewhere = await run(user, ['backup', folder], { SYNC_KEY: '00'.repeat(64) })

    const finding = 'bookmarks: 1 of 21 cannot be decrypted: foreignrecor\n'
    const otherKey = 'Cannot decrypt "keys": it was encrypted with another key, or tampered with\n'
    expect([found, known, elsewhere].map(codeOf)).toEqual([3, 0, 3])
    expect(found.said).toEndWith(finding)
    expect(elsewhere.said).toEndWith(otherKey)
    expect(known.said).toContain(finding)
  })

  it('skips a collection that cannot be read, and works without meta/global', async () => {
    const { user, folder } = someone('partly')
    await run(user, ['backup', folder])
    sandbox.write(user, 'meta', [{ id: 'global', payload: '' }])
    await using proxy = await startFaultProxy({ target: bridge.url })
    const body = JSON.stringify({
      code: 503,
      errno: 201,
      error: 'Service Unavailable',
      message: 'Not today',
    })
    proxy.plan(({ path }) => (path.includes('/passwords/') ? { kind: 'status', status: 500, body } : null))

    const partly = await run(user, ['backup', folder], { BRIDGE_URL: proxy.url })
    const [, name] = readdirSync(folder).toSorted()
    const whole = await run(user, ['backup', folder])

    expect(partly.said).toEndWith('passwords: Not today\n')
    expect(partly.code).toBe(3)
    expect(name).toEndWith('-incomplete')
    const places = Object.keys(stored(user)).filter((place) => !place.startsWith('passwords/'))
    expect(Object.keys(backupsIn(folder)[1]!).toSorted()).toEqual(places.toSorted())
    expect(whole.code).toBe(0)
    expect(backupsIn(folder)[2]).toEqual(stored(user))
  })

  it.each([
    // It reads meta before the list of collections, for the sync ids.
    [['backup'], 6, 9],
    [['export', 'everything', '--output'], 3, 8],
  ])(
    'retries one collection in an outage, and each after one that always fails: %j',
    async (command, retries, collections) => {
      const { user, folder } = someone(`outage of ${command[0]}`)
      await using proxy = await startFaultProxy({ target: bridge.url })
      const fault = { kind: 'status', status: 503, headers: { 'Retry-After': '0' }, body: '{}' } as const
      const runOnce = async () => {
        const words = [...command, join(folder, 'saved')]
        const { said, code } = await run(user, words, { BRIDGE_URL: proxy.url })
        return [code, said.match(/retrying/g)?.length, said.match(/\S+: The bridge returned 503/g)]
      }

      proxy.plan(({ path }) => (path.endsWith('/records') ? fault : null))
      const outage = await runOnce()
      let isFirst = true
      proxy.plan(({ path }) => {
        const failsOnce = path.includes('/forms/') && isFirst
        if (failsOnce) isFirst = false
        return failsOnce || path.includes('/bookmarks/') ? fault : null
      })
      const always = await runOnce()

      expect(outage).toMatchObject([3, retries, { length: collections }])
      expect(always).toEqual([3, 4, ['bookmarks: The bridge returned 503']])
    },
  )

  it('does not ask for a Firefox if the keys cannot be read', async () => {
    const { user, folder } = someone('without keys')
    await using proxy = await startFaultProxy({ target: bridge.url })
    const fault = { kind: 'status', status: 500, body: '{"message":"Not today"}' } as const
    proxy.plan(({ path }) => (path.endsWith('/crypto/records') ? fault : null))

    const { said, code } = await run(user, ['backup', folder], { BRIDGE_URL: proxy.url })

    expect(said).toEndWith('crypto: Not today\n')
    expect(code).toBe(3)
  })

  it('writes nothing outside its folder, whatever a bridge calls its collections', async () => {
    const { user, folder } = someone('misled')
    const backups = join(folder, 'backups')
    await using proxy = await startFaultProxy({ target: bridge.url })
    const named = (body: string) => {
      const { data } = JSON.parse(body) as { data: object[] }
      return JSON.stringify({ data: [...data, { id: '../../evil', last_modified: 10 }] })
    }
    proxy.plan(({ path }) => (path.endsWith('/collections') ? { kind: 'rewrite', body: named } : null))

    const { said, code } = await run(user, ['backup', backups], { BRIDGE_URL: proxy.url })

    expect(said).toEndWith('"../../evil": not a valid collection name\n')
    expect(code).toBe(3)
    expect(readdirSync(folder)).toEqual(['backups'])
    expect(readdirSync(backups)).toEqual([expect.stringMatching(/-incomplete$/)])
  })

  it('reports collections that were emptied or wiped while they were read', async () => {
    const { user, folder } = someone('emptied')
    await using proxy = await startFaultProxy({ target: bridge.url })
    const [global] = sandbox.records(user, 'meta')
    const payload = global!.payload.replace(/("forms":\{"version":1,"syncID":")[^"]+/, '$1anotherIdOf')
    proxy.plan(({ method, path }) => {
      if (method === 'GET' && path.includes('/passwords/')) sandbox.remove(user, 'passwords')
      if (path.includes('/forms/')) sandbox.write(user, 'meta', [{ id: 'global', payload }])
      return null
    })

    const { said, code } = await run(user, ['backup', folder], { BRIDGE_URL: proxy.url })

    expect(said).toEndWith('passwords: was emptied while it was read\nforms: was wiped while it was read\n')
    expect([code, readdirSync(folder)]).toEqual([3, [expect.stringMatching(/-incomplete$/)]])
  })

  it('counts again if the storage has counted a record that came meanwhile', async () => {
    const { user, folder } = someone('counter')
    await using proxy = await startFaultProxy({ target: bridge.url })
    let counts = 0
    proxy.plan(({ method, path }) => {
      const isFirst = method === 'HEAD' && path.includes('/forms/') && ++counts === 1
      return isFirst ? { kind: 'rewrite', headers: { 'Total-Records': '9' } } : null
    })

    const { code } = await run(user, ['backup', folder], { BRIDGE_URL: proxy.url })

    expect([code, counts]).toEqual([0, 2])
  })

  it('leaves nothing behind when it fails', async () => {
    const { user, folder } = someone('silent')

    const { said, code } = await run(user, ['backup', folder], { BRIDGE_URL: 'http://127.0.0.1:1' })

    const silence = 'No response from the bridge at http://127.0.0.1:1. Is it running?'
    expect([said, code]).toEqual([`sync-bridge: ${silence}\n`, 1])
    expect(readdirSync(folder)).toEqual([])
  })

  it('completes what the last backup lacks, and includes new records with an old date', async () => {
    const { user, folder } = someone('mender')
    await run(user, ['backup', folder])
    const [name] = readdirSync(folder)
    const file = join(folder, name!, 'forms.jsonl')
    writeFileSync(file, readFileSync(file, 'utf8').split('\n').slice(1).join('\n'))
    const old = await encrypted(sandbox, user, 'bookmarks', { id: 'oldbookmarkk', type: 'bookmark' })
    sandbox.load(user, 'bookmarks', [{ ...old, sortindex: null, expiry: null, modified: 1_000_000_000_000 }])
    sandbox.write(user, 'bookmarks', [await encrypted(sandbox, user, 'bookmarks', { id: 'newbookmarkk' })])

    const { code } = await run(user, ['backup', folder])

    expect(code).toBe(0)
    expect(backupsIn(folder)[1]).toEqual(stored(user))
  })

  it('keeps records whose payload contains line separators other than line feeds', async () => {
    const { user, folder } = someone('separated')
    sandbox.write(user, 'forms', [{ id: 'separated', payload: 'a\u2028b\u2029c\u0085d\re' }])

    const outcomes = [await run(user, ['backup', folder]), await run(user, ['backup', folder])]
    const [, second] = backupsIn(folder)
    const before = stored(user)
    sandbox.remove(user, 'forms')
    const restored = await run(user, ['restore', folder, 'forms', '--write'])

    expect([...outcomes, restored].map(codeOf)).toEqual([0, 0, 0])
    expect(second).toEqual(before)
    expect(stored(user)).toEqual(before)
  })

  it('reads a collection again whose file in the last backup is damaged', async () => {
    const { user, folder } = someone('decayed')
    await run(user, ['backup', folder])
    const file = join(folder, readdirSync(folder)[0]!, 'bookmarks.jsonl')
    const text = readFileSync(file, 'utf8')
    const at = text.indexOf('ciphertext') + 40
    writeFileSync(file, text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1))

    const { said, code } = await run(user, ['backup', folder])

    expect(code).toBe(0)
    expect(said.match(/unchanged/g)).toHaveLength(8)
    expect(backupsIn(folder)[1]).toEqual(stored(user))
  })

  it.each(['', '{"bookmarks":null}'])(
    'reports which backup cannot be read, and uses the previous one once it is removed: %p',
    async (text) => {
      const { user, folder } = someone(`damaged ${text}`)
      for (const _ of [1, 2]) await run(user, ['backup', folder])
      const last = join(folder, readdirSync(folder).toSorted()[1]!)
      writeFileSync(join(last, 'state.json'), text)

      const outcomes = [await run(user, ['backup', folder]), await run(user, ['restore', folder])]
      rmSync(last, { recursive: true })
      const removed = await run(user, ['backup', folder])

      for (const { said, code } of outcomes) {
        expect(said).toContain(`sync-bridge: Cannot read ${last}: `)
        expect(said).toEndWith('. Remove it to use the previous backup\n')
        expect(code).toBe(1)
      }
      expect(removed.code).toBe(0)
      expect(removed.said.match(/unchanged/g)).toHaveLength(9)
    },
  )

  it('supports collections named like a property of every object', async () => {
    const { user, folder } = someone('named')
    const names = ['__proto__', 'constructor']
    for (const name of names) {
      sandbox.write(user, name, [await encrypted(sandbox, user, name, { id: 'a' })])
    }

    const first = await run(user, ['backup', folder])
    const second = await run(user, ['backup', folder])
    const restored = await run(user, ['restore', folder, ...names])

    expect([first, second, restored].map(codeOf)).toEqual([0, 0, 0])
    expect(first.said).toContain('constructor: 1 record\n')
    expect(second.said.match(/unchanged/g)).toHaveLength(11)
    expect(restored.said).toContain('__proto__: 0 to write, 0 different')
  })

  it('stays the last by name if the clock was reset', async () => {
    const { user, folder } = someone('timeless')
    const command = ['backup', folder, '--keep', '2']
    await run(user, command)
    const future = '2099-12-31T23-59-59.999Z'
    renameSync(join(folder, readdirSync(folder)[0]!), join(folder, future))
    sandbox.write(user, 'forms', [await encrypted(sandbox, user, 'forms', { id: 'later' })])

    const codes = [await run(user, command), await run(user, command)].map(codeOf)
    const { said } = await run(user, ['restore', folder])

    const kept = ['2100-01-01T00-00-00.000Z', '2100-01-01T00-00-00.001Z']
    expect(codes).toEqual([0, 0])
    expect(readdirSync(folder).toSorted()).toEqual(kept)
    expect(said).toStartWith(`From ${join(folder, kept[1]!)}\n`)
  })
})

describe('restore', () => {
  it('restores missing records, after a dry run, and overwrites only with --overwrite', async () => {
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
    const all = await run(user, ['restore', folder, 'passwords', '--overwrite'])
    const overwritten = payloadOf(changed!.id)
    const again = await run(user, ['restore', folder, '--write'])
    const refused = await run(user, ['restore', folder, 'crypto', '--write'])

    expect(dry.said.split('\n')).toEqual([
      `From ${join(folder, readdirSync(folder)[0]!)}`,
      'passwords: 1 to write, 1 different in the storage',
      'Nothing was written. Add --write to write this.',
      '',
    ])
    expect(dry.output).toBe('passwords  missing    https://library.example.org sämple@example.org\n')
    expect(missing.output).toBe('')
    expect(untouched).toBeUndefined()
    expect(missing.said).toContain('  1 written, 0 skipped')
    expect([restored, left]).toEqual([gone!.payload, foreign])
    expect(all.said).toContain('  1 written, 0 skipped')
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

  it('restores records deleted since, which only decryption shows', async () => {
    const { user, folder } = someone('deleter')
    await run(user, ['backup', folder])
    const [gone, changed] = sandbox.records(user, 'passwords')
    const tombstone = await encrypted(sandbox, user, 'passwords', { id: gone!.id, deleted: true })
    sandbox.write(user, 'passwords', [tombstone, { id: changed!.id, payload: foreign }])
    const command = ['restore', folder, 'passwords']

    const dry = await run(user, command)
    const { said } = await run(user, [...command, '--write'])

    const now = new Map(sandbox.records(user, 'passwords').map(({ id, payload }) => [id, payload]))
    expect(dry.said).toContain('passwords: 1 to write, 1 different in the storage\n  1 of them were deleted')
    expect(said).toContain('  1 written, 0 skipped')
    expect([now.get(gone!.id), now.get(changed!.id)]).toEqual([gone!.payload, foreign])
  })

  it('does not overwrite a readable record with one that cannot be decrypted', async () => {
    const { user, folder } = someone('repaired')
    sandbox.write(user, 'forms', [{ id: 'broken', payload: foreign }])
    await run(user, ['backup', folder])
    const repaired = await encrypted(sandbox, user, 'forms', { id: 'broken', value: 'repaired' })
    sandbox.write(user, 'forms', [repaired])

    const { said, code } = await run(user, ['restore', folder, 'forms', '--overwrite'])

    expect([said, code]).toEqual([expect.stringContaining('cannot be decrypted: broken\n'), 3])
    expect(sandbox.records(user, 'forms').find(({ id }) => id === 'broken')).toMatchObject(repaired)
  })

  it('deletes nothing, even if the backup has a deletion of what is there again', async () => {
    const { user, folder } = someone('revived')
    const [entry] = sandbox.records(user, 'forms')
    sandbox.write(user, 'forms', [await encrypted(sandbox, user, 'forms', { id: entry!.id, deleted: true })])
    await run(user, ['backup', folder])
    const revived = { id: entry!.id, payload: entry!.payload }
    sandbox.write(user, 'forms', [revived])

    const { said, code } = await run(user, ['restore', folder, 'forms', '--overwrite'])

    expect([said, code]).toEqual([expect.stringContaining('forms: 0 to write\n'), 0])
    expect(sandbox.records(user, 'forms').find(({ id }) => id === entry!.id)).toMatchObject(revived)
  })

  it('restores an older backup by its name, in as many batches as needed', async () => {
    const { user, folder } = someone('older')
    const made = Array.from({ length: 60 }, (_, index) => ({ id: `made/${index}+`, payload: foreign }))
    sandbox.write(user, 'forms', made)
    await run(user, ['backup', folder])
    sandbox.write(
      user,
      'forms',
      made.map(({ id }) => ({ id, payload: 'later' })),
    )
    await run(user, ['backup', folder])
    const [older] = readdirSync(folder).toSorted()

    const last = await run(user, ['restore', folder, 'forms'])
    const { said } = await run(user, ['restore', join(folder, older!), 'forms', '--overwrite'])

    const restored = sandbox.records(user, 'forms').filter(({ payload }) => payload === foreign)
    expect(last.said).toContain('forms: 0 to write, 0 different')
    expect(said).toContain('  60 written, 0 skipped')
    expect(restored).toHaveLength(60)
  })

  it('continues if writes are not enabled, and reports that', async () => {
    const { user, folder } = someone('refused')
    await run(user, ['backup', folder])
    sandbox.remove(user, 'prefs')
    sandbox.remove(user, 'forms')

    const { said, code } = await run(user, ['restore', folder, 'forms', 'prefs', '--write'])

    expect(said).toContain('forms: 8 to write, 0 different in the storage\n  8 written, 0 skipped')
    expect(said).toEndWith('  1 rejected: this bridge has not enabled writes to this collection\n')
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
      'passwords: cannot be read: this bridge does not expose this collection\nprefs: 1 to write',
    )
    expect(listed.errors).toContain('Path not found: the bridge does not expose this collection, or')
    expect(watched.errors).toBe(listed.errors)
    expect([restored.code, listed.code, watched.code]).toEqual([3, 1, 1])
  })

  it('reports what was written when it fails midway', async () => {
    const { user, folder } = someone('stopped')
    const made = Array.from({ length: 60 }, (_, index) => ({ id: `made${index}`, payload: foreign }))
    sandbox.write(user, 'forms', made)
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 3 ? { kind: 'reset-after' } : null))

    const command = ['restore', folder, 'forms', '--write']
    const stopped = await run(user, command, { BRIDGE_URL: proxy.url })
    const again = await run(user, command)

    const unknown = 'No response: the write may have been applied. Check before you repeat it.\n'
    expect(stopped.said).toEndWith(`  50 written, 0 skipped: changed meanwhile\nsync-bridge: ${unknown}`)
    expect(stopped.code).toBe(1)
    expect(again.said).toContain('forms: 0 to write, 0 different')
  })

  it('writes folders first, for a Firefox that syncs after it has failed midway', async () => {
    const { user, folder } = someone('folders')
    const ids = ['a-folder', 'z-folder', ...Array.from({ length: 60 }, (_, index) => `made${index}`)]
    const seal = (clear: ClearRecord) => encrypted(sandbox, user, 'bookmarks', clear)
    const made = ids.map((id) =>
      seal({ id, type: id.endsWith('folder') ? 'folder' : 'bookmark', children: [] }),
    )
    sandbox.write(user, 'bookmarks', await Promise.all(made))
    await run(user, ['backup', folder])
    sandbox.remove(user, 'bookmarks', ids)
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 2 ? { kind: 'reset-before' } : null))

    await run(user, ['restore', folder, 'bookmarks', '--write'], { BRIDGE_URL: proxy.url })

    const written = sandbox.records(user, 'bookmarks').map(({ id }) => id)
    expect(written.filter((id) => ids.includes(id))).toHaveLength(25)
    expect(written).toEqual(expect.arrayContaining(['a-folder', 'z-folder']))
  })

  it('encrypts again for new keys, skips unreadable records, and recognizes them later', async () => {
    const { user: before, folder } = someone('before')
    sandbox.write(before, 'passwords', [{ id: '{foreign}', payload: foreign }])
    await run(before, ['backup', folder])
    const after = sandbox.addUser('after')
    fillSampleData(sandbox, after, { isEmpty: true })
    const command = ['restore', folder, 'passwords']
    const BACKUP_SYNC_KEY = before.syncKey.toString('hex')

    const keyless = await run(after, command, { SYNC_KEY: '' })
    const translated = await run(after, [...command, '--write'], { BACKUP_SYNC_KEY })
    const again = await run(after, command, { BACKUP_SYNC_KEY })
    const keyPair = await keyPairOf(sandbox, after, 'passwords')
    const { readable } = await decryptRecords(keyPair, sandbox.records(after, 'passwords'))

    const wanted = sandbox.records(before, 'passwords').filter(({ id }) => id !== '{foreign}')
    expect([keyless.code, keyless.said]).toEqual([1, expect.stringContaining('SYNC_KEY is missing')])
    expect(translated.said).toContain('passwords: 4 to write, 0 different in the storage\n')
    expect(translated.said).toContain('cannot be decrypted: {foreign}')
    expect(again.said).toContain('passwords: 0 to write, 0 different in the storage\n')
    expect(readable.map(({ id }) => id)).toEqual(wanted.map(({ id }) => id))
  })

  it('restores what is left of a damaged backup, and reports how much is missing', async () => {
    const { user, folder } = someone('torn')
    await run(user, ['backup', folder])
    const [name] = readdirSync(folder)
    const file = join(folder, name!, 'forms.jsonl')
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
    writeFileSync(file, ['null', lines[0], lines[1], lines[2]!.slice(0, 40)].join('\n'))
    rmSync(join(folder, name!, 'passwords.jsonl'))
    sandbox.remove(user, 'forms')

    const { said, code } = await run(user, ['restore', folder, 'forms', 'passwords', '--write'])

    expect(said).toContain('forms: 2 to write')
    expect(said).toContain('  the backup is damaged: it has only 2 of 8 records\n')
    expect(said).toContain('  the backup is damaged: it has only 0 of 4 records\n')
    expect([code, sandbox.records(user, 'forms').length]).toEqual([3, 2])
  })

  it('lists ids that the backup does not have', async () => {
    const { user, folder } = someone('searcher')
    await run(user, ['backup', folder])
    const [known] = sandbox.records(user, 'forms')

    const { said, code } = await run(user, ['restore', folder, '--id', 'absent', '--id', known!.id])

    expect(said).toContain('Not found in the backup: absent\n')
    expect(code).toBe(3)
  })

  it('accepts the other key in each form, and rejects anything else', async () => {
    const { user, folder } = someone('key forms')
    await run(user, ['backup', folder])
    const restored = (BACKUP_SYNC_KEY: string) => run(user, ['restore', folder, 'forms'], { BACKUP_SYNC_KEY })

    const good = [
      await restored(`"${user.syncKey.toString('hex')}"`),
      await restored(user.syncKey.toString('base64url')),
    ]
    const bad = await restored('key')
    const other = await restored('ab'.repeat(64))

    expect(good.map(codeOf)).toEqual([0, 0])
    expect(other.said).toContain('sync-bridge: BACKUP_SYNC_KEY does not decrypt ')
    expect(bad.said).toStartWith('sync-bridge: BACKUP_SYNC_KEY: The sync key must be 128 hexadecimal digits')
    expect(bad.code).toBe(2)
  })

  it('reports what it has written when it is interrupted', async () => {
    const { user, folder } = someone('interrupted')
    const made = Array.from({ length: 60 }, (_, index) => ({ id: `made${index}`, payload: foreign }))
    sandbox.write(user, 'forms', made)
    await run(user, ['backup', folder])
    sandbox.remove(user, 'forms')
    await using proxy = await startFaultProxy({ target: bridge.url })
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' && ++batches === 2 ? { kind: 'hang' } : null))
    const environment = { SYNC_BRIDGE_ACCOUNT: fileOf(user, { BRIDGE_URL: proxy.url }) }
    await using restoring = start(['restore', folder, 'forms', '--write'], { environment })
    await proxy.waitFor(() => batches === 2)

    restoring.signal('SIGINT')
    await eventually('it says so', () => restoring.errors().includes('Stopping after this batch'))
    proxy.release()
    const code = await restoring.exited

    expect(restoring.errors()).toEndWith(
      '  50 written, 0 skipped: changed meanwhile\nsync-bridge: Interrupted: run it again to write the rest\n',
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

  it('asks the user to sync a Firefox first if the account has no keys', async () => {
    const { user, folder } = someone('keyed')
    await run(user, ['backup', folder])
    const empty = sandbox.addUser('empty')

    const refused = await run(empty, ['restore', folder, '--write'])

    const advice = 'The storage has no keys for this account: sync a Firefox first\n'
    expect(refused.said).toEndWith(advice)
    expect(refused.code).toBe(1)
  })
})
