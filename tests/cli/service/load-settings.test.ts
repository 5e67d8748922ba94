import { describe, expect, it } from 'bun:test'

import { scrubEnvironment } from '../../../src/cli/service/load-settings.ts'
import { run } from '../../../src/cli/run.ts'
import { fakeHost, fakeCommands, minimalIni } from '../fake-host.ts'

describe('scrubEnvironment', () => {
  it('removes variables that would redirect or weaken connections, and leaves the rest', () => {
    const environment: Record<string, string | undefined> = {
      HTTP_PROXY: 'http://proxy',
      https_proxy: 'http://proxy',
      all_proxy: 'http://proxy',
      NO_PROXY: '*',
      NODE_TLS_REJECT_UNAUTHORIZED: '1',
      BUN_CONFIG_VERBOSE_FETCH: 'false',
      SSL_CERT_DIR: '/certs',
      PATH: '/bin',
    }

    expect(scrubEnvironment(environment)).toMatchObject({ problems: [], trusting: ['SSL_CERT_DIR'] })
    expect(environment).toEqual({ PATH: '/bin' })
  })

  it.each([
    ['NODE_TLS_REJECT_UNAUTHORIZED', '0', 'disables the verification of TLS certificates'],
    ['SSLKEYLOGFILE', '/tmp/keys', 'writes the keys of TLS connections to a file'],
    ['BUN_CONFIG_VERBOSE_FETCH', 'curl', "prints requests with users' credentials"],
    ['BUN_INSPECT', 'ws://127.0.0.1:6499/x', 'lets others run code in this process'],
    ['BUN_INSPECT_CONNECT_TO', '127.0.0.1:6499', 'lets others run code in this process'],
  ])('prevents the start of the service with %s=%s', async (name, value, reason) => {
    const programs = fakeCommands()
    const host = fakeHost({ 'bridge.ini': minimalIni }, { [name]: value })

    expect(await run(['serve', '--config', 'bridge.ini'], host, programs)).toBe(2)
    expect(programs.served).toEqual([])
    expect(host.err).toBe(`environment: ${name} ${reason}: unset it\n`)
  })

  it('lets commands without connections run in any environment', async () => {
    expect(await run(['init'], fakeHost({}, { NODE_TLS_REJECT_UNAUTHORIZED: '0' }))).toBe(0)
  })
})
