import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'bun:test'

import { makeCertificates } from '../support/certificates.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { openRaw } from '../spec/raw-http.ts'
import { runProgram, runToEnd, temporaryFolder, words } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { caddy, haproxy, nginx, nginxOfOne, type Balancer, type Site } from './balancer-programs.ts'
import { answeredBy, Client, newClients, startLoad, startNodes, type Nodes } from './nodes.ts'

import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Sandbox } from '../support/sandbox.ts'

const folder = temporaryFolder()
const settings = { http_scheme: 'https', http_host: 'sync.example.org', shutdown_delay_seconds: '0.5' }
let site: Pick<Site, 'folder' | 'certificates'>

beforeAll(async () => {
  site = { folder, certificates: await makeCertificates(folder.path) }
})

afterAll(() => folder[Symbol.dispose]())

const balancers = [haproxy, nginx, nginxOfOne, caddy]

/** Spellings of paths that lead to the metrics, separated by spaces. */
const spellings = String.raw`
  /__metrics__ /v1/__metrics__ /v1/__metrics__?x /v1\__metrics__ \v1\__metrics__ /v1/\__metrics__
  /v1%5c__metrics__ /v1%5C__metrics__ /v1/%5f_metrics__ /v1//__metrics__ /v1/./__metrics__ /v1/__metrics__/
  /v1/__metrics__/. /v1/__metrics__/x/.. /v1/__metrics__/x%2f../.. /v1/__metrics__/%2e /v1/x/..%2f__metrics__
  /v1/x/../__metrics__ /v1/x/..\__metrics__ /v1/__metrics__;x /v1/__metrics__#x http://x/v1/__metrics__
  http://x\v1\__metrics__`

/** A balancer in front of bridges on these ports, until it is disposed. */
async function startFront(balancer: Balancer, ports: number[], changes: [from: string, to: string][] = []) {
  const own = { ...site, port: freePort(), nodes: ports }
  const { caPem } = site.certificates
  const program = await balancer.start(own, changes)
  const origin = `https://127.0.0.1:${own.port}`
  return {
    ...own,
    program,
    origin,
    /** Sends this request line unchanged. */
    ask(start: string) {
      const connection = openRaw(origin, caPem)
      connection.write(`${start}\r\nHost: sync.example.org\r\nConnection: close\r\n\r\n`)
      return connection.answer
    },
    clientOf: (user: SandboxUser) => new Client(origin, user, caPem),
    clientsOf: (sandbox: Sandbox, count: number) => newClients(count, origin, sandbox, caPem),
    [Symbol.asyncDispose]: () => program.stop(),
  }
}

