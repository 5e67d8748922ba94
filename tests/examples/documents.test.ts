import { afterAll, describe, expect, it } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientStateOf, syncKeyOf } from '../../src/sandbox/crypto.ts'
import { kintoHttp } from '../clients/python.ts'
import { startAccounts } from '../firefox/accounts.ts'
import { startTestBridge } from '../support/bridge.ts'
import { endAll, serve, start, startUpstream } from '../support/executable.ts'
import { shownAfter } from '../support/shown-after.ts'
import { paste, piecesLeft, python, root, take, typeInto, withExamples } from './pages.ts'
import { linesOf } from '../support/records.ts'

const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
const withoutCurl = !Bun.which('curl')
afterAll(endAll)

/** What typing these commands of a page prints, if the page is right. */
const success = (page: string, commands: string, home?: string) => ({
  output: expect.stringMatching(shownAfter(page, commands, home)) as string,
  code: 0,
})

/** The lines that Firefox prints for an account of the sandbox, plus its token server. */
async function printedByFirefox(): Promise<string> {
  const { values } = await startUpstream()
  const names = ['BUCKET', 'KEY_ID', 'BEARER_TOKEN', 'SYNC_KEY', 'TOKEN_SERVER_URL']
  return linesOf(Object.fromEntries(names.map((name) => [name, values[name]!])))
}

/** The commands, with these lines typed into `connect`. */
const withLines = (commands: string, lines: string) =>
  commands.replace(/^(sync-bridge connect).*$/m, `$1 <<END\n${lines}END`)

describe('README.md', () => {
  // Run as they stand, they would install packages, and run this test.
  it('names two commands of the Makefile', async () => {
    const commands = take('README.md', 'make run').match(/^make \w+/gm)!

    const [run, test] = await Promise.all(commands.map((command) => paste(`${command} --dry-run`, {}, root)))

    expect(commands).toEqual(['make run', 'make test'])
    expect([run!.code, run!.output]).toEqual([0, expect.stringContaining('dist/sync-bridge sandbox')])
    expect([test!.code, test!.output]).toEqual([0, expect.stringContaining('tests/run.sh')])
  })

  it('exports your bookmarks into a file with two commands', async () => {
    const home = withExamples()
    const commands = take('README.md', 'sync-bridge connect')

    const said = await typeInto(home, `set -e\n${withLines(commands, await printedByFirefox())}`)

    expect(said).toEqual(success('README.md', commands))
    expect(said.output).toContain('  sync-bridge ls          what your account has\n')
    expect(readFileSync(join(home, 'bookmarks.html'), 'utf8')).toContain('<A HREF="')
  })
})

