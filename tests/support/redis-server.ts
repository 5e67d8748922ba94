import { RedisClient, type Subprocess } from 'bun'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { dieWithParent } from './die-with-parent.ts'

/** A Redis on loopback that can be broken on purpose: the runtime's client decides how its connections fail. Its data is only in memory. */
export interface RedisServer {
  readonly url: string
  /** Starts it at the same address; resolves when it accepts commands. */
  start(): Promise<void>
  /** Kills it like a crash; its data is lost. */
  kill(): Promise<void>
  restart(): Promise<void>
  /** Freezes it: it accepts connections, and never responds. */
  stop(): void
  cont(): void
  /** Sends one command over a separate connection, by another client than the one under test. */
  command(name: string, ...args: string[]): Promise<unknown>
  /** Stops it for good and removes its directory. */
  close(): Promise<void>
  /** The same at the end of an `await using`, also of a test that fails. */
  [Symbol.asyncDispose](): Promise<void>
}

interface RedisServerOptions {
  /** Additional command line arguments, for example `['--requirepass', 'x']`. */
  args?: string[]
  /** Listens on a Unix socket instead of a loopback port. */
  unixSocket?: boolean
  /** The login between `redis://` and the host for our own commands, for example `:x@`. */
  login?: string
}

/** Starts a server on a free loopback port. */
export async function startRedisServer(options: RedisServerOptions = {}): Promise<RedisServer> {
  const server = createRedisServer(options)
  await server.start()
  return server
}

/** A server that is not running yet, with a known address. */
export function createRedisServer(options: RedisServerOptions = {}): RedisServer {
  const { args = [], unixSocket = false, login = '' } = options
  const executable = Bun.which('redis-server')
  if (!executable)
    throw new Error(
      'Cannot test against Redis: "redis-server" is not in PATH, install the package redis-server',
    )
  const directory = mkdtempSync(join(tmpdir(), 'redis-'))
  const socketPath = join(directory, 'redis.sock')
  const port = unixSocket ? 0 : freePort()
  const address = unixSocket ? ['--unixsocket', socketPath] : ['--bind', '127.0.0.1']
  const url = unixSocket ? `unix://${login}${socketPath}` : `redis://${login}127.0.0.1:${port}`
  const clientUrl = unixSocket ? `redis+unix://${login}${socketPath}` : url
  let child: Subprocess | null = null

  async function start(): Promise<void> {
    const command = [
      ...dieWithParent('KILL'),
      executable!,
      '--port',
      `${port}`,
      ...address,
      '--dir',
      directory,
    ]
    child = Bun.spawn([...command, '--save', '', '--appendonly', 'no', ...args], {
      stdout: 'ignore',
      stderr: 'ignore',
    })
    const started = child
    await eventually('redis-server responds', async () => {
      return started.exitCode !== null || (await sendCommand(clientUrl, 'PING')) === 'PONG'
    })
    if (started.exitCode !== null) throw new Error(`Cannot start redis-server: exit code ${started.exitCode}`)
  }

  async function kill(): Promise<void> {
    child?.kill('SIGKILL')
    await child?.exited
    child = null
  }

  async function close(): Promise<void> {
    await kill()
    rmSync(directory, { recursive: true, force: true })
  }

  return {
    url,
    start,
    kill,
    async restart() {
      await kill()
      await start()
    },
    stop: () => child?.kill('SIGSTOP'),
    cont: () => child?.kill('SIGCONT'),
    command: (name, ...rest) => sendCommand(clientUrl, name, ...rest),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Sends one command, and disconnects. */
export async function sendCommand(url: string, name: string, ...args: string[]): Promise<unknown> {
  const client = new RedisClient(url, {
    autoReconnect: false,
    enableOfflineQueue: false,
    connectionTimeout: 5000,
  })
  try {
    await client.connect()
    return await client.send(name, args)
  } finally {
    client.close()
  }
}
