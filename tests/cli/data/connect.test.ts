import { afterAll, describe, expect, it } from 'bun:test'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { parseAccount } from '../../../src/client/account.ts'
import { keyFor } from '../../../src/client/former-keys.ts'
import { linesOf } from '../../support/records.ts'
import { eventually } from '../../support/eventually.ts'
import { executablePath, makeFolder, start } from '../../support/executable.ts'
import { hasNoTerminals } from '../../support/machine.ts'
import { runToEnd } from '../../support/processes.ts'
import { startOnTerminal } from '../../support/terminal.ts'
import { startRenewable } from './people.ts'
import { accountFile, runWith, valuesOf } from './world.ts'

const { sandbox, someone, accounts, renewing, renewable, stop } = await startRenewable()
afterAll(stop)

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

    expect(rejected.errors).toContain(
      `the token server "${away.url.host}" returned 503. Try again in 600 s\n`,
    )
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
