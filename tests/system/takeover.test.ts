import { afterAll, afterEach, describe, expect, it } from 'bun:test'
import { chmodSync, copyFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { eventually } from '../support/eventually.ts'
import { hasNoNamespaces } from '../support/machine.ts'
import { childrenOf } from '../support/processes.ts'
import { listenForNotifications } from './notify-socket.ts'
import {
  endAll,
  executablePath,
  iniText,
  listeningUrl,
  makeFolder,
  start,
  type Running,
} from '../support/executable.ts'

interface Service extends Pick<Running, 'events'> {
  folder: string
  url: string
  /** The first process. All its successors print to the same lines. */
  first: Running
  /** Waits for the next event of that name. */
  next(name: string): Promise<Record<string, unknown>>
  /** Stops the current process of the service, and waits for its end. */
  stop(): Promise<void>
}

const services: Service[] = []

afterEach(async () => {
  for (const service of services.splice(0)) await service.stop()
})

afterAll(endAll)

/** Starts a copy of the executable, which a test may replace. */
async function startService(
  settings: Record<string, string> = {},
  environment: Record<string, string> = {},
): Promise<Service> {
  const folder = makeFolder()
  const executable = join(folder, 'sync-bridge')
  installExecutable(folder)
  writeSettings(folder, settings)
  const first = start(['serve', '--config', 'bridge.ini'], { cwd: folder, environment, executable })
  const { events } = first
  const service: Service = {
    folder,
    url: await listeningUrl(first),
    first,
    events,
    async next(name) {
      const known = events(name).length
      await eventually(`it logs "${name}"`, () => events(name).length > known)
      return events(name).at(-1)!
    },
    async stop() {
      const pid = Number(events('taken over').at(-1)?.pid ?? first.pid)
      process.kill(pid, 'SIGTERM')
      await first.exited
    },
  }
  services.push(service)
  return service
}

function writeSettings(folder: string, settings: Record<string, string>): void {
  const text = iniText({ token_server_url: 'http://127.0.0.1:1', ...settings })
  writeFileSync(join(folder, 'bridge.ini'), text, { mode: 0o600 })
}

/** Replaces the executable, like a package manager. */
function installExecutable(folder: string, contents?: string): void {
  const fresh = join(folder, 'sync-bridge.new')
  if (contents === undefined) copyFileSync(executablePath, fresh)
  else writeFileSync(fresh, contents)
  chmodSync(fresh, 0o755)
  renameSync(fresh, join(folder, 'sync-bridge'))
}

const backoffOf = async (url: string) =>
  (await fetch(`${url}/v1/`, { headers: { Connection: 'close' } })).headers.get('backoff')

describe('SIGUSR2', () => {
  it.each(['1', '2'])(
    'lets a new process take over the address, with all settings, at workers = %s',
    async (workers) => {
      const service = await startService({ workers })
      writeSettings(service.folder, { workers, backoff: '77', batch_max_requests: '7' })

      service.first.signal('SIGUSR2')
      const { pid } = await service.next('taken over')
      await eventually('the old one has ended', () => service.events('stopped').length === 1)

      const root = await fetch(`${service.url}/v1/`)
      expect(pid).not.toBe(service.first.pid)
      expect(root.headers.get('backoff')).toBe('77')
      expect(await root.json()).toMatchObject({ settings: { batch_max_requests: 7 } })
      expect(service.events('listening').map(({ url }) => url)).toEqual([service.url, service.url])
    },
  )

  it('is a reload of the new process, if sent to the old one again', async () => {
    // The old process keeps serving, however long the test takes to send another request; the new one does not.
    const service = await startService({ shutdown_delay_seconds: '300' })
    writeSettings(service.folder, {})
    service.first.signal('SIGUSR2')
    await service.next('taken over')

    writeSettings(service.folder, { backoff: '8' })
    service.first.signal('SIGUSR2')
    await service.next('settings reloaded')
    service.first.signal('SIGKILL')

    await eventually('it has followed', async () => (await backoffOf(service.url)) === '8')
    expect(service.events('starting a successor')).toHaveLength(1)
  })

  it("keeps the old process if the settings are invalid, or the new one can't start", async () => {
    const service = await startService({ backoff: '5' })

    writeSettings(service.folder, { backoff: 'much' })
    service.first.signal('SIGUSR2')
    await service.next('settings kept')
    writeSettings(service.folder, { backoff: '6' })
    installExecutable(service.folder, '#!/bin/sh\nexit 3\n')
    service.first.signal('SIGUSR2')
    const ended = await service.next('takeover failed')
    installExecutable(service.folder, 'nothing that runs')
    service.first.signal('SIGUSR2')
    const refused = await service.next('takeover failed')

    expect(ended.reason).toBe('it ended with exit code 3')
    expect(refused.reason).toMatch(/^it /)
    expect(await backoffOf(service.url)).toBe('5')
    expect(service.events('taken over')).toEqual([])
  })

  it('loses no request if the new process cannot serve the metrics', async () => {
    await using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') })
    const service = await startService()
    writeSettings(service.folder, { metrics_listen: `127.0.0.1:${taken.port}` })
    const outcomes = new Set<unknown>()
    const over = new AbortController()
    const clients = Array.from({ length: 12 }, async () => {
      while (!over.signal.aborted)
        outcomes.add(await backoffOf(service.url).catch((error: { code?: unknown }) => error.code))
    })

    for (let trial = 0; trial < 5; trial++) {
      service.first.signal('SIGUSR2')
      await service.next('takeover failed')
    }
    over.abort()
    await Promise.all(clients)

    expect(outcomes).toEqual(new Set([null]))
  })
})

describe('the first process of a container', () => {
  const inside = ['--map-root-user', '--pid', '--fork', '--kill-child']

  it.skipIf(hasNoNamespaces)('is not replaced, because the container would end with it', async () => {
    const cwd = makeFolder({ 'bridge.ini': iniText({ token_server_url: 'http://127.0.0.1:1' }) })
    const command = [...inside, executablePath, 'serve', '--config', 'bridge.ini']
    const container = start(command, { cwd, executable: 'unshare' })
    await container.line(/"event":"listening"/)
    const [first] = childrenOf(container.pid)

    process.kill(first!, 'SIGUSR2')
    const [line] = await container.line(/.*"event":"takeover failed".*/)
    process.kill(first!, 'SIGTERM')

    expect(JSON.parse(line).reason).toBe('cannot replace the first process of a container')
    expect(await container.exited).toBe(0)
  })
})

describe('SIGTERM while a successor starts', () => {
  it('ends both', async () => {
    const service = await startService()
    installExecutable(service.folder, '#!/bin/sh\nexec sleep 1000\n')
    service.first.signal('SIGUSR2')
    await eventually('it starts a successor', () => service.events('starting a successor').length === 1)

    service.first.signal('SIGTERM')

    // Its output ends only when no process is left that could write to it.
    expect(await service.first.exited).toBe(0)
    services.pop()
  })
})

describe('SIGHUP while a successor starts', () => {
  const startSlowly = (then: string) => `#!/bin/sh\nuntil [ -e go ]; do sleep 0.01; done\n${then}\n`

  async function reloadMeanwhile(service: Service): Promise<void> {
    service.first.signal('SIGUSR2')
    await eventually('it starts a successor', () => service.events('starting a successor').length === 1)
    writeSettings(service.folder, { backoff: '9' })
    service.first.signal('SIGHUP')
    await service.next('a change is in progress already')
    writeFileSync(join(service.folder, 'go'), '')
  }

  it('is applied by the old process if the new one fails', async () => {
    const service = await startService()
    installExecutable(service.folder, startSlowly('exit 3'))

    await reloadMeanwhile(service)
    await eventually('it reloads', () => service.events('settings reloaded').length === 1)

    expect(service.events('takeover failed')).toHaveLength(1)
    expect(await backoffOf(service.url)).toBe('9')
  })

  it('is passed on to the new process', async () => {
    const service = await startService()
    installExecutable(service.folder, startSlowly(`exec "${executablePath}" "$@"`))

    await reloadMeanwhile(service)
    await eventually('it reloads', () => service.events('settings reloaded').length === 1)
    await eventually('the old one has ended', () => service.events('stopped').length === 1)

    expect(service.events('taken over')).toHaveLength(1)
    expect(await backoffOf(service.url)).toBe('9')
  })
})

describe('SIGHUP under a service manager', () => {
  async function startManaged(settings: Record<string, string>) {
    const address = `@sync-bridge-${crypto.randomUUID()}`
    const manager = listenForNotifications(address)
    const service = await startService(settings, { NOTIFY_SOCKET: address })
    return { service, manager, [Symbol.dispose]: () => manager.close() }
  }

  it('lets a new process take over if the executable was replaced, and names it', async () => {
    // The old process keeps serving, however long the test takes to check; the new one does not.
    using managed = await startManaged({ shutdown_delay_seconds: '300', backoff: '5' })
    const { service, manager } = managed
    writeSettings(service.folder, {})
    installExecutable(service.folder)

    service.first.signal('SIGHUP')
    const { pid } = await service.next('taken over')
    await eventually('the old one stops', () => service.events('stopping').length === 1)
    const ownChildren = childrenOf(service.first.pid)
    service.first.signal('SIGKILL')
    await eventually('the new one alone answers', async () => (await backoffOf(service.url)) === null)
    await eventually('the manager knows', () => manager.messages.length >= 3)

    // The service manager only accepts its own children as processes of the service.
    expect(ownChildren).toEqual([])
    const messages = ['READY=1', 'RELOADING=1', `MAINPID=${pid}\nREADY=1\nWATCHDOG=1`]
    expect(manager.messages.slice(0, 3)).toEqual(messages)
    expect(manager.messages).not.toContain('STOPPING=1')
  })

  it("does so for settings that a running process can't apply, and for no others", async () => {
    using managed = await startManaged({})
    const { service } = managed

    writeSettings(service.folder, { backoff: '9' })
    service.first.signal('SIGHUP')
    const reloaded = await service.next('settings reloaded')
    const successorsBefore = service.events('starting a successor').length
    writeSettings(service.folder, { backoff: '9', batch_max_requests: '3' })
    service.first.signal('SIGHUP')
    await service.next('taken over')
    await eventually('the old one has ended', () => service.events('stopped').length === 1)

    expect(reloaded.changed).toBe('backoff')
    expect(successorsBefore).toBe(0)
    expect(await backoffOf(service.url)).toBe('9')
  })
})

describe('a second instance', () => {
  it('is rejected, although processes of one service share their port', async () => {
    const service = await startService()
    const port = new URL(service.url).port
    const second = start(['serve', '--config', 'other.ini'], {
      cwd: makeFolder({ 'other.ini': iniText({ token_server_url: 'http://127.0.0.1:1', port }) }),
    })

    expect(await second.exited).toBe(1)
    expect(second.errors()).toContain('the port is in use')
  })
})
