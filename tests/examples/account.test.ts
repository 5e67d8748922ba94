import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startAccounts, type Accounts } from '../firefox/accounts.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { runToEnd } from '../support/processes.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy.ts'
import { accountOf, linesOf } from './records.ts'

const examples = join(import.meta.dir, '../../docs/examples')

let bridge: TestBridge
let proxy: FaultProxy
let accounts: Accounts
beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['bookmarks'] })
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 20, history: 1 })
  proxy = await startFaultProxy({ target: bridge.url })
  accounts = startAccounts({
    email: bridge.user.email,
    devices: [],
    mintAccessToken: (expiresInSeconds) => bridge.user.bearerToken({ expiresInSeconds }),
  })
})
afterAll(async () => {
  await Promise.all([proxy.stop(), bridge.stop(), accounts.stop()])
  endAll()
})

/** Values of the account, with a token that has ended and one that renews it. */
function expired(more: Record<string, string> = {}): Record<string, string> {
  return {
    BRIDGE_URL: bridge.url,
    ...accountOf(bridge.user),
    BEARER_TOKEN: bridge.user.bearerToken({ expiresInSeconds: -3600 }),
    REFRESH_TOKEN: accounts.grantRefreshToken(),
    TOKEN_ENDPOINT: `${accounts.url}/v1/oauth/token`,
    CLIENT_ID: '5882386c6d801776',
    ...more,
  }
}

/** A folder with `account.env`, which anybody may read and which has a line of its owner's. */
function folderWith(values: Record<string, string>): { folder: string; file: string } {
  const folder = makeFolder()
  const file = join(folder, 'account.env')
  writeFileSync(file, `# mine\n${linesOf(values)}OTHER="as it is"\n`)
  chmodSync(file, 0o644)
  return { folder, file }
}

const command = [process.execPath, join(examples, 'add-bookmark.ts')]

