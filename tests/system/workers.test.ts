import { describe, expect, it } from 'bun:test'
import { copyFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'

import {
  executablePath,
  makeFolder,
  startExecutable,
  type Executable,
  type ExecutableOptions,
} from '../support/executable.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { childrenOf } from '../support/processes.ts'
import { askSlowly, startHeldTokenServer } from './held-token-server.ts'
import { listenForNotifications } from './notify-socket.ts'

function startWorkers(options: ExecutableOptions = {}): Promise<Executable> {
  const settings = { workers: '2', shutdown_grace_seconds: '10', ...options.settings }
  return startExecutable({ ...options, settings })
}

const workersOf = ({ pid }: Executable) => childrenOf(pid)

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const lbheartbeat = async (url: string) => (await fetch(`${url}/v1/__lbheartbeat__`)).status

async function metricsOf(url: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${url}/v1/__metrics__`)).text()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  )
}

const answered = 'sync_bridge_requests_total{route="lbheartbeat",method="GET",status="200"}'

// The executable, because workers are processes.
describe('several workers', () => {
  it('listen at one address, which is logged once, and count as one', async () => {
    await using executable = await startWorkers({ settings: { workers: '3' } })

    // A new connection for each, so that they are spread.
    for (let count = 0; count < 30; count++) {
      await fetch(`${executable.url}/v1/__lbheartbeat__`, { headers: { Connection: 'close' } })
    }

    expect(workersOf(executable).length).toBe(3)
    expect(executable.events('listening').length).toBe(1)
    // A slow worker is left out.
    await eventually('all report their metrics', async () => {
      const metrics = await metricsOf(executable.url)
      return metrics[answered] === 30 && metrics.sync_bridge_processes === 3
    })
    expect(await executable.stop()).toBe(0)
  })

  it('are replaced whenever they die, keep their counts, and the others continue', async () => {
    await using executable = await startWorkers({ settings: { worker_timeout_seconds: '60' } })
    const counted = async () => (await metricsOf(executable.url))[answered]
    for (let count = 0; count < 5; count++) await lbheartbeat(executable.url)
    await eventually('all is counted', async () => (await counted()) === 5)

    const [other] = workersOf(executable)
    const statuses: number[] = []
    const otherWorker = () => workersOf(executable).find((pid) => pid !== other)
    const signals = ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const
    for (const signal of signals) {
      const dying = otherWorker()!
      process.kill(dying, signal)
      await eventually('the worker has ended', () => !isAlive(dying))
      statuses.push(await lbheartbeat(executable.url))
      await eventually('it was replaced', () => ![dying, undefined].includes(otherWorker()))
    }
    await eventually('each loss is logged', () => executable.events('worker lost').length >= 3)
    const lost = executable.events('worker lost')

    expect(lost.map(({ code }) => code)).toEqual([...signals])
    await eventually('both count', async () => (await metricsOf(executable.url)).sync_bridge_processes === 2)
    expect(statuses).toEqual([200, 200, 200])
    expect(workersOf(executable)).toContain(other!)
    expect(await counted()).toBe(8)
  })

  it('are replaced as soon as the executable is back, and the log says that it is missing', async () => {
    const cwd = makeFolder()
    const path = join(cwd, 'sync-bridge')
    copyFileSync(executablePath, path)
    await using executable = await startWorkers({ cwd, executable: path })

    renameSync(path, `${path}.away`)
    process.kill(workersOf(executable)[0]!, 'SIGKILL')
    await executable.line(/"event":"worker lost","code":null,"reason":"cannot start it \(ENOENT\)"/)
    renameSync(`${path}.away`, path)

    await eventually('it was replaced', () => workersOf(executable).length === 2)
    expect(executable.events('worker lost')[0]).toMatchObject({ code: 'SIGKILL' })
  })

  it('are replaced when they hang, which is logged', async () => {
    await using executable = await startWorkers({ settings: { worker_timeout_seconds: '6' } })
    const [silent, well] = workersOf(executable)

    process.kill(silent!, 'SIGSTOP')
    await eventually('it is killed', () => !isAlive(silent!))
    await eventually('there is another one', () => workersOf(executable).length === 2)

    expect(workersOf(executable)).toContain(well!)
    const hung = executable.events('worker hangs')
    expect(hung).toMatchObject([{ pid: silent, silentSeconds: 6 }])
    await eventually('both count', async () => (await metricsOf(executable.url)).sync_bridge_processes === 2)
  })

  it('are all kept if the supervisor itself hung, which the service manager notices', async () => {
    const address = `@sync-bridge-${crypto.randomUUID()}`
    const manager = listenForNotifications(address)
    await using executable = await startWorkers({
      settings: { worker_timeout_seconds: '5' },
      environment: { NOTIFY_SOCKET: address, WATCHDOG_USEC: '2000000' },
    })
    const workers = workersOf(executable)

    executable.signal('SIGSTOP')
    // Longer than a worker may be unresponsive.
    await Bun.sleep(6000)
    executable.signal('SIGCONT')
    const known = manager.messages.length
    await eventually('it lives', () => manager.messages.lastIndexOf('WATCHDOG=1') >= known)
    manager.close()

    expect(workersOf(executable)).toEqual(workers)
    expect(executable.events('worker hangs')).toEqual([])
  })

  it('that are unresponsive are left out of the metrics', async () => {
    await using executable = await startWorkers({ settings: { worker_timeout_seconds: '60' } })
    const [silent] = workersOf(executable)

    process.kill(silent!, 'SIGSTOP')

    // The system also assigns connections to the unresponsive worker, so several are tried at once.
    const answers = Array.from({ length: 20 }, () => metricsOf(executable.url))
    expect((await Promise.any(answers)).sync_bridge_processes).toBe(1)
    process.kill(silent!, 'SIGCONT')
    await Promise.all(answers)
  })

  it('count once if one ends while the metrics wait for another', async () => {
    const address = `127.0.0.1:${freePort()}`
    const settings = { worker_timeout_seconds: '60', metrics_listen: address }
    await using executable = await startWorkers({ settings })
    const counted = async () => (await metricsOf(`http://${address}`))[answered]
    for (let count = 0; count < 30; count++) {
      await fetch(`${executable.url}/v1/__lbheartbeat__`, { headers: { Connection: 'close' } })
    }
    await eventually('all is counted', async () => (await counted()) === 30)
    const [silent, dying] = workersOf(executable)

    process.kill(silent!, 'SIGSTOP')
    const meanwhile = counted()
    await Bun.sleep(200)
    process.kill(dying!, 'SIGKILL')

    expect(await meanwhile).toBe(30)
    process.kill(silent!, 'SIGCONT')
  })

  it('finish requests in flight after SIGTERM, even one sent to each of them, and then all exit 0', async () => {
    await using held = await startHeldTokenServer()
    await using executable = await startWorkers({ tokenServerUrl: held.url })
    const slow = [askSlowly(executable.url), askSlowly(executable.url), askSlowly(executable.url)]
    await held.waiting(3)

    for (const pid of workersOf(executable)) process.kill(pid, 'SIGTERM')
    executable.signal('SIGTERM')
    await executable.line(/"event":"stopping"/)
    for (const pid of workersOf(executable)) process.kill(pid, 'SIGINT')
    held.release()

    expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await executable.exited).toBe(0)
  })

  it('end when their supervisor is killed', async () => {
    await using executable = await startWorkers()
    const workers = workersOf(executable)

    executable.signal('SIGKILL')

    await eventually('no worker is left', () => !workers.some(isAlive))
  })

  it('all apply reloaded settings, and are replaced with those in force, whatever the file says by then', async () => {
    await using executable = await startWorkers()
    const path = `/proc/${executable.pid}/cwd/bridge.ini`
    const text = await Bun.file(path).text()
    const backoffs = async () => {
      const answers = Array.from({ length: 12 }, () =>
        fetch(`${executable.url}/v1/`, { headers: { Connection: 'close' } }),
      )
      return new Set((await Promise.all(answers)).map(({ headers }) => headers.get('backoff')))
    }
    await Bun.write(path, `${text}backoff = 77\nbatch_max_requests = 7\n`)
    executable.signal('SIGHUP')
    await eventually('both apply it', async () => Bun.deepEquals(await backoffs(), new Set(['77'])))
    await executable.line(/"event":"settings need a restart"/)
    expect(executable.events('settings reloaded')).toMatchObject([{ changed: 'backoff' }])
    expect(executable.events('settings need a restart')).toMatchObject([{ settings: 'batch_max_requests' }])

    for (const edited of [`${text}backoff = 88\n`, `${text}backoff = never\n`]) {
      await Bun.write(path, edited)
      const [dying, other] = workersOf(executable)
      process.kill(dying!, 'SIGKILL')
      const processes = async () => (await metricsOf(executable.url)).sync_bridge_processes
      await eventually('it was replaced', () =>
        workersOf(executable).some((pid) => ![dying, other].includes(pid)),
      )
      await eventually('both count', async () => (await processes()) === 2)

      expect(await backoffs()).toEqual(new Set(['77']))
    }

    expect(executable.events('worker lost').map(({ code }) => code)).toEqual(['SIGKILL', 'SIGKILL'])
  })

  it('are not started if the port is in use, which is logged once', async () => {
    await using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') })

    const failure = await startWorkers({ settings: { port: String(taken.port) } }).catch(String)

    expect(failure).toContain('exit code 1')
    expect(String(failure).split('cannot listen on').length).toBe(2)
  })
})
