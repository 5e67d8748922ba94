import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts'
import { haproxy, nginx } from '../operate/balancer-programs.ts'
import { makeCertificates } from '../support/certificates.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { peakBytes, temporaryFolder } from '../support/processes.ts'
import { serve } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** A route to the bridges: directly to one, or through a balancer as documented. */
export interface Route {
  name: string
  origin: string
  /** An idle connection. */
  connect(): Socket
}

/** Two bridges behind both balancers, their upstream, and a bystander. Processes, because an attack fills sockets and memory. */
export interface AttackedWorld extends AsyncDisposable {
  sandbox: Sandbox
  /** Between the bridges and the sandbox. */
  tokens: FaultProxy
  storage: FaultProxy
  routes: readonly Route[]
  /** The peak memory of any of the bridges, in MiB. */
  peakMiB(): number
  addUser(name: string): Client
}

const host = 'sync.example.org'

/** A user with an account. */
export class Client {
  readonly #authorization: string

  constructor(readonly user: SandboxUser) {
    this.#authorization = `Bearer ${user.bearerToken()}`
  }

  get headers(): Record<string, string> {
    return { Authorization: this.#authorization, 'X-KeyID': this.user.keyId }
  }

  path(collection: string, id?: string): string {
    const records = `/v1/buckets/${this.user.clientState}/collections/${collection}/records`
    return id === undefined ? records : `${records}/${id}`
  }

  /** The status of a request, or the error of its connection. */
  async ask(route: Route, method: string, path: string, body?: object): Promise<number | string> {
    try {
      const answer = await fetch(route.origin + path, {
        method,
        headers: { ...this.headers, Host: host, ...(body && { 'Content-Type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
        tls: { rejectUnauthorized: false },
        signal: AbortSignal.timeout(20_000),
      })
      await answer.arrayBuffer()
      return answer.status
    } catch (error) {
      return (error as Error).message
    }
  }
}

/** The head of a request, and the part of its body that is sent. */
export function requestText(
  method: string,
  path: string,
  headers: Record<string, string>,
  body = '',
): string {
  const fields = Object.entries({ Host: host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${fields.join('')}\r\n${body}`
}

export async function startAttackedWorld(environment: Record<string, string> = {}): Promise<AttackedWorld> {
  const folder = temporaryFolder()
  const sandbox = await startSandbox()
  const tokens = await startFaultProxy({ target: sandbox.tokenServerUrl })
  const storage = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = storage.url
  const bridges = await Promise.all(
    [1, 2].map(() =>
      serve(
        {
          token_server_url: tokens.url,
          http_scheme: 'https',
          http_host: host,
          record_tabs_put_enabled: 'true',
        },
        { environment },
      ),
    ),
  )
  const certificates = await makeCertificates(folder.path)
  const nodes = bridges.map(({ url }) => Number(new URL(url).port))
  const behind = await Promise.all(
    [haproxy, nginx].map(async (balancer) => {
      const port = freePort()
      const program = await balancer.start({ folder, certificates, port, nodes })
      return { name: `through ${balancer.name}`, port, program }
    }),
  )
  const routes: Route[] = [
    { name: 'directly', origin: bridges[0]!.url, connect: () => connectTcp(nodes[0]!, '127.0.0.1') },
    ...behind.map(({ name, port }) => ({
      name,
      origin: `https://127.0.0.1:${port}`,
      connect: () => connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }),
    })),
  ]
  return {
    sandbox,
    tokens,
    storage,
    routes,
    peakMiB: () => Math.max(...bridges.map(({ pid }) => peakBytes(pid) / 2 ** 20)),
    addUser: (name) => new Client(sandbox.addUser(name)),
    async [Symbol.asyncDispose]() {
      await Promise.all(behind.map(({ program }) => program.stop()))
      for (const bridge of bridges) bridge.signal('SIGKILL')
      await Promise.all(bridges.map(({ exited }) => exited))
      await Promise.all([sandbox.stop(), tokens.stop(), storage.stop()])
      folder[Symbol.dispose]()
    },
  }
}
