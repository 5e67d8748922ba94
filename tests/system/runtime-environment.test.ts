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

/** What the runtime and the allocator found in the environment when that process began. */
function tuningOf(pid: number): string[] {
  const variables = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
  return variables.filter((one) => /^(BUN_CONFIG|BUN_GC|MIMALLOC)_/.test(one)).toSorted()
}

const slots = 'BUN_CONFIG_MAX_HTTP_REQUESTS=1024'
const rest = [
  'BUN_GC_TIMER_INTERVAL=10000',
  'MIMALLOC_PURGE_DELAY=1000',
  'MIMALLOC_PURGE_HOLES_MIN_INTERVAL=1000',
]

async function expectQuietEnd(running: Running): Promise<void> {
  expect([await running.stop(), running.errors()]).toEqual([0, ''])
}

const nowhere = { token_server_url: 'http://127.0.0.1:1' }

describe('serve', () => {
  it.each<[string, Record<string, string>, string[]]>([
    ['gives itself what the runtime looks for, in the process that was started', {}, [slots, ...rest]],
    [
      'leaves alone what it was given',
      { BUN_CONFIG_MAX_HTTP_REQUESTS: '500', MIMALLOC_PURGE_DELAY: '5' },
      ['BUN_CONFIG_MAX_HTTP_REQUESTS=500', rest[0]!, 'MIMALLOC_PURGE_DELAY=5', rest[2]!],
    ],
  ])('%s', async (_, environment, tuning) => {
    const running = await serve(nowhere, { environment })

    expect(tuningOf(running.pid)).toEqual(tuning)
    await expectQuietEnd(running)
  })

  // Another version of the runtime may call them something else.
  it('has a runtime that knows the names', () => {
    const runtime = readFileSync(process.execPath)

    for (const name of ['BUN_CONFIG_MAX_HTTP_REQUESTS', 'BUN_GC_TIMER_INTERVAL']) {
      expect(runtime.includes(name)).toBe(true)
    }
  })

  it('has an allocator that knows what it is told', async () => {
    const running = await serve(nowhere, { environment: { MIMALLOC_VERBOSE: '1' } })
    await running.stop()

    expect(running.errors()).toContain("option 'purge_delay': 1000 ")
    expect(running.errors()).toContain("option 'purge_holes_min_interval': 1000 ")
  })

  it('gives it to each of several workers', async () => {
    const running = await serve({ ...nowhere, workers: '2', cache_backend: 'redis' })

    const both = [slots, ...rest]
    expect(childrenOf(running.pid).map(tuningOf)).toEqual([both, both])
    await expectQuietEnd(running)
  })

  it('does with what there is, in silence, where it can not start itself again', async () => {
    const cwd = makeFolder({ 'bridge.ini': iniText(nowhere) })
    copyFileSync(executablePath, join(cwd, 'sync-bridge'))
    // A program whose file is gone when it begins.
    const gone = 'exec 9<sync-bridge; rm sync-bridge; exec /proc/self/fd/9 serve --config bridge.ini'
    const running = start(['-c', gone], { cwd, executable: 'bash' })
    await running.line(/"event":"listening"/)

    expect(tuningOf(running.pid)).toEqual([])
    await expectQuietEnd(running)
  })
})

describe('sandbox', () => {
  it('gives itself the same', async () => {
    const running = start(['sandbox', '--port', '0'])
    await running.line(/^ {2}http\S+\/docs$/)

    expect(tuningOf(running.pid)).toEqual([slots, ...rest])
    await running.stop()
  })
})
