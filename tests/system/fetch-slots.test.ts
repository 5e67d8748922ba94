import { afterAll, describe, expect, it } from 'bun:test'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import {
  endAll,
  executablePath,
  iniText,
  makeFolder,
  serve,
  start,
  type Running,
} from '../support/executable.ts'
import { childrenOf } from '../support/processes.ts'

afterAll(endAll)

function slotsOf(pid: number): string | undefined {
  const variables = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
  return variables.find((one) => one.startsWith('BUN_CONFIG_MAX_HTTP_REQUESTS='))?.split('=')[1]
}

async function expectQuietEnd(running: Running): Promise<void> {
  expect([await running.stop(), running.errors()]).toEqual([0, ''])
}

const nowhere = { token_server_url: 'http://127.0.0.1:1' }

describe('serve', () => {
  it.each<[string, Record<string, string>, string]>([
    ['gives itself 1024 slots for requests to upstream, in the process that was started', {}, '1024'],
    ['leaves a number alone that it was given', { BUN_CONFIG_MAX_HTTP_REQUESTS: '500' }, '500'],
  ])('%s', async (_, environment, slots) => {
    const running = await serve(nowhere, { environment })

    expect(slotsOf(running.pid)).toBe(slots)
    await expectQuietEnd(running)
  })

  it('gives them to each of several workers', async () => {
    const running = await serve({ ...nowhere, workers: '2', cache_backend: 'redis' })

    expect(childrenOf(running.pid).map(slotsOf)).toEqual(['1024', '1024'])
    await expectQuietEnd(running)
  })

  it('does with what there are, in silence, where it can not start itself again', async () => {
    const cwd = makeFolder({ 'bridge.ini': iniText(nowhere) })
    copyFileSync(executablePath, join(cwd, 'sync-bridge'))
    // A program whose file is gone when it begins.
    const gone = 'exec 9<sync-bridge; rm sync-bridge; exec /proc/self/fd/9 serve --config bridge.ini'
    const running = start(['-c', gone], { cwd, executable: 'bash' })
    await running.line(/"event":"listening"/)

    expect(slotsOf(running.pid)).toBeUndefined()
    await expectQuietEnd(running)
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
