import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { freePort } from '../support/free-port.ts'
import {
  endAll,
  iniText,
  makeFolder,
  run,
  serve,
  executablePath,
  start,
  startUpstream,
  type Upstream,
} from '../support/executable.ts'

let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
})

afterAll(async () => {
  await upstream.process.stop()
})

afterAll(endAll)

// The executable, because addresses, ports and users belong to a process.
describe('the executable', () => {
  it('reports whether the address is free, and which program uses it, at any version', async () => {
    const version = '2.0'
    const settings = { token_server_url: 'http://127.0.0.1:1', http_api_version: version }
    using stranger = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    await using running = await serve(settings)
    const port = new URL(running.url).port

    const taken = await checkTokenServer('http://127.0.0.1:1', { port: String(stranger.port) })
    const own = await checkTokenServer('http://127.0.0.1:1', { port, http_api_version: version })
    const foreign = await checkTokenServer('http://127.0.0.1:1', { host: '192.0.2.1' })
    await using ended = await serve({ ...settings, eos: '2020-01-01' })
    const endedPort = new URL(ended.url).port
    const afterEos = await checkTokenServer('http://127.0.0.1:1', {
      port: endedPort,
      http_api_version: version,
    })

    expect(taken.stderr).toContain('address: cannot listen on 127.0.0.1:')
    expect(taken.stderr).toContain('the port is in use')
    for (const { stderr } of [own, afterEos])
      expect(stderr).toMatch(
        /^address: in use by sync-bridge; a reload applies record_\*, .*; other changes and a new executable need a restart$/m,
      )
    expect(foreign.stderr).toContain('the address is not one of this machine: change service.host')
  })

  it('reports whether the address for metrics is free, and whether this service uses it', async () => {
    const tokenServer = 'http://127.0.0.1:1'
    const metricsAt = (port: number) => ({ metrics_listen: `127.0.0.1:${port}` })
    using stranger = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const running = metricsAt(freePort())
    await using _service = await serve({ token_server_url: tokenServer, ...running })

    const taken = await checkTokenServer(tokenServer, { port: '0', ...metricsAt(stranger.port) })
    const own = await checkTokenServer(tokenServer, { port: '0', ...running })
    const free = await checkTokenServer(tokenServer, { port: '0', ...metricsAt(freePort()) })
    const off = await checkTokenServer(tokenServer, {
      port: '0',
      metrics_enabled: 'false',
      ...metricsAt(stranger.port),
    })

    expect(taken.stderr).toMatch(
      /metrics address: cannot serve metrics on 127.0.0.1:\d+: the port is in use: change service.metrics_listen/,
    )
    expect(own.stderr).toContain('metrics address: in use by sync-bridge')
    expect(free.stderr).toContain('metrics address: available')
    expect(off.stderr).not.toContain('metrics address')
  })

  it('suggests running without Redis if there is none, in check and serve', async () => {
    const settings = { cache_backend: 'redis', cache_url: `redis://127.0.0.1:${freePort()}` }

    const checked = await checkTokenServer(upstream.tokenServerUrl, settings)
    await using serving = await serve({ token_server_url: upstream.tokenServerUrl, ...settings })
    const [line] = await serving.line(/.*"event":"redis error".*/)

    expect(checked.exitCode).toBe(2)
    expect(checked.stderr).toContain(
      'cache: no response (ECONNREFUSED): check service.cache_url, or set service.cache_backend = memory\n',
    )
    expect(JSON.parse(line)).toMatchObject({
      level: 'warning',
      reason: 'unreachable',
      remedy:
        'requests continue without the shared cache: check service.cache_url, or set service.cache_backend = memory',
    })
  })

  it('shows a newcomer a bridge over an embedded storage', async () => {
    const sandbox = start(['sandbox', '--port', '0'])
    const [, docsUrl] = await sandbox.line(/^ {2}(http\S+\/docs#code=\S+)$/)
    const [, explorerUrl] = await sandbox.line(/^(http\S+\/explore#code=\S+)$/)
    const [, source, file] = await sandbox.line(/^ {2}(\. (\S+))$/)
    // The last line.
    await sandbox.line(/Press Ctrl\+C to stop/)

    // The output is a command for curl.
    expect(Bun.which('curl')).not.toBeNull()
    const { mode } = statSync(file!)
    const commands = sandbox.lines.join('\n').match(/^ {2}printf [^]*?(?=\n(?! {4}))/gm)!
    const answers = commands.map((command) =>
      Bun.spawnSync(['sh', '-c', `${source}\n${command}`]).stdout.toString(),
    )
    const pages = await Promise.all([fetch(docsUrl!), fetch(explorerUrl!)])
    const named = Bun.spawnSync(['sh', '-c', `${source}\n'${executablePath}' ls --json`])
    const origin = new URL(docsUrl!).origin
    const values = await fetch(`${origin}/account`, {
      method: 'POST',
      body: new URL(docsUrl!).hash.replace('#code=', ''),
      headers: { Origin: origin },
    })
    const code = await sandbox.stop()

    expect(mode & 0o777).toBe(0o600)
    expect(commands).toHaveLength(1)
    expect(sandbox.lines.join()).not.toContain('eyJ')
    expect(JSON.parse(answers[0]!).data).toContainEqual({
      id: 'bookmarks',
      last_modified: expect.any(Number),
    })
    expect(pages.map(({ status }) => status)).toEqual([200, 200])
    // The API page needs no key.
    expect(Object.keys(await values.json())).toEqual(['BEARER_TOKEN', 'KEY_ID', 'BUCKET'])
    // The file names itself as the account.
    expect([named.exitCode, named.stdout.toString()]).toEqual([0, expect.stringContaining('"bookmarks"')])
    expect(sandbox.lines.filter((line) => line.length > 120)).toEqual([])
    expect(code).toBe(0)
    expect(existsSync(dirname(file!))).toBe(false)
  })
})

describe('serve', () => {
  it.each([
    [{ host: '192.0.2.1' }, 'the address is not one of this machine: change service.host'],
    [{ host: 'nowhere.invalid' }, 'unknown host: change service.host'],
    [{ port: '81' }, 'ports below 1024 need root'],
  ])('reports the problem with %j', async (settings: Record<string, string>, problem) => {
    const cwd = makeFolder()
    chmodSync(cwd, 0o755)
    writeFileSync(join(cwd, 'bridge.ini'), iniText({ token_server_url: 'http://127.0.0.1:1', ...settings }))
    const { exitCode, stderr } = await run(['serve', '--config', 'bridge.ini'], { cwd, asOrdinaryUser: true })

    expect(exitCode).toBe(1)
    expect(stderr).toContain(`: ${problem}`)
  })
})

describe('sandbox', () => {
  it('reports that it uses another port, and logs requests with --log', async () => {
    const usual = takeUsualPort()
    const sandbox = start(['sandbox', '--log'])
    const [, url] = await sandbox.line(/a bridge to it at (http\S+)\.$/)

    await fetch(`${url}/v1/buckets/b/collections/tabs/records`).then((answer) => answer.text())
    await sandbox.stop()
    await usual?.stop(true)

    const { port } = new URL(url!)
    expect(sandbox.errors()).toStartWith(
      `Port 8000 is in use, so the bridge uses port ${port}. Use --port to choose one.\n`,
    )
    expect(sandbox.errors()).toContain('request method=GET route=records status=401')
  })

  it.each(['--port', '--token-port'])('reports that the port of %s is in use', async (option) => {
    await using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') })
    const { exitCode, stderr } = await run(['sandbox', option, String(taken.port)])

    expect(exitCode).toBe(1)
    expect(stderr).toContain(`sync-bridge: cannot listen: the port is in use: change ${option}`)
  })
})

/** Null if the port is already in use, which serves the same purpose. */
function takeUsualPort(): Bun.Server<undefined> | null {
  try {
    return Bun.serve({ hostname: '127.0.0.1', port: 8000, fetch: () => new Response('') })
  } catch {
    return null
  }
}

async function checkTokenServer(url: string, settings: Record<string, string> = {}) {
  const text = iniText({ token_server_url: url, ...settings })
  return run(['check', '--config', 'bridge.ini'], { cwd: makeFolder({ 'bridge.ini': text }) })
}
