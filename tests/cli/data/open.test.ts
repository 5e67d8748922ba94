import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { eventually } from '../../support/eventually.ts'
import { executablePath, makeFolder, start } from '../../support/executable.ts'
import { freePort } from '../../support/free-port.ts'
import { hasNoTerminals } from '../../support/machine.ts'
import { startOnTerminal } from '../../support/terminal.ts'
import { startRenewable } from './people.ts'
import { accountFile, runWith, valuesOf } from './world.ts'

const { someone, renewing, renewable, stop } = await startRenewable()
afterAll(stop)

// The executable, because it serves a page until a signal or its terminal ends it.
describe('open', () => {
  it('ends with its terminal', async () => {
    const { account } = someone('closer')
    const { opened } = await open(account)

    opened.signal('SIGHUP')

    expect(await opened.exited).toBe(0)
  })

  /** Starts the command; resolves with its link. */
  async function open(account: string, temporary = makeFolder()) {
    const opened = start(['open'], { environment: { SYNC_BRIDGE_ACCOUNT: account, TMPDIR: temporary } })
    const link = () => /http:\S+#code=\S+/.exec(opened.errors())?.[0]
    await eventually('it has printed its link', () => link() !== undefined)
    return { opened, link: link()! }
  }

  /** Asks for the account of a link, like its page. */
  async function exchange(link: string): Promise<Record<string, string> | number> {
    const { origin, hash } = new URL(link)
    const headers = { Origin: origin, 'Sec-Fetch-Site': 'same-origin' }
    const answer = await fetch(`${origin}/account`, {
      method: 'POST',
      body: hash.replace('#code=', ''),
      headers,
    })
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
    const { opened, link } = await open(account, temporary)
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

    const { opened } = await open(account, '/nowhere')

    expect(await opened.stop()).toBe(0)
  })

  it('uses the present token if it cannot be renewed, and says why', async () => {
    const unreachable = 'http://127.0.0.1:1/v1/oauth/token'
    const token = renewing.bearerToken()
    const account = accountFile(renewable({ BEARER_TOKEN: token, TOKEN_ENDPOINT: unreachable }))
    const { opened, link } = await open(account)

    const values = await exchange(link)

    expect(values).toMatchObject({ token })
    await eventually('it says why', () =>
      opened.errors().includes('Cannot renew the access token: no response'),
    )
    await opened.stop()
  })
})
