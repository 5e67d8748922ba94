import { collect, readBody, readHead, requestFraming, responseFraming, type Head } from './http-messages.ts'
import { openWire, Wire, wireHandlers } from './wire.ts'

/** What happens to a request instead of being relayed. "After" means that the target has applied the request. */
export type Fault =
  /** Answered without being forwarded. */
  | { kind: 'status'; status: number; headers?: Record<string, string>; body?: string | Buffer }
  /** Forwarded and applied, then answered with this. */
  | { kind: 'status-after'; status: number; headers?: Record<string, string>; body?: string }
  /** The connection is reset without forwarding. */
  | { kind: 'reset-before' }
  /** Forwarded and applied, then the connection is reset. */
  | { kind: 'reset-after' }
  /** The connection is reset after that many bytes of the body, as framed on the wire. */
  | { kind: 'reset-mid-body'; afterBytes: number }
  /** The same with a regular close, which looks like the end of an unframed body. */
  | { kind: 'truncate'; afterBytes: number }
  /** Held back before it is forwarded, until `release`. */
  | { kind: 'hang' }
  /** Forwarded and applied; the response is held back until `release`. */
  | { kind: 'hang-after' }
  /** That many bytes of the body are sent; the rest is held back until `release`. */
  | { kind: 'hang-mid-body'; afterBytes: number }
  /** Answered with bytes that are not HTTP. */
  | { kind: 'garbage' }
  /** Applied and answered, with parts of the real response changed. */
  | {
      kind: 'rewrite'
      status?: number
      /** Null removes a header. */
      headers?: Record<string, string | null>
      body?: string | ((real: string) => string)
    }

/** One request that arrived at the proxy. */
export interface ProxiedRequest {
  /** Counts from 0 in order of arrival. */
  readonly index: number
  readonly method: string
  /** Path and query as sent. */
  readonly target: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: Headers
  readonly body: string
  /** Whether no one waits for a response any more: it was sent, or the client has disconnected. */
  isOver: boolean
}

/** Decides what happens to a request; null relays it. May have side effects. */
export type Plan = (request: ProxiedRequest) => Fault | null | Promise<Fault | null>

/** A relay in front of a server, which can be made to fail. */
export interface FaultProxy extends AsyncDisposable {
  /** Scheme, host and port. */
  readonly url: string
  /** Every request so far. */
  readonly requests: readonly ProxiedRequest[]
  /** The number of connections accepted so far. */
  readonly connections: number
  /** Replaces the plan for later requests. */
  plan(plan: Plan): void
  /** Lets every held request that has arrived so far continue. Later ones are held again. */
  release(): void
  /** The first request that matches. */
  waitFor(predicate: (request: ProxiedRequest) => boolean): Promise<ProxiedRequest>
  stop(): Promise<void>
}

/**
 * Starts a proxy on loopback, because whether a call was applied is only in doubt on a connection. Headers are passed unchanged, including
 * Host, so signatures stay valid.
 */
