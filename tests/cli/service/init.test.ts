import { describe, expect, it } from 'bun:test'

import { processHost } from '../../../src/cli/host.ts'
import { run } from '../../../src/cli/run.ts'
import { fakeHost, fakeCommands } from '../fake-host.ts'

describe('init', () => {
  it('prints examples that are valid as they are', async () => {
    const initial = fakeHost()
    await run(['init'], initial)
    const programs = fakeCommands()
    const commentedSettings = /^# (?=service\.(?!certificate_ca_bundle|cache_hmac_secret_previous))/gm
    const host = fakeHost({ f: initial.out.replace(commentedSettings, '') })

    expect(await run(['serve', '--config', 'f'], host, programs)).toBe(7)
    expect(host.err).toBe('')
    expect(programs.served[0]).toMatchObject({
      httpHost: 'sync.example.org',
      statsdUrl: { host: '127.0.0.1', port: 8125 },
      writable: { put: new Set(['tabs']), delete: new Set(['tabs']) },
    })
  })

  it('generates a different secret each time', async () => {
    const hosts = [1, 2].map(() => fakeHost({}, {}, { randomBytes: processHost().randomBytes }))

    for (const host of hosts) await run(['init'], host)

    const secrets = hosts.map(({ out }) => /cache_hmac_secret = ([0-9a-f]{64})/.exec(out)![1]!)
    expect(secrets[0]).not.toBe(secrets[1]!)
  })
})