for (const balancer of balancers) {
  describe(`${balancer.bridges === 2 ? 'two bridges' : 'a bridge'} behind ${balancer.name} as documented`, () => {
    let nodes: Nodes
    let front: Awaited<ReturnType<typeof startFront>>
    let metricsPorts: number[]
    let client: Client

    beforeAll(async () => {
      metricsPorts = Array.from({ length: balancer.bridges }, freePort)
      const own = metricsPorts.map((metricsPort) => ({ metrics_listen: `127.0.0.1:${metricsPort}` }))
      nodes = await startNodes(settings, own)
      front = await startFront(balancer, nodes.ports)
    })

    beforeEach(async () => {
      await nodes.revive()
      client = front.clientOf(nodes.sandbox.addUser('alice'))
      const isThere = async () => (await client.ask('GET', '?_limit=1')).status === 200
      await eventually('the bridges respond', isThere)
    })

    afterAll(async () => {
      await front.program.stop()
      await nodes[Symbol.asyncDispose]()
    })

    it('behave like one', async () => {
      const user = nodes.sandbox.addUser('alice')
      const put = await client.ask('PUT', '/%7Ba%2Fb%7D', { data: { payload: 'first' } })
      for (let turn = 0; turn < 6; turn++)
        await client.ask('PUT', `/more-${turn}`, { data: { payload: 'x' } })
      const read = await client.ask('GET', '/%7Ba%2Fb%7D', { headers: { 'Accept-Encoding': 'gzip' } })
      const list = await client.ask('GET', '?_limit=2', { headers: { 'Accept-Encoding': 'gzip' } })
      const stale = await client.ask('PUT', '/more-0', {
        data: { payload: 'y' },
        headers: { 'If-Match': '"1000"' },
      })

      expect([put.status, read.status, list.status, stale.status]).toEqual([200, 200, 200, 412])
      expect(await read.json()).toMatchObject({ data: { id: '{a/b}', payload: 'first' } })
      expect(read.headers.get('ETag')).toBe(put.headers.get('ETag'))
      for (const answer of [read, list]) {
        expect(answer.headers.get('Content-Encoding')).toBeNull()
        expect(answer.headers.get('ETag')).toMatch(/^"\d+"$/)
        expect(answer.headers.get('Strict-Transport-Security')).toBe('max-age=31536000')
      }
      expect(list.headers.get('Next-Page')).toStartWith(
        `https://sync.example.org/v1/buckets/${user.clientState}/collections/tabs/records?_limit=2&_token=`,
      )
      await eventually('all have logged a request', () => answeredBy(nodes).every((count) => count > 0))
      await nodes.exchangesAreExplained(2)
    })

    it('hide their metrics, however the path is spelled', async () => {
      // A single bridge rejects by itself. Caddy returns an empty response for other hosts.
      const refusals = balancer.bridges === 2 ? [400, 404] : [200, 307, 400, 404]

      const tabbed = ['/v1/__met\trics__', '/v1/__metrics__\t']
      for (const path of [...spellings.trim().split(/\s+/), ...tabbed]) {
        const { status, text } = await front.ask(`GET ${path} HTTP/1.1`)
        expect([path, refusals.includes(status), text.includes('sync_bridge_')]).toEqual([path, true, false])
      }
      const scraped = await fetch(`http://127.0.0.1:${metricsPorts[0]}/__metrics__`)
      expect(await scraped.text()).toContain('sync_bridge_requests_total')
      const direct = await fetch(`http://127.0.0.1:${nodes.ports[0]}/v1/__metrics__`)
      expect(direct.status).toBe(404)
    })

    it('reject requests in the form that clients understand', async () => {
      const cases: [string, number, number][] = [
        ['FOO /v1/', 405, 115],
        ['PATCH /v1/', 405, 115],
      ]
      // The configurations for one bridge leave these to the bridge.
      if (balancer.bridges === 2) cases.push(['GET /v1\\', 400, 109], ['GET /v1/__metrics__', 404, 111])

      for (const [start, status, errno] of cases) {
        const answer = await front.ask(`${start} HTTP/1.1`)
        expect([start, answer.status]).toEqual([start, status])
        expect(JSON.parse(answer.body)).toMatchObject({ code: status, errno })
        expect(answer.headers.get('Access-Control-Allow-Origin')).toBe('*')
        if (status === 405) expect(answer.headers.get('Allow')).toContain('GET, HEAD, PUT')
      }
    })

    it('serve the next client after a large body that a bridge rejects early', async () => {
      const { clientState } = nodes.sandbox.addUser('alice')
      const large = folder.file('large')
      writeFileSync(large, Buffer.alloc(7_000_000, 'a'))
      const path = `/v1/buckets/${clientState}/collections/passwords/records/x`
      const upload = () =>
        // curl may exit with an error, because its upload ends before it has sent everything.
        runToEnd([
          ...words`curl -sk --http2 -o /dev/null -w %{http_code} -X PUT --data-binary @${large} -H`,
          'Content-Type: application/json',
          front.origin + path,
        ])

      for (let turn = 0; turn < 8; turn++) expect((await upload()).output).toBe('405')
    })

    it('stay in use whatever methods are requested', async () => {
      for (let turn = 0; turn < 50; turn++) await front.ask('FOO / HTTP/1.1')

      for (let turn = 0; turn < 4; turn++) expect((await client.ask('GET', '?_limit=1')).status).toBe(200)
    })

    // nginx does not hold requests while a bridge restarts.
    const itWithTwoBridges = balancer === nginxOfOne ? () => {} : it
    itWithTwoBridges(
      'lose only the requests in flight when one is killed',
      async () => {
        const clients = front.clientsOf(nodes.sandbox, 8)
        const load = startLoad(clients)
        const areInUse = () => answeredBy(nodes).every((count) => count > 10)
        await eventually('all are in use', () => load.requests() > 60 && areInUse())

        nodes.nodes[0]!.signal('SIGKILL')
        await nodes.nodes[0]!.exited
        const before = load.requests()
        if (balancer.bridges === 2)
          await eventually('the other goes on', () => load.requests() > before + 100)
        await nodes.restart(0)
        await eventually('all are in use again', areInUse)
        const { failures, requests } = await load.stop()

        expect(requests).toBeGreaterThan(60)
        // Each client has one request in flight. nginx detects failures by failed requests, ten times.
        expect(failures.length).toBeLessThanOrEqual(clients.length + (balancer === nginx ? 10 : 0))
      },
      300_000,
    )

    it('never make a truncated list look complete', async () => {
      // Holds the end of the list, which could otherwise be in buffers already.
      await using storage = await startFaultProxy({ target: nodes.sandbox.storageUrl })
      storage.plan(() => ({ kind: 'hang-mid-body', afterBytes: 1_000_000 }))
      nodes.sandbox.switches.nodeUrl = storage.url
      const user = nodes.sandbox.addUser('bob')
      nodes.sandbox.seed(user, 'tabs', 2000, { payloadBytes: 1000 })
      const answer = await front.clientOf(user).ask('GET', '')
      nodes.sandbox.switches.nodeUrl = nodes.sandbox.storageUrl
      const reader = answer.body!.getReader()
      const decoder = new TextDecoder()
      let text = decoder.decode((await reader.read()).value)

      for (const node of nodes.nodes) node.signal('SIGKILL')
      const rest = (async () => {
        for (let piece; !(piece = await reader.read()).done;) text += decoder.decode(piece.value)
        // Caddy before 2.7.6 ends a broken response as if it were complete; only the JSON shows it.
        if (balancer === caddy) JSON.parse(text)
      })()

      await expect(rest).rejects.toThrow()
      await Promise.all(nodes.nodes.map((node) => node.exited))
    })

    it('return errors in the form that clients understand while they are down', async () => {
      for (const node of nodes.nodes) node.signal('SIGKILL')
      await Promise.all(nodes.nodes.map((node) => node.exited))

      const answers = await Promise.all([
        client.ask('PUT', '/x', { data: { payload: 'x' } }),
        client.ask('GET', '/x'),
        client.ask('GET', ''),
      ])

      for (const answer of answers) {
        expect(answer.status).toBe(503)
        expect(await answer.json()).toMatchObject({ code: 503, errno: 201 })
        expect(answer.headers.get('Retry-After')).toBe('5')
        expect(answer.headers.get('Access-Control-Allow-Origin')).toBe('*')
      }
    })
  })
}

