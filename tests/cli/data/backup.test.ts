import { afterAll, describe, expect, it } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { encrypted } from '../../support/records.ts'
import { backupsIn, codeOf, flipIn, startBackupWorld } from './backup-world.ts'

const { bridge, sandbox, someone, run, writeForms, stored, stop } = await startBackupWorld()
afterAll(stop)

describe('backup', () => {
  it('makes a complete backup each time, and requests only changes', async () => {
    const { user, folder } = someone('first')
    const before = stored(user)

    const first = await run(user, ['backup', folder])
    const second = await run(user, ['backup', folder])
    sandbox.write(user, 'forms', [
      await encrypted(sandbox, user, 'forms', { id: 'made+/', name: 'a', value: 'b' }),
    ])
    const { entries } = sandbox.requests.storage
    const known = entries.length
    const third = await run(user, ['backup', folder])
    const lists = entries.slice(known).filter(({ target }) => /storage\/\w+\?.*full=/.test(target))

    const [one, two, three] = backupsIn(folder)
    const [name] = readdirSync(folder)
    expect([first, second, third].map(codeOf)).toEqual([0, 0, 0])
    expect(first.said).toMatch(/^\[1\/\d\] crypto: 1 record: 1 added, 0 changed, 0 deleted\n/)
    expect(first.said).toContain('bookmarks: 20 records, of which the key opens 20: 20 added,')
    expect(second.said.match(/unchanged/g)).toHaveLength(9)
    expect(third.said.match(/unchanged/g)).toHaveLength(8)
    expect(third.said).toContain(
      'forms: 9 records, of which the key opens 9: 1 added, 0 changed, 0 deleted\n',
    )
    expect(lists.map(({ target }) => target)).toEqual([
      expect.stringMatching(/\/forms\?.*newer=/),
      // Firefox's list of its engines, which says what must be there.
      expect.stringContaining('/meta?'),
    ])
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

  it.each([
    [['backup'], 3, 9],
    // The keys, which can be read, end an outage.
    [['export', 'everything', '--output'], 6, 8],
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
      return JSON.stringify({ data: [...data, { id: '../../../evil', last_modified: 10 }] })
    }
    proxy.plan(({ path }) => (path.endsWith('/collections') ? { kind: 'rewrite', body: named } : null))

    const { said, code } = await run(user, ['backup', backups], { BRIDGE_URL: proxy.url })

    expect(said).toEndWith('"../../../evil": not a valid collection name\n')
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
    sandbox.write(user, 'notes', [{ id: 'separated', payload: 'a\u2028b\u2029c\u0085d\re' }])

    const outcomes = [await run(user, ['backup', folder]), await run(user, ['backup', folder])]
    const [, second] = backupsIn(folder)

    expect(outcomes.map(codeOf)).toEqual([0, 0])
    expect(second).toMatchObject({ 'notes/separated': 'a\u2028b\u2029c\u0085d\re' })
  })

  it('reads a collection again whose file in the last backup is damaged', async () => {
    const { user, folder } = someone('decayed')
    await run(user, ['backup', folder])
    flipIn(join(folder, readdirSync(folder)[0]!, 'bookmarks.jsonl'))

    const { said, code } = await run(user, ['backup', folder])

    expect(code).toBe(0)
    expect(said.match(/unchanged/g)).toHaveLength(8)
    expect(backupsIn(folder)[1]).toEqual(stored(user))
  })

  it.each(['', 'null', '{"bookmarks":null}', '{"collections":{"forms":null}}'])(
    'names a backup whose state cannot be read, and uses the one before: %p',
    async (text) => {
      const { user, folder } = someone(`damaged ${text}`)
      for (const _ of [1, 2]) await run(user, ['backup', folder])
      const [first, last] = readdirSync(folder)
        .toSorted()
        .map((name) => join(folder, name))
      writeFileSync(join(last!, 'state.json'), text)

      const restored = await run(user, ['restore', folder])
      const saved = await run(user, ['backup', folder])
      const refused = await run(user, ['restore', last!])

      const damage = `${last} is damaged, and not used: state.json is damaged\n`
      expect(restored.said).toStartWith(`${damage}From ${first}\n`)
      expect(saved.said).toStartWith(damage)
      expect(saved.said.match(/unchanged/g)).toHaveLength(9)
      expect(refused.said).toBe(`sync-bridge: ${last} is not a backup: state.json is damaged\n`)
      expect([restored, saved, refused].map(codeOf)).toEqual([0, 0, 1])
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
    expect(first.said).toContain('constructor: 1 record, of which the key opens 1: 1 added')
    expect(second.said.match(/unchanged/g)).toHaveLength(11)
    expect(restored.said).toContain('__proto__: 0 to write, 0 different')
  })

  it.each(['2099-12-31T23-59-59.999Z', '+010000-01-01T00-00-00.000Z'])(
    'continues a backup that a wrong clock has named %s',
    async (future) => {
      const { user, folder } = someone(`in ${future}`)
      const command = ['backup', folder, '--keep', '2']
      await run(user, command)
      renameSync(join(folder, readdirSync(folder)[0]!), join(folder, future))
      await writeForms(user, ['later'])

      const second = await run(user, command)
      const { said } = await run(user, ['restore', folder])
      const third = await run(user, command)

      const kept = readdirSync(folder).toSorted()
      expect([second, third].map(codeOf)).toEqual([0, 0])
      expect(second.said.match(/unchanged/g)).toHaveLength(8)
      expect(said).toStartWith(`From ${join(folder, kept[0]!)}\n`)
      expect(kept).toEqual(Array(2).fill(expect.stringMatching(/^20\d\d-/)))
      expect(kept).not.toContain(future)
    },
  )
})
