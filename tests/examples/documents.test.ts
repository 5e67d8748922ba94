import { afterAll, describe, expect, it } from 'bun:test'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Glob } from 'bun'
import { clientStateOf, syncKeyOf } from '../../src/sandbox/crypto.ts'
import { kintoHttp } from '../clients/python.ts'
import { startAccounts } from '../firefox/accounts.ts'
import { endAll, serve, start, startUpstream } from '../support/executable.ts'
import { paste, piecesLeft, python, root, take, withExamples } from './pages.ts'
import { linesOf } from './records.ts'

const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
const withoutCurl = !Bun.which('curl')
afterAll(endAll)

describe.skipIf(withoutCurl)('README.md', () => {
  it('names commands of the Makefile', async () => {
    const commands = take('README.md', 'make run').match(/^make \w+/gm)!

    const planned = await Promise.all(commands.map((command) => paste(`${command} --dry-run`, {}, root)))

    expect(planned.map(({ code }) => code)).toEqual([0, 0])
    expect(planned[0]!.output).toContain('dist/sync-bridge sandbox')
    expect(planned[1]!.output).toContain('tests/run.sh')
  })

  it('has the commands and the request for a bridge over data that is there already', async () => {
    const lines = take('README.md', 'dist/sync-bridge init').trimEnd().split('\n')
    const [build, run] = [lines[0]!, lines.at(-1)!]
    const request = take('README.md', '_limit=5')
    const { values } = await startUpstream()
    const folder = withExamples()
    const settings = `${values.TOKEN_SERVER_URL}\nservice.port = 0`
    const commands = lines.slice(1, -1).join('\n').replace('https://token.services.mozilla.com', settings)

    const planned = await paste(`${build.replace(/#.*/, '')} --dry-run`, {}, root)
    const made = await paste(`set -e\n${commands}`, {}, folder)
    await using bridge = start(run.split(' ').slice(1), { cwd: folder })
    const [, url] = await bridge.line(/"url":"([^"]+)"/)
    const asked = await paste(request.replace('http://127.0.0.1:8000', url!), values)

    expect(planned).toMatchObject({ code: 0 })
    expect([made.output, made.code]).toEqual([expect.stringContaining('ok'), 0])
    expect(run).toBe('dist/sync-bridge serve --config bridge.ini')
    expect(JSON.parse(asked.output).data).toHaveLength(5)
  })

  it.skipIf('reason' in python)(`has examples that run as they stand, in their order${why}`, async () => {
    await using sandbox = start(['sandbox', '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const commands = take('README.md', 'first-steps.sh')

    const { output, errors, code } = await paste(`${source}\nset -e\n${commands}`)

    expect([errors, code]).toEqual(['', 0])
    expect(output).toContain('"project_name":"Sync Bridge"')
    expect(output).toContain('bookmarks and folders')
    expect(output).toContain('history: 3000 records')
    expect(output).toContain('passwords: 0 to write, 0 different in the storage')
    expect(output).toContain('records in tabs')
  })
})

describe.skipIf(withoutCurl)('docs/connect.md', () => {
  it('has two recipes, which tests/firefox types into a real console; the explorer has the first, too', async () => {
    const recipe = take('docs/connect.md', 'getOAuthTokenAndKey')
    const lasting = take('docs/connect.md', "access_type: 'offline'")
    await using bridge = await serve({ token_server_url: 'http://127.0.0.1:1', explorer_enabled: 'true' })
    const page = await (await fetch(`${bridge.url}/v1/explore`)).text()

    expect(page).toContain(Bun.escapeHTML(recipe.replaceAll(/^ +/gm, '')))
    expect(page).not.toContain(Bun.escapeHTML(lasting.replaceAll(/^ +/gm, '')))
  })

  it('has commands for scripts and for curl, that find the values in a file', async () => {
    const { values, tokenServerUrl } = await startUpstream()
    await using bridge = await serve({ token_server_url: tokenServerUrl })
    const scripts = take('docs/connect.md', 'bookmarks.ts').replace('http://127.0.0.1:8000', bridge.url)
    const requests = take('docs/connect.md', 'X-KeyID')
    const folder = withExamples()
    const names = ['BUCKET', 'KEY_ID', 'BEARER_TOKEN', 'SYNC_KEY']
    writeFileSync(join(folder, 'account.env'), names.map((name) => `${name}=${values[name]}\n`).join(''))

    const printed = await paste(scripts, {}, folder)
    const asked = await paste(requests, {}, folder)

    expect([printed.code, asked.code]).toEqual([0, 0])
    expect(printed.output).toContain('bookmarks and folders')
    expect(asked.output).toContain('{"data":[{"id":"bookmarks"')
  })

  it('has a command that ends a refresh token', async () => {
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

  it('tells the bucket out of a key id, and the sync key out of a master key', async () => {
    const masterKey = Buffer.from(Array.from({ length: 32 }, (_, index) => 7 * index + 250))
    const clientState = clientStateOf(masterKey)
    expect(clientState).toBe(createHash('sha256').update(masterKey).digest('hex').slice(0, 32))
    const keyId = `1700000000000-${Buffer.from(clientState, 'hex').toString('base64url')}`

    const bucket = await paste(take('docs/connect.md', '${KEY_ID#*-}'), { KEY_ID: keyId })
    const key = await paste(take('docs/connect.md', 'openssl kdf'), { KB: masterKey.toString('hex') })

    expect(bucket).toEqual({ output: clientState, errors: '', code: 0 })
    expect(key.output.toLowerCase()).toBe(syncKeyOf(masterKey).toString('hex'))
  })
})

describe('the documents', () => {
  it.skipIf(withoutCurl)('have no code that is not run here', () => {
    expect(piecesLeft('README.md')).toEqual('reason' in python ? [expect.any(String)] : [])
    expect(piecesLeft('docs/connect.md')).toEqual([])
    expect(piecesLeft('docs/promises.md')).toEqual([])
  })

  const names = ['*.md', 'docs/*.md'].flatMap((pattern) => [...new Glob(pattern).scanSync(root)])
  const textOf = (name: string) => readFileSync(join(root, name), 'utf8')

  it('link to files, and headings in them, that are there', () => {
    const broken = names.flatMap((name) =>
      Array.from(textOf(name).matchAll(/\]\((?!https?:)([^)]+)\)/g), ([, target]) => target!)
        .filter((target) => {
          const [path, anchor] = target.split('#')
          const linked = path === '' ? name : join(dirname(name), path!)
          return anchor === undefined
            ? !existsSync(join(root, linked))
            : !anchors(textOf(linked)).includes(anchor)
        })
        .map((target) => `${name}: ${target}`),
    )

    expect(names.length).toBeGreaterThan(12)
    expect(broken).toEqual([])
  })

  it('link to no host of a package registry', () => {
    const links = names.flatMap((name) => textOf(name).match(/https?:\/\/[^\s)"'`]+/g) ?? [])

    expect(links.filter((link) => /npmjs|pypi|crates\.io/.test(link))).toEqual([])
  })
})

describe('first_steps.py', () => {
  it.skipIf(!Bun.which('python3'))('tells how to install the package where it is missing', async () => {
    const { errors, code } = await paste('exec python3 -S docs/examples/python/first_steps.py tabs')

    expect(code).toBe(1)
    expect(errors).toContain(`  kinto-python/bin/pip install ${kintoHttp}\n`)
    expect(errors).toContain('  kinto-python/bin/python docs/examples/python/first_steps.py tabs\n')
  })
})

function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
}
