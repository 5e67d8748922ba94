import { describe, expect, it } from 'bun:test'
import { copyFileSync, existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'

import { createNotifier } from '../../src/cli/service/linux.ts'
import {
  executablePath,
  iniText,
  listeningUrl,
  makeFolder,
  run,
  start,
  startExecutable,
  type Executable,
} from '../support/executable.ts'
import { eventually } from '../support/eventually.ts'
import { hasNoIpv6 } from '../support/machine.ts'
import { childrenOf } from '../support/processes.ts'
import { freePort } from '../support/free-port.ts'
import { askSlowly, startHeldTokenServer } from './held-token-server.ts'
import { listenForNotifications } from './notify-socket.ts'

async function rewriteSettings({ pid }: Executable, rewrite: (text: string) => string): Promise<void> {
  const path = `/proc/${pid}/cwd/bridge.ini`
  await Bun.write(path, rewrite(await Bun.file(path).text()))
}

// The executable, because signals, exit codes and the service manager belong to a process.
describe('SIGTERM', () => {
  it('exits with 0 after the grace period, whatever is in flight', async () => {
    await using held = await startHeldTokenServer()
    await using bridge = await startExecutable({
      tokenServerUrl: held.url,
      settings: { shutdown_grace_seconds: '0.2' },
    })
    const slow = askSlowly(bridge.url).catch(() => 'cut')
    await held.waiting(1)

    expect(await bridge.stop()).toBe(0)
    expect(await slow).toBe('cut')
  })

  it.each([
    ['SIGTERM', '1', 143],
    ['SIGINT', '1', 130],
    ['SIGTERM', '2', 143],
  ] as const)('stops at once when %s follows, with workers = %s', async (second, workers, code) => {
    await using held = await startHeldTokenServer()
    await using bridge = await startExecutable({ tokenServerUrl: held.url, settings: { workers } })
    const slow = askSlowly(bridge.url).catch(() => 'cut')
    await held.waiting(1)
    const others = childrenOf(bridge.pid)

    bridge.signal('SIGTERM')
    await bridge.line(/"event":"stopping"/)
    bridge.signal(second)

    // After the grace period, or once the request was answered, it would be 0.
    expect(await bridge.exited).toBe(code)
    expect(await slow).toBe('cut')
    await eventually('no worker is left', () => !others.some((pid) => existsSync(`/proc/${pid}`)))
  })
})

describe('shutdown_delay_seconds', () => {
  it('keeps serving for that time and asks clients to close their connections', async () => {
    await using bridge = await startExecutable({ settings: { shutdown_delay_seconds: '60' } })
    const before = await fetch(`${bridge.url}/v1/`)

    bridge.signal('SIGTERM')
    await bridge.line(/"event":"stopping"/)
    const after = await fetch(`${bridge.url}/v1/`, { headers: { Connection: 'close' } })

    expect(before.headers.get('connection')).not.toBe('close')
    expect([after.status, after.headers.get('connection')]).toEqual([200, 'close'])
    bridge.signal('SIGTERM')
    expect(await bridge.exited).toBe(143)
  })
})

describe('reuse_port', () => {
  // exchange-load.test.ts tests what the kernel does with connections that wait when the old process ends.
  it('lets another instance take over the address while the old one still serves', async () => {
    const settings = { reuse_port: 'true' }
    await using old = await startExecutable({ settings })
    const statuses: number[] = []
    const headers = { Connection: 'close' }
    const ask = async () => void statuses.push((await fetch(`${old.url}/v1/`, { headers })).status)
    const over = new AbortController()
    const asking = (async () => {
      while (!over.signal.aborted) await ask()
    })()

    await using young = await startExecutable({ settings: { ...settings, port: new URL(old.url).port } })
    over.abort()
    await asking
    expect(await old.stop()).toBe(0)
    for (let count = 0; count < 20; count++) await ask()

    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(young.url).toBe(old.url)
  })
})

describe('SIGHUP', () => {
  const put = (bridge: Executable) =>
    fetch(`${bridge.url}/v1/buckets/b/collections/tabs/records/a`, { method: 'PUT', body: '{}' })

  it('applies new settings: writes, pauses, the end of service, origins and the log level', async () => {
    const ownPages = { http_scheme: 'https', http_host: 'own.example:443' }
    await using bridge = await startExecutable({ settings: ownPages })
    expect((await put(bridge)).status).toBe(405)

    await rewriteSettings(
      bridge,
      (text) =>
        // The host needs a restart, so the pages keep their origin.
        `${text.replace('own.example', 'next.example')}record_tabs_put_enabled = true\nbackoff = 77\nretry_after_seconds = 99\neos = 2099-01-01\n` +
        'cors_origins = https://app.example\nlogging_level = debug\n',
    )
    bridge.signal('SIGHUP')
    await bridge.line(/"event":"settings reloaded"/)

    expect((await put(bridge)).status).toBe(401)
    const { headers } = await fetch(`${bridge.url}/v1/`)
    expect([headers.get('backoff'), headers.get('alert')]).toEqual(['77', '{"code":"soft-eol"}'])
    const askFrom = (origin: string) => fetch(`${bridge.url}/v1/`, { headers: { Origin: origin } })
    expect((await askFrom('https://other.example')).status).toBe(400)
    const own = await askFrom('https://own.example')
    expect(own.headers.get('access-control-allow-origin')).toBe('https://own.example')
  })
})

describe('a second instance', () => {
  it('is rejected without reuse_port', async () => {
    await using first = await startExecutable()
    const port = new URL(first.url).port
    const cwd = makeFolder({ 'bridge.ini': iniText({ token_server_url: 'http://127.0.0.1:1', port }) })

    const { exitCode, stderr } = await run(['serve', '--config', 'bridge.ini'], { cwd })

    expect(stderr).toContain('the port is in use')
    expect(exitCode).toBe(1)
  })
})

describe('a new executable', () => {
  it('is not started by a reload, which says so', async () => {
    const folder = makeFolder({ 'bridge.ini': iniText({ token_server_url: 'http://127.0.0.1:1' }) })
    const executable = join(folder, 'sync-bridge')
    copyFileSync(executablePath, executable)
    await using bridge = start(['serve', '--config', 'bridge.ini'], { cwd: folder, executable })
    await listeningUrl(bridge)

    copyFileSync(executablePath, `${executable}.new`)
    renameSync(`${executable}.new`, executable)
    bridge.signal('SIGHUP')

    await bridge.line(/"level":"warning".*"event":"the new executable needs a restart"/)
    await bridge.line(/"event":"settings reloaded"/)
  })
})

describe('the event listening', () => {
  it('names the enabled pages', async () => {
    await using usual = await startExecutable()
    const metrics = `127.0.0.1:${freePort()}`
    const settings = { explorer_enabled: 'true', docs_enabled: 'false', metrics_listen: metrics }
    await using other = await startExecutable({
      settings: { ...settings, http_api_version: '2.0', workers: '2' },
    })
    await using known = await startExecutable({
      settings: { http_scheme: 'https', http_host: 'sync.example.org' },
    })
    await using silent = await startExecutable({
      settings: { docs_enabled: 'false', metrics_enabled: 'false' },
    })

    const [first, second, third, last] = [usual, other, known, silent].map((bridge) => {
      const told = Object.entries(bridge.events('listening')[0]!)
      return Object.fromEntries(told.filter(([name]) => !['time', 'level', 'event'].includes(name)))
    })

    expect(first).toEqual({
      url: usual.url,
      docs: `${usual.url}/v1/docs`,
      guides: `${usual.url}/v1/docs/guides`,
      metrics: `${usual.url}/v1/__metrics__`,
    })
    expect(second).toEqual({
      url: other.url,
      workers: 2,
      explorer: `${other.url}/v2/explore`,
      metrics: `http://${metrics}/__metrics__`,
    })
    expect(third).toMatchObject({ url: known.url, docs: 'https://sync.example.org/v1/docs' })
    expect(last).toEqual({ url: silent.url })
    const pages = [first!.docs, first!.guides, first!.metrics, second!.explorer, second!.metrics]
    // The executable contains them.
    pages.push(
      ...['swagger-ui.css', 'swagger-ui-bundle.js', 'page.js'].map((file) => `${usual.url}/v1/docs/${file}`),
    )
    for (const page of pages) expect((await fetch(String(page))).status).toBe(200)
  })

  it.skipIf(hasNoIpv6).each(['1', '2'])(
    'names a usable URL, also for IPv6, with workers = %s',
    async (workers) => {
      await using bridge = await startExecutable({ settings: { host: '::1', workers } })

      expect(bridge.url).toStartWith('http://[::1]:')
      expect((await fetch(`${bridge.url}/v1/`)).status).toBe(200)
    },
  )
})

describe('NOTIFY_SOCKET', () => {
  it.each(['1', '2'])(
    'gets notifications of readiness, reload, watchdog and stop, with workers = %s',
    async (workers) => {
      const address = `@sync-bridge-${crypto.randomUUID()}`
      const manager = listenForNotifications(address)
      await using bridge = await startExecutable({
        settings: { workers },
        // Rarely, because the kernel keeps ten messages for a slow test.
        environment: { NOTIFY_SOCKET: address, WATCHDOG_USEC: '2000000' },
      })
      await eventually('it is ready', () => manager.messages.includes('READY=1'))

      bridge.signal('SIGHUP')
      await bridge.line(/"event":"settings reloaded"/)
      await eventually('it lives', () => manager.messages.includes('WATCHDOG=1'))
      await bridge.stop()
      await eventually('it stops', () => manager.messages.includes('STOPPING=1'))
      manager.close()

      const states = manager.messages.filter((message) => message !== 'WATCHDOG=1')
      expect(states).toEqual(['READY=1', 'RELOADING=1', 'READY=1', 'STOPPING=1'])
    },
  )

  it('may be missing, or not a socket', async () => {
    const addresses = ['@nobody-listens-there', '/nowhere/notify', 'nonsense', `/${'a'.repeat(200)}`]
    await using bridge = await startExecutable({ environment: { NOTIFY_SOCKET: addresses[0]! } })

    const failures = addresses.map((address) => {
      let failure = ''
      createNotifier({ NOTIFY_SOCKET: address }, (reason) => (failure = reason)).ready()
      return failure
    })

    expect(new Set(failures)).toEqual(new Set(['the service manager does not accept messages']))
    expect((await fetch(`${bridge.url}/v1/`)).status).toBe(200)
    expect([await bridge.stop(), bridge.errors()]).toEqual([0, expect.not.stringContaining('rror')])
  })
})
