import { describe, expect, it } from 'bun:test'

import { run } from '../../../src/cli/run.ts'
import { fakeHost, minimalIni } from '../fake-host.ts'

describe('systemd-unit', () => {
  it('starts this executable with the default settings file', async () => {
    const host = fakeHost()

    expect(await run(['systemd-unit'], host)).toBe(0)
    expect(host.out).toContain(
      '\nExecStart=/opt/sync-bridge serve --config /etc/sync-bridge/sync-bridge.ini\n',
    )
    expect(host.err).toBe('')
  })

  it('sets the variables of the runtime, so that the service does not restart itself', async () => {
    const host = fakeHost()

    expect(await run(['systemd-unit'], host)).toBe(0)
    const [, named = ''] = /^Environment=(.+)$/m.exec(host.out)!
    expect(named.split(' ').map((one) => one.split('=')[0])).toEqual([
      'BUN_CONFIG_MAX_HTTP_REQUESTS',
      'MIMALLOC_PURGE_DELAY',
      'MIMALLOC_PURGE_HOLES_MIN_INTERVAL',
      'BUN_GC_TIMER_INTERVAL',
    ])
  })

  it('finds the given file from any directory', async () => {
    const host = fakeHost()

    expect(await run(['systemd-unit', '--config', 'my files/50%$.ini'], host)).toBe(0)
    expect(host.out).toContain(
      '\nExecStart=/opt/sync-bridge serve --config "/home/operator/my files/50%%$$.ini"\n',
    )
  })

  it('uses the default executable when run from source', async () => {
    const host = fakeHost({}, {}, { standalone: false, executablePath: '/usr/bin/bun' })

    expect(await run(['systemd-unit'], host)).toBe(0)
    expect(host.out).toContain('\nExecStart=/usr/local/bin/sync-bridge serve ')
    expect(host.err).toContain('not the built executable')
  })

  it.each([
    ['', 45, 65_536],
    ['service.shutdown_delay_seconds = 2.5\nservice.shutdown_grace_seconds = 60\n', 73, 65_536],
    ['service.max_concurrent_requests = 20000\n', 45, 80_512],
    ['service.port = none\n', 45, 65_536],
  ])('sets the timeouts and file limits that its settings need: %j', async (lines, seconds, files) => {
    const host = fakeHost({ '/etc/bridge.ini': minimalIni + lines })

    await run(['systemd-unit', '--config', '/etc/bridge.ini'], host)

    expect(host.out).toContain(`\nTimeoutStopSec=${seconds}\n`)
    expect(host.out).toContain(`\nLimitNOFILE=${files}\n`)
  })
})