describe('add-bookmark.ts, with account.ts', () => {
  const added = [...command, 'menu', 'Added', 'https://added.example/']
  const run = (cwd: string, environment: Record<string, string> = {}) => runToEnd(added, { cwd, environment })

  /** What it says when this happens to its first request to a path, and how many requests to that path there were. */
  async function runWith(path: string, fault: Fault) {
    const before = proxy.requests.length
    const asked = () => proxy.requests.slice(before).filter((request) => request.path.endsWith(path))
    proxy.plan((request) => (request.path.endsWith(path) && asked().length === 1 ? fault : null))
    const outcome = await run(makeFolder(), { BRIDGE_URL: proxy.url, ...accountOf(bridge.user) })
    return { ...outcome, requests: asked().length }
  }

  const renewals = () => accounts.requests.filter((asked) => asked === 'POST /v1/oauth/token').length

  it('renews a token that has ended, and puts the new one into account.env for the next run', async () => {
    const values = expired()
    const { folder, file } = folderWith(values)
    const before = renewals()

    const first = await run(folder)
    const text = readFileSync(file, 'utf8')
    const second = await run(folder)

    const [, token] = /^BEARER_TOKEN=(.*)$/m.exec(text)!
    const old = values.BEARER_TOKEN!
    expect([first.errors, first.code, second.errors, second.code]).toEqual(['', 0, '', 0])
    expect(first.output).toMatch(/^Added [\w-]{12} to menu\n$/)
    expect(renewals() - before).toBe(1)
    expect(token).not.toBe(old)
    expect(text.replace(token!, old)).toBe(`# mine\n${linesOf(values)}OTHER="as it is"\n`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['account.env'])
  })

  it('is not disturbed by another that renews at the same time', async () => {
    const { folder, file } = folderWith(expired())

    const outcomes = await Promise.all([run(folder), run(folder), run(folder)])
    const after = await run(folder)

    expect(outcomes.map(({ errors }) => errors.replace(/^Somebody.*\n/, ''))).toEqual(['', '', ''])
    expect([...outcomes, after].map(({ code }) => code)).toEqual([0, 0, 0, 0])
    expect(readFileSync(file, 'utf8')).toMatch(/^# mine\n[^]*\nOTHER="as it is"\n$/)
    expect(readdirSync(folder)).toEqual(['account.env'])
  })

  it('tells plainly when the refresh token was revoked, by whichever endpoint', async () => {
    const signedOut = folderWith(expired())
    accounts.signOutDevice()
    const asked = folderWith(expired({ TOKEN_ENDPOINT: `${accounts.url}/v1/token` }))
    accounts.signOutDevice()

    const outcomes = [await run(signedOut.folder), await run(asked.folder)]

    const sentence =
      'The refresh token was revoked, or the password was changed: get new values with the recipe of docs/connect.md\n'
    for (const { errors, code } of outcomes) expect([errors, code]).toEqual([sentence, 1])
  })

  it('takes the account of the environment, and leaves that of a file alone', async () => {
    const other = folderWith(expired({ BUCKET: '00'.repeat(16) }))
    const before = readFileSync(other.file, 'utf8')

    const { errors, code } = await run(other.folder, expired())

    expect([errors, code]).toEqual(['', 0])
    expect(readFileSync(other.file, 'utf8')).toBe(before)
  })

  it('names what is missing, and what does not answer', async () => {
    const empty = await run(makeFolder())
    const nowhere = folderWith(expired({ TOKEN_ENDPOINT: 'http://127.0.0.1:1/v1/oauth/token' }))
    const silent = await run(nowhere.folder)

    expect(empty.errors).toBe(
      'Set BRIDGE_URL, BUCKET, BEARER_TOKEN, KEY_ID, SYNC_KEY: docs/connect.md tells where to get them\n',
    )
    expect([empty.code, silent.code]).toEqual([1, 1])
    expect(silent.errors.toLowerCase()).toContain('nobody answers at ')
  })

  it('tells when the key is another one, or none', async () => {
    const account = { BRIDGE_URL: bridge.url, ...accountOf(bridge.user) }

    const other = await run(makeFolder(), { ...account, SYNC_KEY: '00'.repeat(64) })
    const none = await run(makeFolder(), { ...account, SYNC_KEY: 'key' })

    expect([other.errors, other.code]).toEqual([
      'Cannot decrypt "keys": it was encrypted with another key\n',
      1,
    ])
    expect([none.errors, none.code]).toEqual(['The sync key has to be 128 hexadecimal digits\n', 1])
  })

  it('tells an answer that broke off from a wrong address', async () => {
    const cut = await runWith('/bookmarks/records', { kind: 'reset-mid-body', afterBytes: 500 })
    const wrong = await runWith('/bookmarks/records', { kind: 'status', status: 200, body: '<html>' })

    const brokeOff = 'The answer broke off: the storage failed, or the connection. Ask again\n'
    expect([cut.errors, cut.code]).toEqual([brokeOff, 1])
    expect([wrong.errors.replace(':', ''), wrong.code]).toEqual([
      'The bridge answers 200 and no JSON, is this its address?\n',
      1,
    ])
  })

  it('says that nobody knows whether a write was carried out whose answer was lost', async () => {
    const outcomes = [
      await runWith('/batch', { kind: 'reset-before' }),
      await runWith('/batch', { kind: 'reset-after' }),
      await runWith('/batch', { kind: 'reset-mid-body', afterBytes: 10 }),
    ]

    const unknown = 'No answer came: nobody knows whether this was written. Look before you repeat it\n'
    for (const { errors, code, requests } of outcomes) {
      expect([errors, code, requests]).toEqual([unknown, 1, 1])
    }
  })

  it('leaves nothing behind where a new token cannot be kept', async () => {
    const { folder, file } = folderWith(expired())
    const before = readFileSync(file, 'utf8')

    // As on a full disk: a file may have no byte.
    const script = `trap '' XFSZ; ulimit -f 0; exec "$@"`
    const { output, errors, code } = await runToEnd(['sh', '-c', script, 'sh', ...added], { cwd: folder })

    expect(output).toMatch(/^Added /)
    expect(errors).toStartWith('The new access token is not in account.env, the next run will need another: ')
    expect([code, readdirSync(folder), readFileSync(file, 'utf8')]).toEqual([0, ['account.env'], before])
  })

  it('says what to do where the account server wants a browser', async () => {
    await using guarded = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => new Response(null, { status: 406 }),
    })
    const { folder } = folderWith(expired({ TOKEN_ENDPOINT: `${guarded.url}v1/oauth/token` }))

    const { errors, code } = await run(folder)

    expect(errors).toContain('lets only browsers in from here (406). Try again later')
    expect(code).toBe(1)
  })

  it('adds no address that Firefox would remove at its next sync', async () => {
    const { folder } = folderWith(accountOf(bridge.user))
    const addresses = ['example.org', 'http://a b/', 'https://', `https://a.example/${'x'.repeat(65_536)}`]

    for (const address of addresses) {
      const { errors, code } = await runToEnd([...command, 'menu', 'Odd', address], { cwd: folder })

      expect(errors).toStartWith('Cannot add ')
      expect(code).toBe(1)
    }
  })

  it('takes nothing for a token that would be more than one in a shell', async () => {
    await using strange = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => Response.json({ access_token: 'a b; echo' }),
    })
    const { folder, file } = folderWith(expired({ TOKEN_ENDPOINT: `${strange.url}v1/oauth/token` }))
    const before = readFileSync(file, 'utf8')

    const { errors, code } = await run(folder)

    expect(errors).toStartWith('Cannot renew the access token: the account server answers ')
    expect([code, readFileSync(file, 'utf8')]).toEqual([1, before])
  })
})

describe('add-bookmark.ts', () => {
  it('asks again when the bridge is too busy, and knows when it was carried out the first time', async () => {
    const pause = { status: 503, headers: { 'Retry-After': '0' } }
    const faults: Record<number, Fault> = {
      0: { kind: 'status', ...pause },
      1: { kind: 'status-after', ...pause },
    }
    let batches = 0
    proxy.plan(({ path }) => (path === '/v1/batch' ? (faults[batches++] ?? null) : null))

    const again = [...command, 'toolbar', 'Again', 'https://again.example/']
    const environment = { BRIDGE_URL: proxy.url, ...accountOf(bridge.user) }
    const { output, errors, code } = await runToEnd(again, { environment })

    expect([errors, code]).toEqual(['The bridge answers 503: asking again in 0 s\n'.repeat(2), 0])
    expect(output).toMatch(/^Added [\w-]{12} to toolbar\n$/)
    expect(batches).toBe(3)
  })
})