for (const balancer of [nginxOfOne, caddy]) {
  describe(`a bridge behind ${balancer.name}, for browsers`, () => {
    let nodes: Nodes
    let front: Awaited<ReturnType<typeof startFront>>
    const curl = (path: string, ...options: string[]) =>
      runProgram([
        ...words`curl -si --compressed --cacert ${site.certificates.caPath} ${front.origin}${path}`,
        ...options,
      ])

    beforeAll(async () => {
      nodes = await startNodes({ ...settings, explorer_enabled: 'true' }, [{}])
      front = await startFront(balancer, nodes.ports)
    })

    afterAll(async () => {
      await front.program.stop()
      await nodes[Symbol.asyncDispose]()
    })

    it.each(['/v1/docs', '/v1/docs/swagger-ui-bundle.js', '/v1/explore', '/v1/__api__'])(
      'sends %s compressed over HTTP/2',
      async (path) => {
        expect(await curl(path)).toMatch(/^HTTP\/2 200[^]*\ncontent-encoding: \w+\r\n/i)
      },
    )

    it('sends records over HTTP/2 unchanged, with the request id of the client', async () => {
      const user = nodes.sandbox.addUser('bob')
      nodes.sandbox.seed(user, 'tabs', 100)
      const path = `/v1/buckets/${user.clientState}/collections/tabs/records`
      const identity = ['-H', `Authorization: Bearer ${user.bearerToken()}`, '-H', `X-KeyID: ${user.keyId}`]

      const answer = await curl(path, ...identity, '-H', 'X-Request-Id: mine')

      expect(answer).toMatch(/^HTTP\/2 200/)
      expect(answer).not.toMatch(/^content-encoding/im)
      expect(answer).toMatch(/^etag: "\d+"\r$/im)
      expect(answer).toMatch(/^x-request-id: mine\r$/im)
    })
  })
}

// Behind HAProxy, replacing the secret does that.
describe('two bridges behind nginx, one marked as down', () => {
  it('are restarted one after the other, without failed requests', async () => {
    await using stack = new AsyncDisposableStack()
    const nodes = stack.use(await startNodes(settings))
    const front = stack.use(await startFront(nginx, nodes.ports))
    const load = startLoad(front.clientsOf(nodes.sandbox, 6))
    await eventually('both are in use', () => answeredBy(nodes).every((count) => count > 5))
    const exchanges = nodes.exchanges()

    for (const index of [0, 1]) {
      await nginx.markDown(front.program, front, index, true)
      expect(await nodes.nodes[index]!.stop()).toBe(0)
      await nodes.restart(index)
      await nginx.markDown(front.program, front, index, false)
      await eventually('it is in use again', () => answeredBy(nodes)[index]! > 5)
    }
    const { failures } = await load.stop()

    expect(failures).toEqual([])
    await nodes.exchangesAreExplained(exchanges)
  }, 300_000)
})

