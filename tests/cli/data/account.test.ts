import { afterAll, describe, expect, it } from 'bun:test'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAnswering } from '../../support/answering-server.ts'
import { linesOf } from '../../support/records.ts'
import { executablePath, makeFolder } from '../../support/executable.ts'
import { runToEnd } from '../../support/processes.ts'
import { startRenewable } from './people.ts'
import { accountFile, runWith, valuesOf } from './world.ts'

const { sandbox, someone, accounts, renewing, renewable, stop } = await startRenewable()
afterAll(stop)

describe('an account', () => {
  it('renews an expired token, and saves the new one in its file', async () => {
    const values = renewable()
    const file = accountFile(values)
    writeFileSync(file, `# mine\n${linesOf(values)}OTHER="as it is"\n`)
    const renewals = () => accounts.requests.filter((asked) => asked === 'POST /v1/oauth/token').length
    const before = renewals()

    const state = { XDG_STATE_HOME: makeFolder() }
    const list = () => runWith(file, ['ls'], undefined, state)
    const outcomes = [await list(), await list()]

    const text = readFileSync(file, 'utf8')
    const [, token] = /^BEARER_TOKEN=(.*)$/m.exec(text)!
    expect(outcomes.map(({ errors, code }) => [errors, code])).toEqual([
      ['', 0],
      ['', 0],
    ])
    expect(renewals() - before).toBe(1)
    expect(token).toMatch(/^'[\w.-]+'$/)
    expect(text.replace(token!, values.BEARER_TOKEN!)).toBe(`# mine\n${linesOf(values)}OTHER="as it is"\n`)
    // No draft of it is left behind.
    expect(readdirSync(join(file, '..'))).toEqual(['account.env'])
  })

  it.each([
    ['a byte order mark', (lines: string) => `\uFEFF${lines}`],
    ['blanks and export', (lines: string) => lines.replaceAll(/^/gm, '  export  ')],
    ['an older token above', (lines: string) => `BEARER_TOKEN=old\n${lines}`],
  ])('keeps a new token in a file with %s', async (_, edited) => {
    const values = renewable()
    const { BEARER_TOKEN, ...others } = values
    const file = accountFile(values)
    writeFileSync(file, edited(linesOf({ BEARER_TOKEN: BEARER_TOKEN!, ...others })))

    const { errors, code } = await runWith(file, ['ls'])

    expect([errors, code]).toEqual(['', 0])
    expect(readFileSync(file, 'utf8')).not.toContain(BEARER_TOKEN!)
  })

  it.each(['KEY_ID', 'SYNC_KEY'])('says where to get a new %s', async (name) => {
    const { user } = someone(`old-${name}`)
    const file = accountFile({
      ...valuesOf(sandbox, user),
      [name]: name === 'KEY_ID' ? 'x' : 'b'.repeat(128),
    })

    const { errors, code } = await runWith(file, ['export', 'bookmarks'])

    expect(errors).toEndWith('\nGet new values with "sync-bridge connect".\n')
    expect(code).toBe(1)
  })

  it('reports that its refresh token was revoked', async () => {
    const file = accountFile(renewable())
    accounts.signOutDevice()

    const { errors, code } = await runWith(file, ['ls'])

    expect(errors).toBe(
      'sync-bridge: The refresh token was revoked, or the password was changed: get new values from Firefox with the recipe\n' +
        'Get new values with "sync-bridge connect".\n',
    )
    expect(code).toBe(1)
  })

  it('comes from the option, or else the environment, or else the configuration folder', async () => {
    const { user, account } = someone('located')
    const configuration = makeFolder()
    const usual = join(configuration, 'sync-bridge', 'account.env')
    const home = makeFolder()
    await runWith(usual, ['connect'], linesOf(valuesOf(sandbox, user)))
    const run = (args: string[], environment: Record<string, string>) =>
      runToEnd([executablePath, 'ls', ...args], { environment })

    const outcomes = [
      await run(['--account', account], { SYNC_BRIDGE_ACCOUNT: '/nowhere' }),
      await run([], { SYNC_BRIDGE_ACCOUNT: account, XDG_CONFIG_HOME: home }),
      await run([], { XDG_CONFIG_HOME: configuration, HOME: home }),
      await run([], { HOME: home }),
    ]

    expect(outcomes.map(({ code }) => code)).toEqual([0, 0, 0, 1])
    expect(outcomes[3]!.errors).toContain(`${home}/.config/sync-bridge/account.env (no such file)`)
    expect(outcomes[3]!.errors).toContain('run "sync-bridge connect" first')
  })

  it.each([
    [0o644, 'every user'],
    [0o640, 'its group'],
  ])('warns if others can read its file: mode %o', async (mode, readers) => {
    const { account } = someone(`open-file-${readers}`)
    chmodSync(account, mode)

    const { errors, code } = await runWith(account, ['ls'])

    expect(errors).toBe(
      `warning: ${account} contains the key to everything you sync, and ${readers} can read it: chmod 600 ${account}\n`,
    )
    expect(code).toBe(0)
  })
})

