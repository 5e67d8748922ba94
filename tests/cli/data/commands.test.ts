import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { foreign, keyPairOf, linesOf } from '../../examples/records.ts'
import { parseAccount } from '../../../src/client/account.ts'
import { keyFor } from '../../../src/client/former-keys.ts'
import { decryptRecords, type ClearRecord } from '../../../src/client/crypto.ts'
import { accountsOf, upload } from '../../client/world.ts'
import type { Accounts } from '../../firefox/accounts.ts'
import { eventually } from '../../support/eventually.ts'
import { endAll, executablePath, makeFolder, start } from '../../support/executable.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { freePort } from '../../support/free-port.ts'
import { hasNoTerminals } from '../../support/machine.ts'
import { runToEnd } from '../../support/processes.ts'
import { startSandbox, type Sandbox } from '../../support/sandbox.ts'
import { startOnTerminal } from '../../support/terminal.ts'
import { accountFile, hasAnswered, runWith, valuesOf } from './world.ts'
import type { SandboxUser } from '../../../src/sandbox/sandbox-user.ts'

let sandbox: Sandbox
let accounts: Accounts
let renewing: SandboxUser
beforeAll(async () => {
  sandbox = await startSandbox()
  renewing = sandbox.addUser('renewing')
  fillSampleData(sandbox, renewing, { bookmarks: 20, history: 3 })
  accounts = accountsOf(renewing)
})
afterAll(async () => {
  await Promise.all([sandbox.stop(), accounts.stop()])
  endAll()
})

/** A user with a little data, and the account file. */
function someone(name: string) {
  const user = sandbox.addUser(name)
  fillSampleData(sandbox, user, { bookmarks: 20, history: 3 })
  return { user, account: accountFile(valuesOf(sandbox, user)) }
}

function commandLine(pid: string): string {
  return existsSync(`/proc/${pid}`) ? readFileSync(`/proc/${pid}/cmdline`, 'utf8') : ''
}

/** The account whose token is renewed by the account server. */
function renewable(more: Record<string, string> = {}): Record<string, string> {
  return {
    ...valuesOf(sandbox, renewing),
    BEARER_TOKEN: renewing.bearerToken({ expiresInSeconds: -3600 }),
    REFRESH_TOKEN: accounts.grantRefreshToken(),
    TOKEN_ENDPOINT: `${accounts.url}/v1/oauth/token`,
    CLIENT_ID: '5882386c6d801776',
    ...more,
  }
}

async function bookmarksOf(user: SandboxUser): Promise<Map<string, ClearRecord>> {
  const keyPair = await keyPairOf(sandbox, user, 'bookmarks')
  const { readable } = await decryptRecords(keyPair, sandbox.records(user, 'bookmarks'))
  return new Map(readable.map((each) => [each.id, each]))
}

const write = (user: SandboxUser, ...clear: ClearRecord[]) => upload({ sandbox, user }, 'bookmarks', ...clear)