/** A server that is always healthy, and passes all other requests to `act`. */
function startCustomServer(act: (socket: Bun.Socket, text: string) => void) {
  const well = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
  return Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket, bytes) {
        const text = bytes.toString('latin1')
        if (text.includes(' /__lbheartbeat__ ')) socket.end(well)
        else act(socket, text)
      },
    },
  })
}

for (const balancer of balancers) {
  describe(`bridges that die in the middle of a response, behind ${balancer.name}`, () => {
    async function outcomeOf(method: string): Promise<{ status: number; received: string[] }> {
      await using stack = new AsyncDisposableStack()
      const received: string[] = []
      const bridges = ['first', 'second'].map((name) =>
        startCustomServer((socket, text) => {
          received.push(`${name} ${text.split(' ', 1)[0]}`)
          socket.end()
        }),
      )
      for (const bridge of bridges) stack.defer(() => bridge.stop(true))
      const ports = bridges.map(({ port }) => port)
      const { origin } = stack.use(await startFront(balancer, ports))
      const { status } = await fetch(`${origin}/v1/x`, {
        method,
        ...(method !== 'GET' && { body: '{}' }),
        tls: { ca: site.certificates.caPem },
      })
      return { status, received }
    }

    if (balancer.bridges === 2)
      it('both get reads', async () => {
        const { status, received } = await outcomeOf('GET')

        expect([502, 503]).toContain(status)
        expect(new Set(received)).toEqual(new Set(['first GET', 'second GET']))
      })

    it.each(['PUT', 'DELETE', 'POST'])('never both get the same %s', async (method) => {
      const { status, received } = await outcomeOf(method)

      expect([502, 503]).toContain(status)
      expect(received).toHaveLength(1)
      expect(received[0]).toEndWith(` ${method}`)
    })
  })
}

for (const balancer of [haproxy, nginx]) {
  describe(`a bridge behind ${balancer.name}`, () => {
    it('gets a request only when it is complete', async () => {
      await using stack = new AsyncDisposableStack()
      const received: string[] = []
      const bridges = [1, 2].map(() =>
        startCustomServer((socket, text) => {
          received.push(text)
          const isWhole = !text.startsWith('PUT') || text.endsWith('end')
          if (isWhole) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
        }),
      )
      for (const bridge of bridges) stack.defer(() => bridge.stop(true))
      const ports = bridges.map(({ port }) => port)
      const front = stack.use(await startFront(balancer, ports))
      const slow = openRaw(front.origin, site.certificates.caPem)
      const head = 'PUT /v1/slow HTTP/1.1\r\nHost: sync.example.org\r\nConnection: close\r\n'
      slow.write(`${head}Content-Length: 10003\r\n\r\n${'x'.repeat(5000)}`)

      await front.ask('GET /v1/first HTTP/1.1')
      await front.ask('GET /v1/second HTTP/1.1')
      const before = received.map((text) => text.split(' ', 2).join(' '))
      slow.write(`${'x'.repeat(5000)}end`)

      expect(before).toEqual(['GET /v1/first', 'GET /v1/second'])
      expect((await slow.answer).status).toBe(200)
      expect(received.join('')).toContain('PUT /v1/slow')
    })
  })
}

describe('two bridges behind HAProxy with persistent clients', () => {
  it('behave like one, and each client uses one of them', async () => {
    await using nodes = await startNodes(settings)
    const sticky: [string, string][] = [['balance leastconn', 'balance hdr(Authorization)']]
    await using front = await startFront(haproxy, nodes.ports, sticky)
    const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0)

    for (const client of front.clientsOf(nodes.sandbox, 12)) {
      const before = answeredBy(nodes)
      const put = await client.ask('PUT', '/a', { data: { payload: 'x' } })
      const read = await client.ask('GET', '/a')
      expect([put.status, read.status]).toEqual([200, 200])
      await eventually('both are logged', () => sum(answeredBy(nodes)) === sum(before) + 2)
      const met = answeredBy(nodes).map((count, index) => count - before[index]!)
      expect(met.toSorted()).toEqual([0, 2])
    }

    for (const count of answeredBy(nodes)) expect(count).toBeGreaterThan(0)
  })
})