describe('the bridge of a command', () => {
  it('must not contain a password, which messages would repeat', async () => {
    const { account } = someone('open')

    const { errors, code } = await runWith(account, ['ls', '--bridge', 'http://me:word@127.0.0.1:1'])

    const form = 'https:// or http://, without a user, password or query.'
    expect(errors).toBe(`sync-bridge: The address of the bridge must begin with ${form}\n`)
    expect(code).toBe(1)
  })

  it('is never one that the environment has left over from another account', async () => {
    const { account } = someone('left over')
    const asked: (string | null)[] = []
    using other = startAnswering(({ headers }) => {
      asked.push(headers.get('Authorization'))
      return new Response()
    })
    const { origin } = other.url
    const named = accountFile({ ...valuesOf(sandbox, renewing), BRIDGE_URL: 'http://127.0.0.1:1' })

    const own = await runWith(account, ['ls'], '', { BRIDGE_URL: origin })
    const another = await runWith(named, ['open'], '', { BRIDGE_URL: `http://me:word@${other.url.host}` })
    const same = await runWith(named, ['ls'], '', { BRIDGE_URL: 'http://127.0.0.1:1/v1/' })
    const wanted = await runWith(account, ['ls', '--bridge', origin], '', {
      BRIDGE_URL: 'http://127.0.0.1:1',
    })

    const remedy = (url: string) => `. Unset BRIDGE_URL, or use --bridge ${url}\n`
    expect(own.errors).toBe(
      `sync-bridge: BRIDGE_URL in the environment is ${origin}, but the account ${account} starts a bridge of its own${remedy(origin)}`,
    )
    expect(another.errors).toContain(
      `but the account ${named} uses http://127.0.0.1:1${remedy(`********@${other.url.host}`)}`,
    )
    expect(same.errors).toContain('No response from the bridge at http://127.0.0.1:1')
    expect(wanted.errors).toStartWith(`Bridge: ${origin}\n`)
    expect([own.code, another.code, same.code, wanted.code]).toEqual([1, 1, 1, 1])
    // Only the bridge that was wanted.
    expect(asked).toEqual([expect.stringMatching(/^Bearer /)])
  })

  it('is not reached in plain text on another machine, nor are the servers that get tokens', async () => {
    const values = valuesOf(sandbox, renewing)
    const outcome = async (more: Record<string, string>, ...words: string[]) =>
      (await runWith(accountFile({ ...values, ...more }), ['ls', ...words])).errors

    expect(await outcome({ BRIDGE_URL: 'http://bridge.invalid:8000' })).toStartWith(
      'sync-bridge: Anyone between here and bridge.invalid:8000 could read your access token',
    )
    expect(await outcome({}, '--bridge', 'http://bridge.invalid', '--plain-http')).toStartWith(
      'Bridge: http://bridge.invalid\nsync-bridge: No response from the bridge at http://bridge.invalid.',
    )
    const safe = 'must begin with https://, unless the server is on this machine\n'
    expect(await outcome({ TOKEN_SERVER_URL: 'http://tokens.invalid' }, '--plain-http')).toBe(
      `sync-bridge: TOKEN_SERVER_URL ${safe}`,
    )
    expect(await outcome({ TOKEN_ENDPOINT: 'http://accounts.invalid/token' })).toBe(
      `sync-bridge: TOKEN_ENDPOINT ${safe}`,
    )
  })
})