describe('connect', () => {
  it('checks the pasted lines, reports what it found, and saves them for their owner alone', async () => {
    const { user } = someone('connected')
    const file = join(makeFolder(), 'new', 'account.env')
    const pasted = `\nBUCKET=x of another line\n${linesOf(valuesOf(sandbox, user))}`.replace(
      'BUCKET=x',
      'noise',
    )

    const { errors, output, code } = await runWith(file, ['connect'], pasted)
    const listed = await runWith(file, ['ls'])

    expect([output, code]).toEqual(['', 0])
    expect(errors).toContain('Found 4 bookmarks, 3 devices\n')
    expect(errors).toContain('There is no REFRESH_TOKEN, so the access expires within hours')
    expect(readFileSync(file, 'utf8')).toContain(`\nSYNC_KEY='${user.syncKey.toString('hex')}'\n`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(statSync(join(file, '..')).mode & 0o777).toBe(0o700)
    expect(listed.code).toBe(0)
  })

  /** Types into `connect` on a terminal, at first when it prompts, and what follows a text; returns all output and the exit code. */
  async function typed(file: string, ...keys: (string | [after: string, keys: string])[]) {
    const env = { PATH: '/usr/bin:/bin', SYNC_BRIDGE_ACCOUNT: file }
    const { child, type, shown, closed } = startOnTerminal([executablePath, 'connect'], { env })
    await eventually('it prompts for the lines', () => shown().includes('Paste the lines'))
    for (const each of keys) {
      const [after, text] = typeof each === 'string' ? ['', each] : each
      await eventually(`it shows ${after}`, () => shown().includes(after))
      type(text)
    }
    const code = await child.exited
    await closed
    return { shown: shown(), code }
  }

  it.skipIf(hasNoTerminals)(
    'shows the recipe and hides pasted text on a terminal, and recognizes the last line',
    async () => {
      const file = join(makeFolder(), 'account.env')
      const values = renewable({ BEARER_TOKEN: renewing.bearerToken() })
      const { TOKEN_SERVER_URL, ...first } = values

      const { shown, code } = await typed(file, linesOf(first), `TOKEN_SERVER_URL=${TOKEN_SERVER_URL}\r`)

      expect(shown).toContain('about:config')
      expect(shown).toContain('accessTokenWithSessionToken')
      expect(shown).toContain('Connected.')
      expect(shown).not.toContain(values.SYNC_KEY!)
      expect(shown).not.toContain('There is no REFRESH_TOKEN')
      expect([code, existsSync(file)]).toEqual([0, true])
    },
  )

  it.skipIf(hasNoTerminals)('saves nothing when it is interrupted', async () => {
    const file = join(makeFolder(), 'account.env')

    const { code } = await typed(file, '\u0003')

    expect([code, existsSync(file)]).toEqual([1, false])
  })

  it.skipIf(hasNoTerminals)('leaves a terminal that shows what is typed, also after a signal', async () => {
    const file = join(makeFolder(), 'account.env')
    const script = `(sh -c 'echo pid $PPID'; exec '${executablePath}' connect --account '${file}'); stty -a`
    const { shown, closed } = startOnTerminal(['/bin/sh', '-c', script], { env: { PATH: '/usr/bin:/bin' } })
    await eventually('it prompts for the lines', () => shown().includes('Paste the lines'))

    process.kill(Number(/pid (\d+)/.exec(shown())![1]), 'SIGHUP')
    await closed

    expect(shown()).toMatch(/ echo /)
    expect(existsSync(file)).toBe(false)
  })

  it.each([
    ['BEARER_TOKEN', 'BEARER_TOKEN: '],
    ['KEY_ID', 'KEY_ID: The key id must be a number'],
    ['BUCKET', 'BUCKET: This bucket belongs to another account'],
    ['SYNC_KEY', 'SYNC_KEY: This sync key does not decrypt the account'],
  ])('reports an invalid %s, and saves nothing', async (name, problem) => {
    const { user } = someone(`wrong-${name}`)
    const values = valuesOf(sandbox, user)
    const wrong = { ...values, [name]: values[name]!.replace(/^..../, name === 'KEY_ID' ? 'none' : '0123') }
    const file = join(makeFolder(), 'account.env')

    const { errors, code } = await runWith(file, ['connect'], linesOf(wrong))

    expect(errors).toContain(`sync-bridge: ${problem}`)
    expect(errors).toEndWith('Nothing was saved.\n')
    expect(code).toBe(1)
    expect(existsSync(file)).toBe(false)
  })

  it('names the token server or the bridge that fails, and reports that nothing was pasted', async () => {
    const { user } = someone('unreachable')
    const file = join(makeFolder(), 'account.env')
    const lines = linesOf(valuesOf(sandbox, user))

    // For so long that the command does not wait.
    const headers = { 'Retry-After': '600' }
    const fetch = () => new Response('', { status: 503, headers })
    using away = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch })

    const rejected = await runWith(file, ['connect', '--token-server', away.url.origin], lines)
    const empty = await runWith(file, ['connect'], 'hello\n')
    const elsewhere = await runWith(file, ['connect', '--bridge', 'http://127.0.0.1:1'], lines)

    expect(rejected.errors).toContain(`the token server "${away.url.host}" returned 503 (in 600 s)\n`)
    expect(empty.errors).toContain('No line has the form NAME=value')
    expect(elsewhere.errors).toContain('Bridge: http://127.0.0.1:1\n')
    expect(rejected.errors).not.toContain('Bridge:')
    expect([rejected.code, empty.code, existsSync(file)]).toEqual([1, 1, false])
  })

  it.each(['connect', 'disconnect', 'ls'])(
    'says what to do where no folder can hold the account: %s',
    async (name) => {
      const { errors, code } = await runToEnd([executablePath, name])

      expect(errors).toBe(
        'sync-bridge: Cannot find the account: neither HOME nor XDG_CONFIG_HOME is set. Specify it with --account FILE\n' +
          (name === 'connect' ? 'Nothing was saved.\n' : ''),
      )
      expect(code).toBe(1)
    },
  )

  it('reports that "disconnect" cannot remove the file', async () => {
    const { account } = someone('stuck')
    chmodSync(account, 0o644)
    chmodSync(join(account, '..'), 0o555)
    await using running = start(['disconnect', '--forget'], {
      environment: { SYNC_BRIDGE_ACCOUNT: account },
      asOrdinaryUser: true,
    })

    const code = await running.exited
    chmodSync(join(account, '..'), 0o755)

    expect(running.errors()).toContain(
      `sync-bridge: Cannot remove the account ${account} (permission denied): remove it yourself\n`,
    )
    expect(code).toBe(1)
  })

  it('removes a link with "disconnect --forget", and the file with the secrets that it names', async () => {
    const { account } = someone('linked')
    const link = join(makeFolder(), 'link.env')
    symlinkSync(account, link)

    const { code } = await runWith(link, ['disconnect', '--forget'])

    expect([code, existsSync(account), readdirSync(join(link, '..'))]).toEqual([0, false, []])
  })

  it('revokes the refresh token with "disconnect", and keeps the keys until they are to be forgotten', async () => {
    const values = renewable({ FORMER_KEYS: `${formerKeyId}:${'11'.repeat(64)}` })
    const file = accountFile(values)
    const before = accounts.requests.length

    const first = await runWith(file, ['disconnect'])
    const kept = readFileSync(file, 'utf8')
    const listed = await runWith(file, ['ls'])
    const second = await runWith(file, ['disconnect', '--forget'])

    const keys = ['KEY_ID', 'BUCKET', 'SYNC_KEY', 'FORMER_KEYS'].map((name) => [name, values[name]!])
    expect(first.errors).toBe(
      `Disconnected: revoked the refresh token and removed the tokens from ${file}. It keeps your keys, which backups need: "sync-bridge disconnect --forget" removes them.\n`,
    )
    expect(accounts.requests.slice(before)).toEqual(['POST /v1/oauth/destroy'])
    expect(parseAccount(kept)).toEqual(parseAccount(linesOf(Object.fromEntries(keys))))
    expect(listed.errors).toContain(
      'The access token is missing.\nGet new values with "sync-bridge connect".',
    )
    expect(second.errors).toBe(`Disconnected: removed ${file}.\n`)
    expect([first.code, listed.code, second.code, existsSync(file)]).toEqual([0, 1, 0, false])
  })

  /** An account file from before a password reset, with a refresh token, and the lines of the account now. */
  function reset() {
    const former = {
      ...renewable(),
      KEY_ID: formerKeyId,
      BUCKET: '0123456789abcdef0123456789abcdef',
      SYNC_KEY: '22'.repeat(64),
      FORMER_KEYS: `${formerKeyId.replace('15', '14')}:${'11'.repeat(64)}`,
    }
    return { file: accountFile(former), former, lines: linesOf(renewable()) }
  }

  it.skipIf(hasNoTerminals)(
    'keeps the key from before a password reset, and revokes the token that it replaces',
    async () => {
      const { file, former, lines } = reset()
      const before = accounts.requests.length

      const { shown, code } = await typed(file, lines, ['Is it the same account', 'y\r'])

      const saved = parseAccount(readFileSync(file, 'utf8'))
      expect(shown).toContain(`It also keeps the key of ${formerKeyId}, for older backups.`)
      expect(shown).toContain('Revoked the refresh token that was in this file before.')
      expect(shown).not.toContain('22222222')
      expect([former.KEY_ID, renewing.keyId].map((id) => keyFor(saved, id))).toEqual([
        former.SYNC_KEY,
        renewing.syncKey.toString('hex'),
      ])
      expect(saved.formerKeys).toContain(former.FORMER_KEYS)
      expect(accounts.requests.slice(before)).toContain('POST /v1/oauth/destroy')
      expect(code).toBe(0)
    },
  )

  it.skipIf(hasNoTerminals)('keeps no key of another account, and does not replace it', async () => {
    const { file, lines } = reset()
    const before = readFileSync(file, 'utf8')

    const { shown, code } = await typed(file, lines, ['Is it the same account', 'n\r'])

    expect(shown).toContain(`Not replacing the key in ${file}: use --account FILE for another account`)
    expect(shown.trimEnd()).toEndWith('Nothing was saved.')
    expect([code, readFileSync(file, 'utf8')]).toEqual([1, before])
  })

  it('does not replace another key without a terminal to ask on', async () => {
    const { file, lines } = reset()
    const before = readFileSync(file, 'utf8')

    const { errors, code } = await runToEnd(['setsid', '-w', executablePath, 'connect'], {
      environment: { SYNC_BRIDGE_ACCOUNT: file },
      input: lines,
    })

    expect(errors).toContain('[y/N] Run this in a terminal, which can ask\nNothing was saved.\n')
    expect([code, readFileSync(file, 'utf8')]).toEqual([1, before])
  })

  it('only warns if the replaced token cannot be revoked, and leaves one that is not replaced', async () => {
    const values = renewable()
    const { REFRESH_TOKEN } = values
    const away = accountFile({ ...values, TOKEN_ENDPOINT: 'http://127.0.0.1:1/v1/oauth/token' })
    const same = accountFile(values)
    const before = accounts.requests.length

    const replaced = await runWith(away, ['connect'], linesOf(renewable()))
    const kept = await runWith(same, ['connect'], linesOf(renewable({ REFRESH_TOKEN: REFRESH_TOKEN! })))

    expect(replaced.errors).toContain(
      'warning: Cannot revoke the refresh token: no response from http://127.0.0.1:1. The refresh token that was in this file before is still valid',
    )
    expect(parseAccount(readFileSync(away, 'utf8')).refreshToken).not.toBe(REFRESH_TOKEN!)
    expect([replaced.code, kept.code]).toEqual([0, 0])
    expect(accounts.requests.slice(before)).not.toContain('POST /v1/oauth/destroy')
  })

  it.each([
    ['REFRESH_TOKEN', '$(id)'],
    ['CLIENT_ID', '`id`'],
    ['TOKEN_ENDPOINT', "https://a.example/'$(id)'"],
    ['TOKEN_SERVER_URL', 'https://a.example/$(id)'],
    ['BEARER_TOKEN', 'a$(id)'],
  ])('refuses a %s that a shell would run', async (name, value) => {
    const file = join(makeFolder(), 'account.env')

    const { errors, code } = await runWith(file, ['connect'], linesOf(renewable({ [name]: value })))

    expect(errors).toStartWith(`sync-bridge: ${name} contains characters that no such value has`)
    expect([code, existsSync(file)]).toEqual([1, false])
  })
})