export async function startFaultProxy(options: { target: string | URL }): Promise<FaultProxy> {
  const target = new URL(options.target)
  const state = new ProxyState()
  const listener = Bun.listen<Wire>({
    hostname: '127.0.0.1',
    port: 0,
    data: undefined as unknown as Wire,
    socket: {
      ...wireHandlers,
      open(socket) {
        socket.data = new Wire(socket)
        state.wires.add(socket.data)
        state.connections += 1
        void serve(socket.data, target, state)
      },
    },
  })
  const stop = async () => {
    listener.stop(true)
    for (const wire of state.wires) wire.reset()
    state.release()
  }
  return {
    url: `http://127.0.0.1:${listener.port}`,
    requests: state.requests,
    get connections() {
      return state.connections
    },
    plan: (plan) => {
      state.plan = plan
    },
    release: () => state.release(),
    waitFor: (predicate) => state.waitFor(predicate),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

class ProxyState {
  readonly requests: ProxiedRequest[] = []
  readonly wires = new Set<Wire>()
  connections = 0
  plan: Plan = () => null
  #held = Promise.withResolvers<void>()
  #waiting: {
    predicate: (request: ProxiedRequest) => boolean
    resolve: (request: ProxiedRequest) => void
  }[] = []

  /** Settles at the next release. */
  get released(): Promise<void> {
    return this.#held.promise
  }

  release(): void {
    this.#held.resolve()
    this.#held = Promise.withResolvers()
  }

  arrived(request: ProxiedRequest): void {
    const met = this.#waiting.filter(({ predicate }) => predicate(request))
    this.#waiting = this.#waiting.filter((waiter) => !met.includes(waiter))
    for (const { resolve } of met) resolve(request)
  }

  waitFor(predicate: (request: ProxiedRequest) => boolean): Promise<ProxiedRequest> {
    const found = this.requests.find(predicate)
    if (found !== undefined) return Promise.resolve(found)
    return new Promise((resolve) => this.#waiting.push({ predicate, resolve }))
  }
}

// One client connection: a loop over its requests, with one connection to the target for its lifetime.
async function serve(client: Wire, target: URL, state: ProxyState): Promise<void> {
  const link = new Link(target, state)
  try {
    while (!client.isClosed) {
      const head = await readHead(client)
      if (head === null) break
      const body = await collect(readBody(client, requestFraming(head)))
      const request = toRequest(state.requests.length, head, body.data)
      state.requests.push(request)
      void client.closed.then(() => (request.isOver = true))
      const fault = state.plan(request)
      // Read before the request is visible to tests, so that a release can't come too early.
      const released = Promise.race([state.released, client.closed])
      const exchange = { client, link, head, body: body.raw, request, released }
      state.arrived(request)
      const isOpen = await apply(await fault, exchange)
      request.isOver = true
      if (!isOpen || /close/i.test(head.headers.get('Connection') ?? '')) break
    }
    await client.end()
  } catch {
    // Either side has disconnected, or the target is unreachable: the other side's connection breaks, too.
    client.reset()
  } finally {
    link.drop()
    state.wires.delete(client)
  }
}

interface Exchange {
  client: Wire
  link: Link
  head: Head
  body: Buffer
  request: ProxiedRequest
  /** Settles when a held request may continue, or when the client has disconnected. */
  released: Promise<void>
}

/** Applies a fault; false if the connection is over. */
async function apply(fault: Fault | null, exchange: Exchange): Promise<boolean> {
  const { client, released } = exchange
  switch (fault?.kind) {
    case undefined:
      return relay(exchange, await forward(exchange))
    case 'hang':
      await released
      return relay(exchange, await forward(exchange))
    case 'status':
      return answer(client, fault)
    case 'garbage':
      await client.write(Buffer.from('\u0000\u0001 this is not HTTP\r\n\r\n'))
      return false
    case 'reset-before':
      client.reset()
      return false
    case 'reset-mid-body':
      await relay(exchange, await forward(exchange), fault.afterBytes)
      client.reset()
      return false
    case 'truncate':
      await relay(exchange, await forward(exchange), fault.afterBytes)
      return false
    case 'hang-mid-body':
      return relay(exchange, await forward(exchange), fault.afterBytes, () => released)
    case 'status-after':
    case 'reset-after':
    case 'hang-after':
    case 'rewrite':
      return applyAfter(fault, exchange)
    default:
      return fault satisfies never
  }
}

type LateFault = Extract<Fault, { kind: 'status-after' | 'reset-after' | 'hang-after' | 'rewrite' }>

async function applyAfter(fault: LateFault, exchange: Exchange): Promise<boolean> {
  const { client, link, released } = exchange
  const real = await forward(exchange)
  const body = await collect(readBody(link.wire, responseFraming(real, exchange.request.method)))
  switch (fault.kind) {
    case 'status-after':
      return answer(client, fault)
    case 'reset-after':
      client.reset()
      return false
    case 'hang-after':
      await released
      await client.write(Buffer.concat([real.raw, body.raw]))
      return true
    case 'rewrite': {
      const text = body.data.toString()
      const changed = typeof fault.body === 'function' ? fault.body(text) : (fault.body ?? text)
      const headers = new Headers(real.headers)
      for (const name of ['Transfer-Encoding', 'Content-Length', 'Connection']) headers.delete(name)
      for (const [name, value] of Object.entries(fault.headers ?? {}))
        if (value === null) headers.delete(name)
        else headers.set(name, value)
      const status = fault.status ?? Number(real.start.split(' ')[1])
      return answer(client, { status, headers: headers.toJSON(), body: changed })
    }
    default:
      return fault satisfies never
  }
}

async function forward({ link, head, body }: Exchange): Promise<Head> {
  const wire = await link.open()
  await wire.write(Buffer.concat([head.raw, body]))
  const answered = await readHead(wire)
  if (answered === null) throw new Error('Cannot relay the request: the target closed the connection')
  return answered
}

// With `most`, relays that many bytes of the body and then stops or, after a pause, continues.
async function relay(
  { client, link, request }: Exchange,
  head: Head,
  most = Number.POSITIVE_INFINITY,
  pause?: () => Promise<void>,
): Promise<boolean> {
  const framing = responseFraming(head, request.method)
  await client.write(head.raw)
  let left = most
  for await (const { raw } of readBody(link.wire, framing)) {
    await client.write(raw.subarray(0, left))
    if (raw.length < left) {
      left -= raw.length
      continue
    }
    if (pause === undefined) return false
    await pause()
    await client.write(raw.subarray(left))
    left = Number.POSITIVE_INFINITY
  }
  return framing !== 'until-close'
}

async function answer(
  client: Wire,
  { status, headers = {}, body = '' }: Omit<Extract<Fault, { kind: 'status' }>, 'kind'>,
) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const hasNoBody = status === 204 || status === 304
  const length = hasNoBody ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`
  const head = `HTTP/1.1 ${status} Answer\r\n${lines.join('')}${length}\r\n`
  await client.write(Buffer.concat([Buffer.from(head), Buffer.from(hasNoBody ? '' : body)]))
  return true
}

function toRequest(index: number, { start, headers }: Head, body: Buffer): ProxiedRequest {
  const [method = '', target = ''] = start.split(' ')
  const mark = target.indexOf('?')
  const path = mark < 0 ? target : target.slice(0, mark)
  const query = new URLSearchParams(mark < 0 ? '' : target.slice(mark + 1))
  return { index, method, target, path, query, headers, body: body.toString(), isOver: false }
}

/** The proxy's connection to the target, reopened after a loss. */
class Link {
  #wire: Wire | null = null

  constructor(
    readonly target: URL,
    readonly state: ProxyState,
  ) {}

  get wire(): Wire {
    if (this.#wire === null) throw new Error('Cannot read from the target: nothing was forwarded yet')
    return this.#wire
  }

  async open(): Promise<Wire> {
    if (this.#wire !== null && !this.#wire.isClosed) return this.#wire
    this.#wire = await openWire(this.target)
    this.state.wires.add(this.#wire)
    return this.#wire
  }

  drop(): void {
    if (this.#wire === null) return
    this.state.wires.delete(this.#wire)
    this.#wire.reset()
  }
}
