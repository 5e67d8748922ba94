import { randomBytes } from 'node:crypto'

import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { serve, type Bridge } from '../support/executable.ts'
import { writableSettings } from '../support/settings.ts'

import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** Several bridges over one storage and one Redis, as in production. Processes, because they share only these. */
export interface Nodes extends AsyncDisposable {
  sandbox: Sandbox
  redis: RedisServer
  ports: number[]
  nodes: Bridge[]
  /** The secret that all of them started with. */
  secret: string
  /** Starts a bridge in place of one that has ended. */
  restart(index: number, settings?: Record<string, string>): Promise<void>
  /** Starts the bridges that were killed. */
  revive(): Promise<void>
  /** The number of calls to the token server for credentials. */
  exchanges(): number
  /**
   * Waits until exchanges exceed `known` by no more than the number of Redis errors that the bridges have logged: on a very busy machine,
   * Redis may respond too late.
   */
  exchangesAreExplained(known: number): Promise<void>
}

/** `own`: additional settings of each bridge; starts as many bridges as it has elements. */
export async function startNodes(
  settings: Record<string, string> = {},
  own: Record<string, string>[] = [{}, {}],
): Promise<Nodes> {
  const [sandbox, redis] = await Promise.all([startSandbox(), startRedisServer()])
  let cacheFailures = 0
  const statsd = await Bun.udpSocket({
    hostname: '127.0.0.1',
    socket: {
      data(_, datagram) {
        for (const [, count] of datagram.toString().matchAll(/credentials\.store-error:(\d+)\|c/g))
          cacheFailures += Number(count)
      },
    },
  })
  const ports = own.map(() => freePort())
  const secret = randomBytes(32).toString('hex')
  const common = {
    token_server_url: sandbox.tokenServerUrl,
    cache_backend: 'redis',
    cache_url: redis.url,
    cache_hmac_secret: secret,
    statsd_url: `udp://127.0.0.1:${statsd.port}`,
    ...writableSettings(['tabs']),
    ...settings,
  }
  const start = (index: number, more = {}) =>
    serve({ ...common, port: String(ports[index]), ...own[index], ...more })
  const nodes = await Promise.all(ports.map((_, index) => start(index)))
  async function restart(index: number, more: Record<string, string> = {}): Promise<void> {
    nodes[index] = await start(index, more)
  }
  const exchanges = () =>
    sandbox.requests.token.entries.filter(({ target }) => target.includes('/1.0/sync/')).length
  return {
    sandbox,
    redis,
    ports,
    nodes,
    secret,
    restart,
    async revive() {
      for (const [index, node] of nodes.entries()) {
        const hasEnded = await Promise.race([node.exited.then(() => true), Bun.sleep(0).then(() => false)])
        if (hasEnded) await restart(index)
      }
    },
    exchanges,
    exchangesAreExplained: (known) =>
      eventually('every exchange is explained', () => exchanges() - known <= cacheFailures),
    async [Symbol.asyncDispose]() {
      for (const node of nodes) node.signal('SIGKILL')
      await Promise.all(nodes.map((node) => node.exited))
      await redis.close()
      await sandbox.stop()
      statsd.close()
    },
  }
}

/** The number of record requests that each bridge has answered. */
export function answeredBy(nodes: Nodes): number[] {
  return nodes.nodes.map(({ lines }) => lines.filter((line) => /"route":"records?"/.test(line)).length)
}

/** A user who reads and writes. */
export class Client {
  readonly #origin: string
  readonly #user: SandboxUser
  readonly #authorization: string
  readonly #ca: string | undefined

  /** `ca`: the authority of the server's certificate. */
  constructor(origin: string, user: SandboxUser, ca?: string, token = user.bearerToken()) {
    this.#origin = origin
    this.#user = user
    this.#authorization = `Bearer ${token}`
    this.#ca = ca
  }

  /** `path` is relative to the records of the collection `tabs`. */
  ask(method: string, path: string, init: { data?: object; headers?: Record<string, string> } = {}) {
    const records = `/v1/buckets/${this.#user.clientState}/collections/tabs/records`
    return this.send(method, records + path, init.data && { data: init.data }, init.headers)
  }

  send(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(this.#origin + path, {
      method,
      redirect: 'manual',
      headers: {
        Authorization: this.#authorization,
        'X-KeyID': this.#user.keyId,
        ...(body && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
      ...(this.#ca !== undefined && { tls: { ca: this.#ca } }),
    })
  }
}

/** Several clients, each of another user. */
export function newClients(count: number, origin: string, sandbox: Sandbox, ca?: string): Client[] {
  return Array.from({ length: count }, (_, index) => new Client(origin, sandbox.addUser(`user ${index}`), ca))
}

/** The results of a continuous load. */
export interface Load {
  /** Statuses other than 200, and connection errors, by method. */
  failures: string[]
  requests: number
}

/** Short of it, a test that waits seconds for another program spends most of its processor time here. */
const pauseMs = 20

/** Several clients that read and write, each one request at a time, until they are stopped. */
export function startLoad(clients: Client[]): { requests(): number; stop(): Promise<Load> } {
  const load: Load = { failures: [], requests: 0 }
  const over = new AbortController()
  const loops = clients.map(async (client, index) => {
    for (let turn = 0; !over.signal.aborted; turn++) {
      const method = turn % 4 === 0 ? 'PUT' : 'GET'
      const init = method === 'PUT' ? { data: { payload: `{"turn":${turn}}` } } : {}
      const outcome = await client.ask(method, method === 'PUT' ? `/record-${index}` : '', init).then(
        async (answer) => {
          await answer.text()
          return answer.status
        },
        (error: Error) => error.message,
      )
      load.requests += 1
      if (outcome !== 200) load.failures.push(`${method} ${outcome}`)
      await Bun.sleep(pauseMs)
    }
  })
  return {
    requests: () => load.requests,
    async stop() {
      over.abort()
      await Promise.all(loops)
      return load
    },
  }
}
