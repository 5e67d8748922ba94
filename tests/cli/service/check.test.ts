import { describe, expect, it } from 'bun:test'

import { run } from '../../../src/cli/run.ts'
import { fakeHost, fakeCommands, minimalIni, secret } from '../fake-host.ts'

describe('check', () => {
  it('reports success, then the settings and their sources', async () => {
    const ini = `${minimalIni}service.cache_url = rediss://bridge:hunter2@cache.example.org/1\n`
    const programs = fakeCommands()
    const host = fakeHost({ 'bridge.ini': ini }, { SERVICE_PORT: '9000' })

    expect(await run(['check', '--config', 'bridge.ini'], host, programs)).toBe(0)
    expect(programs.probed).toBe(1)
    const lines = host.out.split('\n')
    expect(lines).toContainEqual(
      expect.stringMatching(/^service\.port = 9000 +\(environment SERVICE_PORT\)$/),
    )
    expect(lines).toContainEqual(
      expect.stringMatching(/^service\.cache_hmac_secret = \*{8} +\(bridge\.ini:2\)$/),
    )
    expect(host.out).toContain('service.cache_url = rediss://********@cache.example.org/1 ')
    expect(host.err).toBe('token server: OK\ncache: OK\naddress: available\n')
    expect(host.all).toStartWith(host.err)
    expect(host.out).not.toContain(secret)
    expect(host.out).not.toContain('hunter2')
  })

  it('exits with 2 if a service does not respond, and still reports the others', async () => {
    const programs = fakeCommands({ cache: { ok: false, detail: 'cannot connect to 127.0.0.1:6379' } })
    const host = fakeHost({ 'bridge.ini': minimalIni })

    expect(await run(['check', '--config', 'bridge.ini'], host, programs)).toBe(2)
    expect(programs.probed).toBe(1)
    expect(host.err.split('\n').slice(0, 2)).toEqual([
      'token server: OK',
      'cache: cannot connect to 127.0.0.1:6379',
    ])
  })

  it('makes no connection with --offline', async () => {
    const programs = fakeCommands({ 'token server': { ok: false, detail: 'no response' } })
    const host = fakeHost({ f: minimalIni })

    expect(await run(['check', '--offline', '--config', 'f'], host, programs)).toBe(0)
    expect(programs.probed).toBe(0)
    expect(host.err).toBe('the settings are valid\n')
  })

  it('prints one object with --json, whether the settings are valid or not', async () => {
    const programs = fakeCommands({ cache: { ok: false, detail: 'no response' } })
    const good = fakeHost({ f: minimalIni })
    const bad = fakeHost({ f: `${minimalIni}service.readonly = maybe\n` })

    expect(await run(['check', '--json', '--config', 'f'], good, programs)).toBe(2)
    expect(await run(['check', '--json', '--config', 'f'], bad, programs)).toBe(2)
    const report = JSON.parse(good.out)
    expect(report).toMatchObject({
      ok: false,
      checks: {
        'token server': { ok: true, detail: 'OK' },
        cache: { ok: false, detail: 'no response' },
        address: { ok: true },
      },
    })
    expect(report.settings).toContainEqual({
      name: 'cache_hmac_secret',
      value: '********',
      source: 'f:2',
    })
    expect(JSON.parse(bad.out)).toMatchObject({
      ok: false,
      messages: [expect.stringContaining('service.readonly'), expect.any(String)],
    })
    expect([good.err, bad.err]).toEqual(['', ''])
    expect(good.out).not.toContain(secret)
  })

  it('says how to make a private file readable for the service', async () => {
    const readFile = () => {
      throw Object.assign(new Error('denied'), { code: 'EACCES' })
    }
    const host = fakeHost({}, {}, { readFile })

    expect(await run(['check', '--config', '/etc/f.ini'], host, fakeCommands())).toBe(2)
    expect(host.err).toBe(
      '/etc/f.ini: cannot be read (permission denied): make it readable for the service: ' +
        'chgrp sync-bridge /etc/f.ini && chmod 640 /etc/f.ini\n',
    )
  })
})
