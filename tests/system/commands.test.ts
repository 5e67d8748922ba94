import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { appendFileSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { startRedisServer } from '../support/redis-server.ts'
import { endAll, executablePath, makeFolder, run, start, startUpstream } from './process.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { Upstream } from './process.ts'

let upstream: Upstream
let redis: RedisServer

beforeAll(async () => {
  upstream = await startUpstream()
  redis = await startRedisServer()
})

afterAll(async () => {
  upstream.process.signal('SIGTERM')
  await upstream.process.exited
  await redis.close()
})

afterAll(endAll)

describe('the executable', () => {
  it('makes settings that need nothing but the token server', async () => {
    const cwd = makeFolder()
    const path = join(cwd, 'bridge.ini')

    const made = await run(['init'], { cwd })
    writeFileSync(path, `${made.stdout}\n`, { mode: 0o600 })
    const unfinished = await run(['check', '--config', 'bridge.ini'], { cwd })
    appendFileSync(path, `service.token_server_url = ${upstream.tokenServerUrl}\n`)
    // The usual port may be taken on this machine, and the usual Redis be absent or somebody's.
    const environment = { SERVICE_PORT: '0', SERVICE_CACHE_URL: redis.url }
    const checked = await run(['check', '--config', 'bridge.ini'], { cwd, environment })
    const serving = start(['serve', '--config', 'bridge.ini'], { cwd, environment })
    const [, url] = await serving.line(/"event":"listening".*"url":"([^"]+)"/)
    const response = await fetch(`${url}/v1/buckets/${upstream.bucket}/collections/tabs/records`, {
      headers: upstream.bearer,
    })
    const well = await run(['healthcheck', '--url', url!], { cwd })
    serving.signal('SIGTERM')
    const served = await serving.exited
    const gone = await run(['healthcheck', '--url', url!], { cwd })
    const wrong = await run(['healthcheck', '--url', 'localhost'], { cwd })

    const secret = /cache_hmac_secret = ([0-9a-f]{64})/.exec(readFileSync(path, 'utf8'))![1]!
    expect(made.exitCode).toBe(0)
    expect(unfinished.exitCode).toBe(2)
    expect(unfinished.stderr).toContain('token_server_url')
    expect(checked).toMatchObject({ exitCode: 0, stderr: '' })
    expect(checked.stdout).toContain('token server: answers\ncache: answers')
    expect(checked.stdout + unfinished.stdout + unfinished.stderr).not.toContain(secret)
    expect(response.status).toBe(200)
    expect(well.exitCode).toBe(0)
    expect(served).toBe(0)
    expect(gone.exitCode).toBe(1)
    expect(gone.stderr).toContain('unhealthy')
    expect(wrong.exitCode).toBe(2)
  })

  it('makes another secret each time', async () => {
    const [one, other] = await Promise.all([run(['init']), run(['init'])])

    const form = /cache_hmac_secret = ([0-9a-f]{64})/
    expect(form.exec(one.stdout)![1]).not.toBe(form.exec(other.stdout)![1])
  })

  it('does not find a token server that is not there', async () => {
    const cwd = makeFolder({
      'bridge.ini': `service.token_server_url = http://127.0.0.1:1\nservice.cache_backend = memory\nservice.cache_hmac_secret = ${'ef'.repeat(32)}\n`,
    })

    const { exitCode, stdout } = await run(['check', '--config', 'bridge.ini'], { cwd })

    expect(exitCode).toBe(2)
    expect(stdout).toContain('token server: no answer from http://127.0.0.1:1')
  })

  it('prints a unit that starts this very file', async () => {
    const { exitCode, stdout, stderr } = await run(['systemd-unit', '--config', '/etc/bridge.ini'])

    expect([exitCode, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`ExecStart=${executablePath} serve --config /etc/bridge.ini`)
    expect(stdout).toContain('DynamicUser=yes')
  })

  it('tells its version and its commands, and refuses what it does not know', async () => {
    const version = await run(['--version'])
    const help = await run(['--help'])
    const unknown = await run(['sevre'])

    expect(version.stdout).toMatch(/^sync-bridge \d+\.\d+\.\d+ \(commit \S+\)$/)
    expect([help.exitCode, help.stdout.includes('healthcheck')]).toEqual([0, true])
    expect([unknown.exitCode, unknown.stderr.includes('did you mean serve?')]).toEqual([2, true])
    expect(help.stdout).not.toContain('\u001b')
  })

  it('shows a newcomer a bridge over a storage of its own', async () => {
    const sandbox = start(['sandbox', '--port', '0'])
    const [, docsUrl] = await sandbox.line(/^ {2}(http.+\/v1\/docs)#/)
    const [, explorerUrl] = await sandbox.line(/^ {2}(http.+\/v1\/explore)#.*SYNC_KEY=/)
    const [, source, file] = await sandbox.line(/^ {2}(\. (\S+))$/)

    const { mode } = statSync(file!)
    const commands = sandbox.lines.join('\n').match(/^ {2}curl [^]*?(?=\n(?! {4}))/gm)!
    const answers = commands.map((command) =>
      Bun.spawnSync(['sh', '-c', `${source}\n${command}`]).stdout.toString(),
    )
    const pages = await Promise.all([fetch(docsUrl!), fetch(explorerUrl!)])
    sandbox.signal('SIGTERM')
    const code = await sandbox.exited

    expect(mode & 0o777).toBe(0o600)
    expect(commands).toHaveLength(2)
    expect(commands.join()).not.toContain('eyJ')
    expect(JSON.parse(answers[0]!).data).toHaveLength(5)
    expect(JSON.parse(answers[1]!).data.payload).toContain('ciphertext')
    expect(pages.map(({ status }) => status)).toEqual([200, 200])
    expect(code).toBe(0)
    expect(existsSync(dirname(file!))).toBe(false)
  })
})
