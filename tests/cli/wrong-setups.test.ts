import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { run } from '../../src/cli/run.ts'
import { accountOf, linesOf } from '../support/records.ts'
import { makeCertificates } from '../support/certificates.ts'
import { temporaryFolder } from '../support/processes.ts'
import { startAnswering } from '../support/answering-server.ts'
import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { fakeHost } from './fake-host.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

let sandbox: Sandbox
let user: SandboxUser
beforeAll(async () => {
  sandbox = await startSandbox()
  user = sandbox.addUser('alice')
})
afterAll(() => sandbox.stop())

/** Runs `ls` over its own bridge with this token server; returns what it wrote, with its exit code. */
async function list(tokenServerUrl: string, ...options: string[]) {
  const values = { ...accountOf(user), TOKEN_SERVER_URL: tokenServerUrl }
  const host = fakeHost({ '/a.env': linesOf(values) })
  const code = await run(['ls', '--account', '/a.env', ...options], host)
  return { code, said: host.err.replaceAll(/127\.0\.0\.1:\d+|localhost:\d+/g, 'HOST'), out: host.out }
}

/** The credentials of a token server whose storage is elsewhere. */
const credentials = (endpoint: string) =>
  Response.json({
    id: 'a',
    key: 'b',
    uid: 1,
    duration: 300,
    hashalg: 'sha256',
    api_endpoint: `${endpoint}/1.5/1`,
  })

const page = { headers: { 'Content-Type': 'text/html' } }
const checkIt = 'check TOKEN_SERVER_URL in /a.env'

// Servers, because each cause is recognized by what the runtime reports about a connection.
describe('a command over its own bridge names the cause, and asks once:', () => {
  it.each([
    [
      'the token server refuses connections',
      'http://127.0.0.1:1',
      `Cannot reach the token server "HOST": ECONNREFUSED: nothing listens there; ${checkIt}`,
    ],
    [
      'its name is unknown',
      'https://sync.invalid',
      `Cannot reach the token server "sync.invalid": ENOTFOUND: the host is unknown; ${checkIt}`,
    ],
  ])('%s', async (_, url, message) => {
    const { code, said } = await list(url)

    expect(said).toBe(`sync-bridge: ${message}\n`)
    expect(code).toBe(1)
  })

  it.each([
    [
      'a web page',
      () => new Response('<html>', page),
      `Cannot get credentials: the token server "HOST" returned 200: ${checkIt}`,
    ],
    [
      'another server',
      () => new Response('Not found', { status: 404, ...page }),
      `Cannot get credentials: the token server "HOST" returned 404: ${checkIt}`,
    ],
    [
      'a rejected token',
      () => Response.json({ status: 'invalid-credentials', errors: [] }, { status: 401 }),
      'The token server cannot verify this assertion or access token\nGet new values with "sync-bridge connect".',
    ],
    [
      'a storage that is down',
      () => credentials('http://127.0.0.1:1'),
      'Cannot reach the storage "HOST": ECONNREFUSED: nothing listens there; check the address that the token server names',
    ],
  ])('%s', async (_, answer, message) => {
    using server = startAnswering(answer)

    const { code, said } = await list(server.url.origin)

    expect(said).toBe(`sync-bridge: ${message}\n`)
    expect(code).toBe(1)
    expect(server.asked).toEqual(['/1.0/sync/1.5'])
  })

  it.skipIf(Bun.which('openssl') === null)('an unknown certificate authority', async () => {
    using folder = temporaryFolder()
    const { certificatePath, keyPath } = await makeCertificates(folder.path)
    const tls = { cert: readFileSync(certificatePath), key: readFileSync(keyPath) }
    const server = Bun.serve({ hostname: '127.0.0.1', port: 0, tls, fetch: () => new Response() })

    const { code, said } = await list(server.url.origin)

    await server.stop(true)
    expect(said).toStartWith('sync-bridge: Cannot reach the token server "HOST": UNABLE_TO_')
    expect(said).toContain('its certificate is from an unknown authority; trust that with --ca FILE')
    expect(code).toBe(1)
  })
})

describe('a command over its own bridge', () => {
  it('asks again what was only busy', async () => {
    const busy = new Response('', { status: 503, headers: { 'Retry-After': '1' } })
    using server = startAnswering(() => (server.asked.length === 1 ? busy : new Response('<html>', page)))

    const { code, said } = await list(server.url.origin)

    expect(said).toMatch(
      /^.*"HOST" returned 503.*: retrying in \d s\nsync-bridge: .*"HOST" returned 200: .*\n$/,
    )
    expect([code, server.asked.length]).toEqual([1, 2])
  })

  it('shows each request with --verbose, without secrets', async () => {
    const { code, said } = await list(sandbox.tokenServerUrl, '-v')

    expect(code).toBe(0)
    expect(said).toMatch(/^ {2}token server: GET 200, \d+ ms$/m)
    expect(said).toMatch(/^ {2}storage: GET 200, \d+ ms$/m)
    expect(said).toMatch(/^GET \/collections 200, \d+ ms$/m)
    expect(said).not.toContain(user.clientState)
  })
})
