import { describe, expect, it } from 'bun:test'

import { run } from '../../../src/cli/run.ts'
import { startAnswering } from '../../support/answering-server.ts'
import { iniText } from '../../support/executable.ts'
import { fakeHost, fakeCommands, minimalIni, secret } from '../fake-host.ts'

/** The output of `check` with a real probe of this token server. */
async function checkAt(url: string) {
  const host = fakeHost({ f: iniText({ token_server_url: url }) })
  expect(await run(['check', '--config', 'f'], host)).toBe(2)
  return host
}

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

  it('reports that the host of the token server is unknown', async () => {
    const { err } = await checkAt('http://nowhere.invalid')

    expect(err).toMatch(/Cannot reach "nowhere\.invalid": \w+: the host is unknown/)
  })

  // Servers, because the runtime reports what is wrong with a connection.
  it('says what to do if the token server speaks TLS and its address does not, or the reverse', async () => {
    using plain = startAnswering(() => new Response())
    using mute = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: { data: (socket) => void socket.terminate() },
    })

    // Answers with the alert that rejects the version of TLS.
    using choosy = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: { data: (socket) => void socket.end(Uint8Array.fromHex('15030300020246')) },
    })

    const encrypted = await checkAt(`https://${plain.url.host}`)
    const rejected = await checkAt(`https://127.0.0.1:${choosy.port}`)
    const cut = await checkAt(`http://127.0.0.1:${mute.port}`)

    const handshake =
      /token server: .*: no TLS there, or the handshake failed; check service.token_server_url/
    expect(encrypted.err).toMatch(handshake)
    expect(rejected.err).toMatch(handshake)
    expect(cut.err).toMatch(/token server: Lost the connection .*: check service.token_server_url/)
  })

  it('says what to do if another kind of server answers', async () => {
    const answers = [
      () => Response.redirect('https://sync.example/'),
      () => Response.json({ hello: 1 }),
      () => new Response('hi'),
      () => new Response('x'.repeat(70_000)),
    ]
    for (const answer of answers) {
      using other = startAnswering(answer)

      const { err } = await checkAt(other.url.origin)

      expect(err).toMatch(/^token server: .*: check service.token_server_url$/m)
    }
  })
})
