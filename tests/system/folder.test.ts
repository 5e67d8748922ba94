import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

import { endAll, iniText, makeFolder, run, start, startUpstream } from './process.ts'
import type { Running, Upstream } from './process.ts'

const hostileFiles = {
  '.env': 'SERVICE_PROJECT_NAME=from the file\nSERVICE_READONLY=true\n',
  '.env.production': 'SERVICE_PROJECT_NAME=from the file\n',
  'bunfig.toml': 'preload = ["./preload.ts"]\n',
  'preload.ts': 'await Bun.write("preloaded", "yes")\n',
  'package.json': '{"name":"other","version":"9.9.9"}',
  'tsconfig.json': '{"compilerOptions":{"paths":{"elysia":["./preload.ts"]}}}',
}

let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
})

afterAll(async () => {
  upstream.process.signal('SIGTERM')
  await upstream.process.exited
})

afterAll(endAll)

describe('the executable', () => {
  it('runs in an empty folder and leaves nothing there', async () => {
    const cwd = makeFolder()

    const serving = await serveByEnvironment(cwd)
    const response = await fetch(`${serving.url}/v1/buckets/${upstream.bucket}/collections/tabs/records`, {
      headers: upstream.bearer,
    })
    const { data } = (await response.json()) as { data: unknown[] }
    serving.signal('SIGTERM')

    expect(await serving.exited).toBe(0)
    expect(response.status).toBe(200)
    expect(data.length).toBeGreaterThan(0)
    expect(readdirSync(cwd)).toEqual([])
  })

  it('neither runs nor reads what happens to lie in its folder', async () => {
    const cwd = makeFolder(hostileFiles)

    const serving = await serveByEnvironment(cwd)
    const root = (await (await fetch(`${serving.url}/v1/`)).json()) as {
      project_name: string
      settings: { readonly: boolean }
    }
    serving.signal('SIGTERM')
    await serving.exited

    expect(root.project_name).toBe('Sync Bridge')
    expect(root.settings.readonly).toBe(false)
    expect(existsSync(join(cwd, 'preloaded'))).toBe(false)
  })

  it('would be hit by these files if it were an ordinary program of its runtime', () => {
    const cwd = makeFolder({ ...hostileFiles, 'main.ts': 'console.log(process.env.SERVICE_PROJECT_NAME)' })

    const ordinary = Bun.spawnSync([process.execPath, 'main.ts'], { cwd, env: { PATH: '/usr/bin:/bin' } })

    expect(ordinary.stdout.toString()).toBe('from the file\n')
    expect(existsSync(join(cwd, 'preloaded'))).toBe(true)
  })
})

describe('serve with broken settings', () => {
  it('names every problem with file and line, and exits 2', async () => {
    const text = [
      '[service]',
      'token_server_url = http://127.0.0.1:1',
      'prot = 8000',
      'port = eighty',
      'readonly = perhaps',
      'certificate_ca_bundle = nowhere.pem',
      'record_tabs_put_enabled = maybe',
    ].join('\n')
    const cwd = makeFolder({ 'bridge.ini': text })

    const { exitCode, lines, stderr } = await run(['serve', '--config', 'bridge.ini'], { cwd })

    expect(exitCode).toBe(2)
    expect(lines).toEqual([])
    const problems = stderr.trimEnd().split('\n')
    expect(problems.at(-1)).toBe('sync-bridge: 6 problems with the settings')
    for (const start of [
      'bridge.ini:3: service.prot: ',
      'bridge.ini:4: service.port: ',
      'bridge.ini:5: service.readonly: ',
      'bridge.ini:6: service.certificate_ca_bundle: ',
      'bridge.ini:7: service.record_tabs_put_enabled: ',
    ]) {
      expect(problems.filter((problem) => problem.startsWith(start))).toHaveLength(1)
    }
    expect(problems.filter((problem) => /^bridge\.ini.*cache_hmac_secret/.test(problem))).toHaveLength(1)
    // Each tells what to do.
    for (const problem of problems.slice(0, -1)) expect(problem.split(': ').length).toBeGreaterThanOrEqual(4)
  })

  it('never shows a secret that it could not use', async () => {
    const cwd = makeFolder({ 'bridge.ini': iniText({ cache_hmac_secret: 'c0ffee-not-hexadecimal' }) })

    const { exitCode, stderr } = await run(['serve', '--config', 'bridge.ini'], { cwd })

    expect(exitCode).toBe(2)
    expect(stderr).toContain('cache_hmac_secret')
    expect(stderr).not.toContain('c0ffee')
  })
})

/** Settings from the environment alone, so that the folder stays as it is. */
async function serveByEnvironment(cwd: string): Promise<Running & { url: string }> {
  const running = start(['serve'], {
    cwd,
    environment: {
      SERVICE_PORT: '0',
      SERVICE_TOKEN_SERVER_URL: upstream.tokenServerUrl,
      SERVICE_CACHE_BACKEND: 'memory',
      SERVICE_CACHE_HMAC_SECRET: 'cd'.repeat(32),
    },
  })
  const match = await running.line(/"event":"listening".*"url":"([^"]+)"/)
  return { ...running, url: match[1]! }
}
