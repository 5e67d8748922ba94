import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

import {
  endAll,
  listeningUrl,
  makeFolder,
  start,
  startUpstream,
  type Running,
  type Upstream,
} from '../support/executable.ts'

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

afterAll(() => upstream.process.stop())

afterAll(endAll)

// The executable, because its runtime could read these files before our code runs.
describe('the executable', () => {
  it('runs in an empty folder and leaves nothing there', async () => {
    const cwd = makeFolder()

    const [serving, url] = await serveByEnvironment(cwd)
    const response = await fetch(`${url}/v1/buckets/${upstream.bucket}/collections/tabs/records`, {
      headers: upstream.bearer,
    })
    const { data } = (await response.json()) as { data: unknown[] }
    expect(await serving.stop()).toBe(0)
    expect(response.status).toBe(200)
    expect(data.length).toBeGreaterThan(0)
    expect(readdirSync(cwd)).toEqual([])
  })

  it('neither runs nor reads files that happen to be in its folder', async () => {
    const cwd = makeFolder(hostileFiles)

    const [serving, url] = await serveByEnvironment(cwd)
    const root = (await (await fetch(`${url}/v1/`)).json()) as {
      project_name: string
      settings: { readonly: boolean }
    }
    await serving.stop()

    expect(root.project_name).toBe('Sync Bridge')
    expect(root.settings.readonly).toBe(false)
    expect(existsSync(join(cwd, 'preloaded'))).toBe(false)
  })
})

/** Settings from the environment only, so that the folder stays unchanged. */
async function serveByEnvironment(cwd: string): Promise<[Running, url: string]> {
  const running = start(['serve'], {
    cwd,
    environment: {
      SERVICE_PORT: '0',
      SERVICE_TOKEN_SERVER_URL: upstream.tokenServerUrl,
      SERVICE_CACHE_BACKEND: 'memory',
      SERVICE_CACHE_HMAC_SECRET: 'cd'.repeat(32),
    },
  })
  return [running, await listeningUrl(running)]
}