describe.skipIf(withoutCurl)('docs/get-started.md', () => {
  const page = 'docs/get-started.md'

  it('builds, browses, queries and decrypts', async () => {
    const [build] = take(page, 'make build').split('\n')
    const command = take(page, 'sync-bridge sandbox').trim()
    await using sandbox = start([...command.split(' ').slice(1), '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const list = take(page, 'sync-bridge ls\n')
    const request = take(page, 'records/menu')
    const decrypting = take(page, 'sync-bridge ls tabs')

    const planned = await paste(`${build} --dry-run`, {}, root)
    const said = []
    // Without a terminal, curl would show its progress.
    for (const commands of [list, request, decrypting])
      said.push(await typeInto(withExamples(), `set -e\n${source}\n${commands.replace('curl', 'curl -s')}`))

    expect(planned.code).toBe(0)
    expect(said).toEqual([list, request, decrypting].map((commands) => success(page, commands)))
  })
})

describe('docs/your-data.md', () => {
  const page = 'docs/your-data.md'

  it('has commands that work in sequence, with the results that it shows', async () => {
    const home = withExamples()
    const lines = await printedByFirefox()
    const connecting = take(page, 'sync-bridge connect')
    // These two run until Ctrl+C; tests/operate/words.test.ts checks their arguments.
    take(page, 'sync-bridge open\n')
    take(page, 'sync-bridge watch')
    // It waits for a browser; tests/browser/own-pages.test.ts runs it.
    take(page, 'open --edit')
    // These open an editor and ask for a password; tests/commands/edit.test.ts runs them.
    take(page, 'sync-bridge set')
    const names = [
      'sync-bridge ls',
      '--output bookmarks.html',
      'sync-bridge backup',
      '--write',
      'sync-bridge add',
      'sync-bridge edit --print',
    ]
    const blocks = names.map((name) => take(page, name))

    const connected = await typeInto(home, withLines(connecting, lines))
    const said = []
    for (const block of blocks) said.push(await typeInto(home, `set -e\n${block}`))

    expect(connected).toEqual(success(page, connecting))
    expect(said).toEqual(blocks.map((block) => success(page, block, home)))
  })
})

describe.skipIf(withoutCurl)('docs/run.md', () => {
  it('has the commands for a bridge on your own computer, and a request to it', async () => {
    const block = take('docs/run.md', 'dist/sync-bridge init')
    const lines = block.trimEnd().split('\n')
    const [build, run] = [lines[0]!, lines.at(-1)!]
    const request = take('docs/run.md', '_limit=5')
    const { values } = await startUpstream()
    const folder = withExamples()
    const settings = `${values.TOKEN_SERVER_URL}\nservice.port = 0`
    const commands = lines.slice(1, -1).join('\n').replace('https://token.services.mozilla.com', settings)

    const planned = await paste(`${build.replace(/#.*/, '')} --dry-run`, {}, root)
    const made = await typeInto(folder, `set -e\n${commands}`)
    await using bridge = start(run.split(' ').slice(1), { cwd: folder })
    const [line, url] = await bridge.line(/^.*"url":"([^"]+)".*$/m)
    const asked = await paste(request.replace('http://127.0.0.1:8000', url!), values)

    expect(planned).toMatchObject({ code: 0 })
    expect(made.code).toBe(0)
    const printed = `${made.output}${line.replace(url!, 'http://127.0.0.1:8000')}\n`
    expect(printed).toMatch(shownAfter('docs/run.md', block))
    expect(run).toBe('dist/sync-bridge serve --config bridge.ini')
    expect(asked.output).toMatch(shownAfter('docs/run.md', request))
    expect(JSON.parse(asked.output).data).toHaveLength(5)
  })
})

describe.skipIf(withoutCurl || 'reason' in python)(`docs/clients.md${why}`, () => {
  it('goes from a request to a decrypted record, with the results that it shows', async () => {
    await using sandbox = start(['sandbox', '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const asking = take('docs/clients.md', '> record.json')
    const program = take('docs/clients.md', 'def decrypt')
    const running = take('docs/clients.md', 'python3 decrypt.py')
    const folder = withExamples()
    writeFileSync(join(folder, 'decrypt.py'), program)

    const asked = await typeInto(folder, `set -e\n${source}\n${asking}`)
    const opened = await typeInto(folder, `set -e\n${source}\n${running}`)

    expect(asked).toEqual(success('docs/clients.md', asking))
    expect(opened).toEqual(success('docs/clients.md', running))
  })

  it('has working examples of the protocol', async () => {
    await using sandbox = start(['sandbox', '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const commands = take('docs/clients.md', 'first-steps.sh')

    const said = await typeInto(withExamples(), `set -e\n${source}\n${commands}`)

    expect(said).toEqual(success('docs/clients.md', commands))
  })
})

describe.skipIf(withoutCurl)('docs/connect.md', () => {
  // tests/firefox types both into a real console; tests/operate/documentation.test.ts compares them with their files.
  it('has two recipes, of which the explorer has the first', async () => {
    const recipe = take('docs/connect.md', 'getOAuthTokenAndKey')
    const lasting = take('docs/connect.md', "access_type: 'offline'")
    await using bridge = await startTestBridge({ settings: { explorer_enabled: 'true' } })
    const page = await (await fetch(`${bridge.url}/v1/explore`)).text()

    expect(page).toContain(Bun.escapeHTML(recipe.replaceAll(/^ +/gm, '')))
    expect(page).not.toContain(Bun.escapeHTML(lasting.replaceAll(/^ +/gm, '')))
  })

  it('has commands that save the values in a file, for commands and for curl', async () => {
    const { values, tokenServerUrl } = await startUpstream()
    await using bridge = await serve({ token_server_url: tokenServerUrl })
    const names = ['BUCKET', 'KEY_ID', 'BEARER_TOKEN', 'SYNC_KEY']
    const lines = linesOf(Object.fromEntries(names.map((name) => [name, values[name]!])))
    const keep = take('docs/connect.md', 'cat > account.env')
      .replace(/cat > account.env\).*$/m, `cat > account.env) <<END\n${lines}END`)
      .replace('http://127.0.0.1:8000', bridge.url)
    const requests = take('docs/connect.md', 'X-KeyID')
    const folder = withExamples()

    const kept = await paste(`${keep}\nsync-bridge ls bookmarks --account account.env`, {}, folder)
    const asked = await paste(requests, {}, folder)

    expect([kept.errors, kept.code, asked.code]).toEqual([`Bridge: ${bridge.url}\n`, 0, 0])
    expect(statSync(join(folder, 'account.env')).mode & 0o777).toBe(0o600)
    expect(kept.output).toContain('LAST CHANGE')
    expect(asked.output).toContain('{"data":[{"id":"bookmarks"')
  })

  it('has a command that revokes a refresh token', async () => {
    const accounts = startAccounts({ email: '', devices: [], mintAccessToken: () => 'access' })
    const folder = withExamples()
    const token = accounts.grantRefreshToken()
    const endpoint = `${accounts.url}/v1/oauth/token`
    const lines = { REFRESH_TOKEN: token, TOKEN_ENDPOINT: endpoint, CLIENT_ID: '5882386c6d801776' }
    writeFileSync(join(folder, 'account.env'), linesOf(lines))
    const renew = async () => {
      const body = { grant_type: 'refresh_token', client_id: lines.CLIENT_ID, refresh_token: token }
      const answer = await fetch(endpoint, { method: 'POST', body: JSON.stringify(body) })
      return answer.status
    }

    const before = await renew()
    const { output, code } = await paste(take('docs/connect.md', '/destroy'), {}, folder)
    const after = await renew()
    await accounts.stop()

    expect([before, output, code, after]).toEqual([200, '{}', 0, 401])
  })

  it('derives the bucket from a key id, and the sync key from a master key', async () => {
    const masterKey = Buffer.from(Array.from({ length: 32 }, (_, index) => 7 * index + 250))
    const clientState = clientStateOf(masterKey)
    expect(clientState).toBe(createHash('sha256').update(masterKey).digest('hex').slice(0, 32))
    const keyId = `1700000000000-${Buffer.from(clientState, 'hex').toString('base64url')}`

    const bucket = await paste(take('docs/connect.md', '${KEY_ID#*-}'), { KEY_ID: keyId })
    const asks = `printf '${masterKey.toString('hex')}\\n' | setsid -w ${take('docs/connect.md', 'getpass')}`
    const key = await paste(asks)

    expect(bucket).toEqual({ output: clientState, errors: '', code: 0 })
    expect(key.output.trim()).toBe(syncKeyOf(masterKey).toString('hex'))
  })
})

describe('the documents', () => {
  it.skipIf(withoutCurl)('have no code that is not run here', () => {
    const names = [
      'README.md',
      ...['get-started', 'your-data', 'connect', 'promises'].map((name) => `docs/${name}.md`),
    ]

    expect(names.flatMap(piecesLeft)).toEqual([])
  })

  it.skipIf(withoutCurl || 'reason' in python)('have no code in clients.md that no test runs', () => {
    const elsewhere = [
      // These install built packages; tests/clients/javascript-package.test.ts and python-package.test.ts do so, too.
      'npm install ./sync-bridge-client',
      'pip install ./sync_bridge_client',
      // tests/clients/python-package.test.ts runs it.
      'read_account_file(bridge_url',
    ]
    const left = piecesLeft('docs/clients.md').filter(
      (piece) => !/^(import|class|const|async) /m.test(piece) || piece.includes('sync_bridge_client'),
    )

    // tests/examples/clients-page.test.ts runs all of JavaScript and TypeScript.
    expect(left.filter((piece) => !elsewhere.some((part) => piece.includes(part)))).toEqual([])
  })
})

describe('first_steps.py', () => {
  it.skipIf(!Bun.which('python3'))('says how to install a missing package', async () => {
    const { errors, code } = await paste('exec python3 -S docs/examples/python/first_steps.py tabs')

    expect(code).toBe(1)
    expect(errors).toContain(`  kinto-python/bin/pip install ${kintoHttp}\n`)
    expect(errors).toContain('  kinto-python/bin/python docs/examples/python/first_steps.py tabs\n')
  })
})