const formerKeyId = '1500000000000-ASNFZ4mrze8BI0VniavN7w'

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

describe('ls', () => {
  it('lists collections, and records without passwords or keys', async () => {
    const { user, account } = someone('lister')
    await write(user, { id: 'gonebookmark', deleted: true })
    const entry = { 'cc-name': 'Ada', 'cc-number': '4111111111111111' }
    await upload({ sandbox, user }, 'creditcards', { id: 'card', entry })

    const all = await runWith(account, ['ls'])
    const cards = await runWith(account, ['ls', 'creditcards'])
    const json = await runWith(account, ['ls', '--json'])
    const passwords = await runWith(account, ['ls', 'passwords'])
    const keys = await runWith(account, ['ls', 'crypto', '--json'])
    const deleted = await runWith(account, ['ls', 'bookmarks', '--deleted', '--json'])
    const rows = await runWith(account, ['ls', 'bookmarks', '--deleted'])

    expect(all.output).toMatch(
      /^COLLECTION +RECORDS +LAST CHANGE +WHAT\nbookmarks +21 +\d{4}-\d\d-\d\d \d\d:\d\d +\d+ bookmarks, .*1 deletion\n/,
    )
    const lines = json.output.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line))[0]).toEqual({
      name: 'bookmarks',
      records: 21,
      last_modified: expect.any(Number),
    })
    expect(passwords.output).toContain('https://library.example.org')
    expect(passwords.output).not.toContain('not-a-secret')
    expect(cards.output).toMatch(/^ID .*\ncard .* Ada\n$/)
    expect([keys.output, keys.code]).toEqual(['', 1])
    expect(JSON.parse(deleted.output)).toMatchObject({ id: 'gonebookmark', deleted: true })
    expect(rows.output).toMatch(/^gonebookmark +[\d:-]+ [\d:-]+  \(deleted\)$/m)
  })

  it('rejects --deleted without a collection', async () => {
    const { errors, code } = await runWith('/nowhere', ['ls', '--deleted'])

    expect(errors).toStartWith('sync-bridge: --deleted needs a COLLECTION')
    expect(code).toBe(2)
  })

  it('suggests a name if the collection does not exist', async () => {
    const { account } = someone('misspeller')

    const shouted = await runWith(account, ['ls', 'BOOKMARKS'])
    const listed = await runWith(account, ['ls', 'bookmark'])
    const empty = await runWith(account, ['ls', 'addons', '--json'])
    await using watching = start(['watch', 'histroy'], { environment: { SYNC_BRIDGE_ACCOUNT: account } })

    expect(shouted).toMatchObject({ code: 0, output: expect.stringContaining('Bookmarks Menu') })
    expect(listed).toMatchObject({ code: 1, output: '' })
    expect(listed.errors).toContain('has no collection "bookmark": did you mean bookmarks?')
    expect(empty).toMatchObject({ code: 0, output: '' })
    await eventually('the watch warns', () =>
      watching.errors().includes('warning: The account has no collection "histroy": did you mean history?'),
    )
  })

  it('removes control characters from titles on a terminal', async () => {
    const { user, account } = someone('controlled')
    const title = 'red \u001b[31m bell \u0007 \u009b2J \u202e end\nnext'
    await write(user, { id: 'controlchars', type: 'bookmark', title, bmkUri: 'https://c.example/' })

    const { output } = await runWith(account, ['ls', 'bookmarks'])

    expect(output).toContain('red  [31m bell    2J   end next <https://c.example/>')
  })

  it('names what cannot be decrypted, and exits 3', async () => {
    const { user, account } = someone('partly')
    sandbox.write(user, 'forms', [{ id: 'foreign', payload: foreign }])

    const { output, errors, code } = await runWith(account, ['ls', 'forms'])

    expect(output).toMatch(/^foreign .*\(It was encrypted with another key, or tampered with\)$/m)
    expect([errors, code]).toEqual(['1 of these cannot be decrypted\n', 3])
  })

  it('ends silently when its reader closes', async () => {
    const { account } = someone('leaver')
    const command = `"${executablePath}" ls history --json | head -n 1; echo "\${PIPESTATUS[0]}"`

    const { output, errors } = await runToEnd(['/bin/bash', '-c', command], {
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })

    expect([output.trimEnd().split('\n').at(-1), errors]).toEqual(['0', ''])
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
    using other = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: ({ headers }) => (asked.push(headers.get('Authorization')), new Response()),
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

describe('export', () => {
  it.each([
    [['bookmarks'], /^<!DOCTYPE NETSCAPE-Bookmark-file-1>\n/],
    [['bookmarks', '--format', 'json'], /^\[\n\{"id":"toolbar"/],
    [['bookmarks', '--format', 'csv'], /^"url","title","folder","tags","keyword","added"\r\n"https?:/],
    [['bookmarks', '--format', 'urls'], /^https?:\/\/\S+\n/],
    [['bookmarks', '--format', 'markdown'], /^# Bookmarks Toolbar\n/],
    [['history'], /^"visited","kind","url","title"\r\n"\d{4}-[^"]*","link"/],
    [['history', '--format', 'json'], /^\[\n\{"url":"https?:/],
    [['passwords'], /^"url","username","password",/],
    [['tabs'], /^\[\n\{"device":/],
    [['tabs', '--format', 'csv'], /^"device","title","url","used"\r\n/],
    [['tabs', '--format', 'urls'], /^https?:\/\//],
    [['tabs', '--format', 'markdown'], /^# \S.*\n\n- \[/],
    [['everything'], /^\{"exported":"\d{4}-/],
  ])('writes %j', async (words, beginning) => {
    const { account } = someone(`export-${words.join('-')}`)

    const { output, errors, code } = await runWith(account, ['export', ...words])

    expect([errors, code]).toEqual(['', 0])
    expect(output).toMatch(beginning)
  })

  it('replaces a file completely, for its owner alone, and says what it wrote', async () => {
    const { account } = someone('filer')
    const folder = makeFolder({ 'bookmarks.html': 'old' })
    const file = join(folder, 'bookmarks.html')

    const { output, errors, code } = await runWith(account, ['export', 'bookmarks', '--output', file])
    const refused = await runWith(account, ['export', 'bookmarks', '--output', join(folder, 'no', 'file')])

    expect([output, errors, code]).toEqual(['', `Wrote 4 bookmarks to ${file}\n`, 0])
    expect(readFileSync(file, 'utf8')).toStartWith('<!DOCTYPE')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const below = await runWith(account, ['export', 'bookmarks', '--output', join(file, 'below')])

    expect(refused.errors).toContain(`Cannot write ${join(folder, 'no', 'file')}`)
    expect([below.errors, below.code]).toEqual([
      `sync-bridge: Cannot write ${join(file, 'below')} (ENOTDIR)\n`,
      1,
    ])
    expect(refused.code).toBe(1)
    expect(readdirSync(folder)).toEqual(['bookmarks.html'])
  })

  it('writes the file that a link names, even before it exists', async () => {
    const { account } = someone('linker')
    const folder = makeFolder()
    symlinkSync('target.html', join(folder, 'link.html'))

    const outcomes = [
      await runWith(account, ['export', 'bookmarks', '--output', join(folder, 'link.html')]),
      await runWith(account, ['export', 'tabs', '--output', join(folder, 'link.html')]),
    ]

    expect(outcomes.map(({ code }) => code)).toEqual([0, 0])
    expect(readlinkSync(join(folder, 'link.html'))).toBe('target.html')
    expect(readFileSync(join(folder, 'target.html'), 'utf8')).toStartWith('[')
  })

  it.each(['/dev/stdout', '/dev/fd/3'])('continues an open file: %s', async (path) => {
    const { account } = someone(`open ${path}`)
    const file = join(makeFolder(), 'file')
    const script = '{ echo before; "$0" export tabs --format urls --output "$1"; echo after; } > "$2" 3>&1'

    const { code } = await runToEnd(['/bin/sh', '-c', script, executablePath, path, file], {
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })

    expect([code, readFileSync(file, 'utf8')]).toEqual([
      0,
      expect.stringMatching(/^before\n(?:https:.*\n){2,}after\n$/),
    ])
  })

  it('leaves no partial file behind when it is interrupted', async () => {
    const { user, account } = someone('hasty')
    const titles = Array.from({ length: 20 }, (_, index) => `${index}`.repeat(100_000))
    await write(
      user,
      ...titles.map((title, index) => ({
        id: `large${index}`,
        type: 'bookmark',
        title,
        bmkUri: 'https://l.example/',
      })),
    )
    const folder = makeFolder()
    const environment = { SYNC_BRIDGE_ACCOUNT: account }
    await using exporting = start(['export', 'bookmarks', '--output', join(folder, 'file')], { environment })

    await eventually('it writes', () => readdirSync(folder).length > 0)
    await exporting.stop()

    expect(readdirSync(folder)).toEqual(['file'])
  })

  it('writes into an existing pipe, like into a device', async () => {
    const { account } = someone('piped')
    const pipe = join(makeFolder(), 'pipe')
    Bun.spawnSync(['mkfifo', pipe])
    const reader = Bun.spawn(['cat', pipe], { stdout: 'pipe', stderr: 'ignore', timeout: 30_000 })

    const { errors, code } = await runWith(account, ['export', 'tabs', '--format', 'urls', '--output', pipe])
    const isPipe = statSync(pipe).isFIFO()
    if (!isPipe) reader.kill()
    const read = await new Response(reader.stdout).text()

    expect([errors, code, isPipe]).toEqual([`Wrote 23 tabs to ${pipe}\n`, 0, true])
    expect(read).toMatch(/^(?:https:.*\n){2,}$/)
  })

  it('reports a full disk', async () => {
    const { account } = someone('full disk')

    const { errors, code } = await runWith(account, ['export', 'tabs', '--output', '/dev/full'])

    expect([errors, code]).toEqual(['sync-bridge: Cannot write /dev/full (no space left)\n', 1])
  })

  it('writes to standard output for --output -, and to a file whose name has the maximum length', async () => {
    const { account } = someone('outputs')
    const folder = makeFolder()
    const long = join(folder, `${'x'.repeat(251)}.csv`)

    const shown = await runToEnd([executablePath, 'export', 'tabs', '-fcsv', '-o', '-'], {
      cwd: folder,
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })
    const { code } = await runWith(account, ['export', 'tabs', '-fcsv', '-o', long])

    expect([shown.code, code]).toEqual([0, 0])
    expect(readFileSync(long, 'utf8')).toBe(shown.output)
    expect(readdirSync(folder)).toHaveLength(1)
  })

  it('accepts the first day of 1970, which begins before 1970 east of Greenwich', async () => {
    const { account } = someone('eastern')
    const command = ['export', 'history', '--since', '1970-01-01', '--format', 'json']

    const { output, code } = await runWith(account, command, undefined, { TZ: 'Asia/Tokyo' })

    expect([JSON.parse(output).length, code]).toEqual([3, 0])
  })

  it('has one line for each URL', async () => {
    const { user, account } = someone('odd')
    const url = 'https://one.example/\nhttps://two.example/'
    const tabs = [[url], [''], []].map((urlHistory) => ({ title: 'T', urlHistory }))
    await upload({ sandbox, user }, 'tabs', { id: 'odd', tabs })

    const urls = await runWith(account, ['export', 'tabs', '--format', 'urls'])

    expect(urls.output).not.toMatch(/^$\n/m)
    expect(urls.output).toContain('https://one.example/%0Ahttps://two.example/\n')
  })

  it('exports one folder, and only changes since a time', async () => {
    const { user, account } = someone('chooser')
    const since = new Date(sandbox.nowMs() + 1000).toISOString()
    await write(
      user,
      { id: 'folderfolder', type: 'folder', title: 'Mine', parentid: 'menu', children: ['linkslinksli'] },
      {
        id: 'linkslinksli',
        type: 'bookmark',
        title: 'L',
        bmkUri: 'https://mine.example/',
        parentid: 'folderfolder',
      },
    )
    const urls = (...more: string[]) => runWith(account, ['export', 'bookmarks', '--format', 'urls', ...more])

    const byTitle = await urls('--folder', 'Mine')
    const byId = await urls('--folder', 'folderfolder', '--since', '1d')
    const later = await urls('--since', new Date(Date.parse(since) + 86_400_000 * 300).toISOString())
    const unknown = await urls('--folder', 'Yours')

    expect([byTitle.output, byId.output, later.output]).toEqual([
      'https://mine.example/\n',
      'https://mine.example/\n',
      '',
    ])
    expect([unknown.errors, unknown.code]).toEqual(['sync-bridge: There is no folder "Yours"\n', 1])
  })

  it('asks for an id if two folders have the same name', async () => {
    const { user, account } = someone('ambiguous')
    const twins = { type: 'folder', title: 'Twins' }
    await write(
      user,
      { id: 'outertwin', ...twins, parentid: 'menu', children: ['innertwin'] },
      { id: 'innertwin', ...twins, parentid: 'outertwin', children: [] },
    )

    const { errors, code } = await runWith(account, ['export', 'bookmarks', '--folder', 'Twins'])

    expect(errors).toContain('There are 2 folders "Twins": use one of these ids: outertwin (in ')
    expect(errors).toContain('innertwin (in ')
    expect(code).toBe(1)
  })

  it('skips what cannot be read, lists it, and exits 3', async () => {
    const { user, account } = someone('incomplete')
    sandbox.write(user, 'bookmarks', [{ id: 'foreignrecor', payload: foreign }])
    const file = join(makeFolder(), 'all.json')

    const { errors, code } = await runWith(account, ['export', 'everything', '--output', file])

    const { collections, unreadable } = JSON.parse(readFileSync(file, 'utf8'))
    expect(errors).toContain('1 record cannot be decrypted: bookmarks/foreignrecor')
    expect(code).toBe(3)
    expect(Object.keys(collections)).not.toContain('crypto')
    expect(unreadable).toMatchObject([{ collection: 'bookmarks', id: 'foreignrecor' }])
  })

  it.skipIf(hasNoTerminals)(
    'has no control characters on a terminal, and all of them elsewhere',
    async () => {
      const { user, account } = someone('shown on a terminal')
      const title = 'red \u001b[31m C1 \u009b2J turned \u202e end'
      await write(user, { id: 'controlchars', type: 'bookmark', title, bmkUri: 'https://c.example/' })
      const command = ['export', 'bookmarks', '--format', 'csv']
      const env = { SYNC_BRIDGE_ACCOUNT: account }

      const [onTerminal, raw] = await Promise.all(
        [[], ['--raw']].map(async (more) => {
          const { child, shown, closed } = startOnTerminal([executablePath, ...command, ...more], { env })
          await Promise.all([child.exited, closed])
          return shown()
        }),
      )
      const piped = await runWith(account, command)

      expect(onTerminal).toContain('"red  [31m C1  2J turned   end"')
      for (const output of [raw, piped.output]) expect(output).toContain(`"${title}"`)
    },
  )

  it('names records that are not what Firefox writes, exports the rest, and exits 3', async () => {
    const { user, account } = someone('strange records')
    const deep = JSON.parse(`${'['.repeat(5000)}${']'.repeat(5000)}`)
    const odd: ClearRecord[] = [
      { id: 'oddfolder000', type: 'folder', parentid: 'menu', title: 'Odd', children: ['oddchild0000', 7] },
      {
        id: 'oddchild0000',
        type: 'bookmark',
        parentid: 'oddfolder000',
        title: 'C',
        bmkUri: 'https://c.example/',
      },
      { id: 'oddaddress00', type: 'bookmark', parentid: 'menu', title: 'No address', bmkUri: [] },
      { id: 'oddnested000', type: 'bookmark', parentid: 'menu', bmkUri: 'https://d.example/', title: deep },
    ]
    await write(user, ...odd)

    const { output, errors, code } = await runWith(account, ['export', 'bookmarks', '--format', 'csv'])
    const everything = await runWith(account, ['export', 'everything'])
    const listed = await runWith(account, ['ls', 'bookmarks', '--json'])

    expect(output).toContain('"https://c.example/","C","Bookmarks Menu / Odd"')
    expect(output).not.toContain('No address')
    expect(errors).toContain('1 record cannot be decrypted: bookmarks/oddnested000')
    expect(errors).toContain('bookmarks/oddfolder000: "children" is not a list of ids\n')
    expect(errors).toContain('bookmarks/oddaddress00: "bmkUri" is not text\n')
    expect([code, everything.code, listed.code]).toEqual([3, 3, 3])
    // Nothing is left out of these.
    expect(everything.output).toContain('"title":"No address"')
    expect(listed.output).toContain('"title":"No address"')
    expect(everything.errors + listed.errors).not.toContain('oddaddress00')
  })
})

describe('add', () => {
  it('exits 3 if the bookmark is added, but its id cannot be printed', async () => {
    const { user, account } = someone('full output')
    const script = '"$0" add https://full.example/ --no-undo --account "$1" > /dev/full'

    const { errors, code } = await runToEnd(['/bin/sh', '-c', script, executablePath, account])

    const added = [...(await bookmarksOf(user)).values()].map(({ bmkUri }) => bmkUri)
    expect(added).toContain('https://full.example/')
    expect(errors).toContain(`Cannot write to standard output: ENOSPC. Everything is added\n`)
    expect(code).toBe(3)
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

describe('watch', () => {
  it('prints a line for each change from now on, and requests only changes', async () => {
    const { user, account } = someone('watched')
    await using watching = start(['watch', '--every', '1'], { environment: { SYNC_BRIDGE_ACCOUNT: account } })
    const { entries } = sandbox.requests.storage
    const before = entries.length
    await eventually('its first round is over', () => hasAnswered(sandbox, before))
    for (const name of ['passwords', 'creditcards']) await upload({ sandbox, user }, name, { id: 'p' })
    await write(user, { id: 'newbookmarkk', type: 'bookmark', title: 'T', bmkUri: 'https://t.example/' })

    await watching.line(/"newbookmarkk"/)
    // In the next round, because the first one reads collections in order.
    await upload({ sandbox, user }, 'tabs', { id: 'later' })
    await watching.line(/"later"/)
    const code = await watching.stop()

    const paths = new Set(
      entries.slice(before).map(({ target }) => target.replace(/\?.*/, '').replace(/.*\/\d+\//, '')),
    )
    expect(paths).toEqual(
      new Set(['info/collections', 'storage/bookmarks', 'storage/tabs', 'storage/crypto/keys']),
    )
    expect(JSON.parse(watching.lines[0]!)).toMatchObject({
      collection: 'bookmarks',
      id: 'newbookmarkk',
      content: { bmkUri: 'https://t.example/' },
    })
    expect([watching.lines.length, code]).toEqual([2, 0])
  })

  it('goes on without its terminal under nohup', async () => {
    const { user, account } = someone('hung up')
    const { entries } = sandbox.requests.storage
    const before = entries.length
    await using watching = start(['-c', `trap '' HUP; exec '${executablePath}' watch --every 1`], {
      executable: '/bin/sh',
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })
    await eventually('its first round is over', () => hasAnswered(sandbox, before))

    watching.signal('SIGHUP')
    await write(user, { id: 'afterhangup1', type: 'bookmark', title: 'T', bmkUri: 'https://t.example/' })

    await watching.line(/"afterhangup1"/)
    expect(await watching.stop()).toBe(0)
  })

  it('pauses for as long as the bridge asks, and reports that', async () => {
    const { account } = someone('patient')
    await using bridge = await startTestBridge({ settings: { backoff: '3600' } })
    const values = valuesOf(bridge.sandbox, bridge.user)
    fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 1, history: 1 })
    writeFileSync(account, linesOf({ ...values, BRIDGE_URL: bridge.url }))
    await using watching = start(['watch', '--every', '1'], { environment: { SYNC_BRIDGE_ACCOUNT: account } })

    await eventually('it pauses', () => /asks for a pause: continuing in 3600 s\n/.test(watching.errors()))

    expect(await watching.stop()).toBe(0)
  })

  it('prints the changes since a time, and runs a command for each', async () => {
    const { user, account } = someone('since')
    const file = join(makeFolder(), 'lines')
    await write(user, { id: 'deletedthing', deleted: true })
    const command = ['watch', 'bookmarks', '--since', '2020-01-01', '--exec', `cat >> '${file}'`]
    await using watching = start(command, { environment: { SYNC_BRIDGE_ACCOUNT: account } })

    const linesSoFar = () => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [])
    await eventually('the command has got a deletion and 20 bookmarks', () => linesSoFar().length >= 21)
    const open = readdirSync(`/proc/${watching.pid}/fd`).length
    const code = await watching.stop()

    const lines = linesSoFar()
    expect(lines.join()).toContain('deletedthing')
    expect(lines.map((line) => JSON.parse(line) as { collection: string })).toSatisfy((all) =>
      all.every(({ collection }) => collection === 'bookmarks'),
    )
    expect([lines.length, watching.lines.length, code]).toEqual([21, 0, 0])
    // One that stays open for each run would soon be too many.
    expect(open).toBeLessThan(25)
  })

  it('ends the running command with its children, and skips the remaining changes', async () => {
    const { account } = someone('stopping')
    // It prints the id of its child, which then runs.
    const script = 'sleep 1000 & echo "run $!"; wait; echo end'
    const command = ['watch', 'bookmarks', '--since', '2020-01-01', '--exec', script]
    await using watching = start(command, { environment: { SYNC_BRIDGE_ACCOUNT: account } })
    const [, child = ''] = await watching.line(/^run (\d+)$/)

    watching.signal('SIGINT')
    const code = await watching.exited

    // A process that has ended may stay in the table for a moment, without a command line.
    await eventually('the child ends', () => commandLine(child) === '')
    expect([watching.lines, code]).toEqual([[`run ${child}`], 0])
  })

  it('does not print the keys of the account', async () => {
    const { account } = someone('key watcher')

    const { output, errors, code } = await runWith(account, ['watch', 'crypto', '--since', '2020-01-01'])

    expect([output, errors, code]).toEqual([
      '',
      'sync-bridge: "crypto" contains the keys of the account, which are not shown\n',
      1,
    ])
  })
})

describe('open', () => {
  it('ends with its terminal', async () => {
    const { account } = someone('closer')
    const environment = { SYNC_BRIDGE_ACCOUNT: account, TMPDIR: makeFolder() }
    await using opened = start(['open'], { environment })
    await eventually('it has told its address', () => /http:\S+/.test(opened.errors()))

    opened.signal('SIGHUP')

    expect(await opened.exited).toBe(0)
  })

  /** The code of a link. */
  const codeIn = (link: string) => new URL(link).hash.replace('#code=', '')

  /** Asks for the account of a link, like its page. */
  async function exchange(link: string): Promise<Record<string, string> | number> {
    const { origin } = new URL(link)
    const headers = { Origin: origin, 'Sec-Fetch-Site': 'same-origin' }
    const answer = await fetch(`${origin}/account`, { method: 'POST', body: codeIn(link), headers })
    return answer.ok ? answer.json() : answer.status
  }

  it('names the setting if another bridge does not answer its page', async () => {
    await using bridge = await startTestBridge({ settings: { cors_origins: 'https://app.example' } })
    fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 1, history: 1 })
    const account = accountFile({ ...valuesOf(bridge.sandbox, bridge.user), BRIDGE_URL: bridge.url })
    const port = String(freePort())

    const { errors, code } = await runWith(account, ['open', '--port', port])

    expect(errors).toBe(
      `Bridge: ${bridge.url}\nsync-bridge: The bridge at ${bridge.url} does not answer the page at http://127.0.0.1:${port}: its operator has to add that to service.cors_origins. "open --port N" keeps the port the same\n`,
    )
    expect(code).toBe(1)
  })

  it('reports a port that is in use', async () => {
    const { account } = someone('port taken')
    using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })

    const { errors, code } = await runWith(account, ['open', '--port', String(taken.port)])

    expect(errors).toStartWith(
      `sync-bridge: Cannot serve the page at 127.0.0.1:${taken.port}: the port is in use: change --port`,
    )
    expect(code).toBe(1)
  })

  it('serves the page of an account, which it gives once for its link', async () => {
    const { user, account } = someone('opener')
    const temporary = makeFolder()
    await using opened = start(['open'], { environment: { SYNC_BRIDGE_ACCOUNT: account, TMPDIR: temporary } })
    await eventually('it has printed its link', () => /http:\S+#code=\S+/.test(opened.errors()))
    const [link] = /http:\S+#code=\S+/.exec(opened.errors())!
    const [folder] = readdirSync(temporary)
    const text = readFileSync(join(temporary, folder!, 'open.html'), 'utf8')

    const page = await fetch(link)
    const values = await exchange(link)
    const again = await exchange(link)
    await eventually('it says so', () => /^The link was used at \d\d:\d\d:\d\d\.$/m.test(opened.errors()))
    const { mode } = statSync(join(temporary, folder!))
    const code = await opened.stop()

    const [, policy] = /connect-src 'self' (http:\S+);/.exec(page.headers.get('Content-Security-Policy')!)!
    expect(policy).toStartWith('http://127.0.0.1:')
    expect(await page.text()).toContain(`<html lang="en" data-bridge="${policy}"`)
    expect(values).toMatchObject({ keyId: user.keyId, syncKey: user.syncKey.toString('hex') })
    expect(again).toBe(403)
    expect(mode & 0o077).toBe(0)
    expect(text).toContain(link)
    expect(text).not.toContain(user.syncKey.toString('hex'))
    expect([code, readdirSync(temporary)]).toEqual([0, []])
  })

  it.skipIf(hasNoTerminals)('prints a new link for Enter', async () => {
    const { account } = someone('pressing enter')
    const env = { PATH: '/usr/bin:/bin', SYNC_BRIDGE_ACCOUNT: account, TMPDIR: makeFolder() }
    const { child, type, shown, closed } = startOnTerminal([executablePath, 'open'], { env })
    const linksSoFar = () => Array.from(shown().matchAll(/http:\S+#code=\S+/g), String)
    await eventually('it has printed its link', () => shown().includes('Press Enter for a new one'))

    type('\r')
    await eventually('it has printed another', () => linksSoFar().length === 2)
    const [first, second] = linksSoFar()
    const outcomes = [await exchange(first!), await exchange(second!)]
    child.kill('SIGTERM')
    await closed

    expect(outcomes).toEqual([403, expect.objectContaining({ token: expect.any(String) })])
  })

  it('prints its link where no folder can hold a page for the browser', async () => {
    const { account } = someone('without a folder')
    const environment = { SYNC_BRIDGE_ACCOUNT: account, TMPDIR: '/nowhere' }
    await using opened = start(['open'], { environment })

    await eventually('it has printed its link', () => /http:\S+#code=\S+/.test(opened.errors()))

    expect(await opened.stop()).toBe(0)
  })

  it('uses the present token if it cannot be renewed, and says why', async () => {
    const unreachable = 'http://127.0.0.1:1/v1/oauth/token'
    const token = renewing.bearerToken()
    const account = accountFile(renewable({ BEARER_TOKEN: token, TOKEN_ENDPOINT: unreachable }))
    await using opened = start(['open'], {
      environment: { SYNC_BRIDGE_ACCOUNT: account, TMPDIR: makeFolder() },
    })
    await eventually('it has printed its link', () => /http:\S+#code=\S+/.test(opened.errors()))
    const [link] = /http:\S+#code=\S+/.exec(opened.errors())!

    const values = await exchange(link)

    expect(values).toMatchObject({ token })
    await eventually('it says why', () =>
      opened.errors().includes('Cannot renew the access token: no response'),
    )
  })
})
