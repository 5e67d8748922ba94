import { afterAll, describe, expect, it } from 'bun:test'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { endAll, executablePath, iniText, makeFolder, start } from '../support/executable.ts'

import type { Running } from '../support/executable.ts'

afterAll(endAll)

function slotsOf(pid: number): string | undefined {
  const variables = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
  return variables.find((one) => one.startsWith('BUN_CONFIG_MAX_HTTP_REQUESTS='))?.split('=')[1]
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
}

async function serve(
  settings: Record<string, string>,
  options: Parameters<typeof start>[1] = {},
): Promise<Running> {
  const cwd = makeFolder({ 'bridge.ini': iniText({ token_server_url: 'http://127.0.0.1:1', ...settings }) })
  const running = start(['serve', '--config', 'bridge.ini'], { cwd, ...options })
  await running.line(/"event":"listening"/)
  return running
}

async function stop(running: Running): Promise<void> {
  expect([await running.stop(), running.errors()]).toEqual([0, ''])
}

describe('serve', () => {
  it('gives itself 1024 slots for requests to upstream, in the process that was started', async () => {
    const running = await serve({})

    expect(slotsOf(running.pid)).toBe('1024')
    await stop(running)
  })

  it('leaves a number alone that it was given', async () => {
    const running = await serve({}, { environment: { BUN_CONFIG_MAX_HTTP_REQUESTS: '500' } })

    expect(slotsOf(running.pid)).toBe('500')
    await stop(running)
  })

  it('gives them to each of several workers', async () => {
    const running = await serve({ workers: '2', cache_backend: 'redis' })

    expect(childrenOf(running.pid).map(slotsOf)).toEqual(['1024', '1024'])
    await stop(running)
  })

  it('does with what there are, in silence, where it can not start itself again', async () => {
    const cwd = makeFolder({ 'bridge.ini': iniText({ token_server_url: 'http://127.0.0.1:1' }) })
    copyFileSync(executablePath, join(cwd, 'sync-bridge'))
    // A program whose file is gone when it begins.
    const gone = 'exec 9<sync-bridge; rm sync-bridge; exec /proc/self/fd/9 serve --config bridge.ini'
    const running = start(['-c', gone], { cwd, executable: 'bash' })
    await running.line(/"event":"listening"/)

    expect(slotsOf(running.pid)).toBeUndefined()
    await stop(running)
  })
})

describe('sandbox', () => {
  it('gives itself as many', async () => {
    const running = start(['sandbox', '--port', '0'])
    await running.line(/^ {2}http\S+\/docs$/)

    expect(slotsOf(running.pid)).toBe('1024')
    await running.stop()
  })
})
