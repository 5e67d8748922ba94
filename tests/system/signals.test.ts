import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { eventually } from '../support/eventually.ts'
import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { makeCertificates, type Certificates } from '../support/certificates.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { temporaryFolder, type TemporaryFolder } from '../support/processes.ts'
import { endAll, iniText, makeFolder, serve } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

let sandbox: Sandbox
let proxy: FaultProxy
let user: SandboxUser
let headers: Record<string, string>

beforeAll(async () => {
  sandbox = await startSandbox()
  proxy = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = proxy.url
  user = sandbox.addUser('somebody')
  sandbox.seed(user, 'tabs', 5)
  headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }
})

afterAll(async () => {
  await proxy.stop()
  await sandbox.stop()
})

const settings = () => ({
  token_server_url: sandbox.tokenServerUrl,
  record_tabs_put_enabled: 'true',
  record_forms_put_enabled: 'true',
})

afterAll(endAll)

// The executable, because a signal reaches only a process.
describe('SIGTERM', () => {
  it('finishes reads and batches in flight, accepts nothing new, and exits 0', async () => {
    const bridge = await serve(settings())
    proxy.plan(({ method, query }) =>
      method === 'GET' && query.get('sort') === 'newest' && !query.has('ids') ? { kind: 'hang' } : null,
    )
    const known = proxy.requests.length
    const reads = Array.from({ length: 8 }, () => list(bridge.url))
    await arrived(known, ({ method }) => method === 'GET', 8)
    proxy.plan(({ method, query }) =>
      method === 'POST' && (!query.has('batch') || query.has('commit')) ? { kind: 'hang' } : null,
    )
    const written = batch(bridge.url, 'drained')
    await arrived(known, ({ method, query }) => method === 'POST' && !query.has('batch'), 1)

    bridge.signal('SIGTERM')
    await bridge.line(/"event":"stopping"/)
    await eventually('new connections are refused', () =>
      list(bridge.url, { Connection: 'close' }).then(
        () => false,
        () => true,
      ),
    )
    proxy.plan(() => null)
    proxy.release()
    const statuses: number[] = await Promise.all([...reads, written])

    expect(statuses).toEqual(Array.from({ length: 9 }, () => 200))
    expect(await bridge.exited).toBe(0)
    expect(payloads('tabs')).toContain('drained')
    expect(payloads('forms')).toContain('drained')
    expect(bridge.lines.at(-1)).toContain('"event":"stopped"')
    expect(bridge.errors()).toBe('')
  })
})

describe('SIGHUP', () => {
  it("applies a certificate bundle, keeps it if the new one is invalid, and names what it can't apply", async () => {
    using folder = temporaryFolder()
    const [first, second] = await Promise.all(['first', 'second'].map((name) => makeAuthority(folder, name)))
    await using ahead = serveTls(sandbox.tokenServerUrl, second!)
    await using storage = serveTls(sandbox.storageUrl, second!)
    sandbox.switches.nodeUrl = storage.url.origin
    const bundle = folder.file('bundle.pem')
    copyFileSync(first!.caPath, bundle)
    const own = {
      token_server_url: ahead.url.origin,
      certificate_ca_bundle: bundle,
      retry_after_seconds: '7',
    }
    const cwd = makeFolder()
    const bridge = await serve(own, { cwd })
    const follow = async (text: RegExp) => {
      const from = bridge.lines.length
      bridge.signal('SIGHUP')
      await bridge.line(text)
      return bridge.lines.slice(from).map((line) => JSON.parse(line) as Record<string, unknown>)
    }

    const untrusted = await list(bridge.url)
    copyFileSync(second!.caPath, bundle)
    const unread = await list(bridge.url)
    const followed = await follow(/"event":"settings reloaded"/)
    const trusted = await list(bridge.url)
    writeFileSync(bundle, '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')
    const kept = await follow(/"event":"settings kept"/)
    const stillTrusted = await list(bridge.url)
    copyFileSync(second!.caPath, bundle)
    writeFileSync(join(cwd, 'bridge.ini'), iniText({ ...own, port: '1', workers: '3', backoff: '9' }))
    const named = await follow(/"event":"settings need a restart"/)
    const code = await bridge.stop()
    sandbox.switches.nodeUrl = proxy.url

    expect([untrusted, unread, trusted, stillTrusted]).toEqual([503, 503, 200, 200])
    const told = followed.map(({ event }) => String(event)).filter((event) => event.startsWith('settings'))
    expect(told).toEqual(['settings reloaded'])
    expect(kept).toContainEqual(
      expect.objectContaining({
        event: 'settings refused',
        problem: expect.stringContaining(`certificate 1 of 1 in the file "${bundle}" cannot be read`),
      }),
    )
    expect(named).toContainEqual(expect.objectContaining({ level: 'warning', settings: 'port, workers' }))
    expect(named).toContainEqual(
      expect.objectContaining({
        event: 'settings warning',
        problem: expect.stringMatching(/^bridge\.ini:\d+: service\.cache_backend: /),
      }),
    )
    expect(code).toBe(0)
  })
})

function makeAuthority(folder: TemporaryFolder, name: string): Promise<Certificates> {
  mkdirSync(folder.file(name))
  return makeCertificates(folder.file(name))
}

/** The same server over TLS. */
function serveTls(target: string, { certificatePath, keyPath }: Certificates) {
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: Bun.file(certificatePath), key: Bun.file(keyPath) },
    async fetch({ method, url, headers, body }) {
      const { pathname, search, host } = new URL(url)
      const forwarded = new Headers(headers)
      forwarded.set('Host', host)
      forwarded.set('X-Forwarded-Proto', 'https')
      return fetch(target + pathname + search, { method, headers: forwarded, body })
    },
  })
}

async function list(url: string, more: Record<string, string> = {}): Promise<number> {
  const response = await fetch(`${url}/v1/buckets/${user.clientState}/collections/tabs/records`, {
    headers: { ...headers, ...more },
  })
  await response.text()
  return response.status
}

async function batch(url: string, payload: string): Promise<number> {
  const requests = ['tabs', 'forms'].map((collection) => ({
    method: 'PUT',
    path: `/buckets/${user.clientState}/collections/${collection}/records/written`,
    body: { data: { payload } },
  }))
  const response = await fetch(`${url}/v1/batch`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ requests }),
  })
  await response.text()
  return response.status
}

function payloads(collection: string): string[] {
  return sandbox.records(user, collection).map(({ payload }) => payload)
}

/** Waits until that many further requests have reached the storage. */
async function arrived(
  known: number,
  meets: (request: FaultProxy['requests'][number]) => boolean,
  count: number,
): Promise<void> {
  const isEnough = () => proxy.requests.slice(known).filter(meets).length >= count
  await proxy.waitFor(({ index }) => index >= known && isEnough())
}
