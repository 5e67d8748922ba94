import { describe, expect, it } from 'bun:test'
import { connect } from 'node:net'

import { Bodies, type IncomingBody } from '../../src/load/bodies.ts'
import { limits } from '../../src/load/limits.ts'
import { MemoryBudget } from '../../src/load/memory.ts'
import { eventually } from '../support/eventually.ts'
import { one, startCrowdedWorld } from './crowded-world.ts'

const farFuture = 1_000_000

/** Bodies with a controlled clock and 800 bytes of memory, half of which one sender may have. */
function createBodies({ maxBytes = 100, totalBytes = 800 } = {}) {
  let nowMs = 0
  let drops = 0
  const memory = new MemoryBudget(totalBytes)
  const bodies = new Bodies({ maxBytes, memory, now: () => nowMs, observeDrop: () => void (drops += 1) })
  return {
    memory,
    drops: () => drops,
    begin(request: Request, sender: string, deadlineAtMs: number): IncomingBody {
      return bodies.receive(request, memory.open(sender), deadlineAtMs)
    },
    pass(ms: number) {
      nowMs += ms
      bodies.expire()
    },
  }
}

const jsonType = { 'Content-Type': 'application/json' }

function post(body: BodyInit, headers: Record<string, string> = {}): Request {
  return new Request('http://bridge/', { method: 'POST', body, headers: { ...jsonType, ...headers } })
}

/** A body whose chunks are sent on demand. */
function slowBody() {
  let controller!: ReadableStreamDefaultController<Uint8Array>
  let isCancelled = false
  const stream = new ReadableStream<Uint8Array>({
    start: (given) => void (controller = given),
    cancel: () => void (isCancelled = true),
  })
  return {
    stream,
    send: (piece: string) => controller.enqueue(new TextEncoder().encode(piece)),
    end: () => controller.close(),
    break: () => controller.error(new Error('The client has disconnected')),
    isCancelled: () => isCancelled,
  }
}

/** All chunks sent so far have been read. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}

async function receive(
  bodies: ReturnType<typeof createBodies>,
  request: Request,
  sender: string,
  deadlineAtMs = farFuture,
): Promise<IncomingBody> {
  const body = bodies.begin(request, sender, deadlineAtMs)
  await body.arrived
  return body
}

const textOf = (body: IncomingBody, owner = 'somebody') =>
  body.parse(owner, (bytes) => new TextDecoder().decode(bytes))

describe('Bodies', () => {
  it('reads a body in chunks up to the limit, and holds its memory until the request ends', async () => {
    const bodies = createBodies({ maxBytes: 7 })
    const slow = slowBody()
    const receiving = receive(bodies, post(slow.stream), 'somebody')
    for (const piece of ['{"a"', ':1', '}']) slow.send(piece)
    slow.end()

    const body = await receiving

    expect(bodies.memory.heldBytes).toBe(7)
    expect(textOf(body)).toBe('{"a":1}')
    body.release()
    expect(bodies.memory.heldBytes).toBe(7)
    body.memory.release()
    expect(bodies.memory.heldBytes).toBe(0)
  })

  it('rejects a body whose first byte does not arrive in time', async () => {
    const bodies = createBodies()
    const slow = slowBody()
    const receiving = receive(bodies, post(slow.stream), 'somebody', 30_000)

    bodies.pass(limits.firstByteMs - 1)
    expect(slow.isCancelled()).toBe(false)
    bodies.pass(1)

    await expect(receiving).rejects.toMatchObject({ status: 400, errno: 109 })
    expect(slow.isCancelled()).toBe(true)
  })

  it('drops a body at the deadline of its request, however slowly it arrives', async () => {
    const bodies = createBodies()
    const slow = slowBody()
    const receiving = receive(bodies, post(slow.stream), 'somebody', 30_000)

    for (let second = 0; second < 29; second++) {
      slow.send('x')
      await settle()
      bodies.pass(1000)
    }
    expect([slow.isCancelled(), bodies.memory.heldBytes > 0]).toEqual([false, true])
    bodies.pass(1000)

    await expect(receiving).rejects.toMatchObject({
      status: 400,
      message: 'was not received in time',
      extras: { headers: { Connection: 'close' } },
    })
    expect(bodies.memory.heldBytes).toBe(0)
  })

  it('rejects a small body slower than 2 KB/s, after the timeout of the first byte', async () => {
    const bodies = createBodies()
    const slow = slowBody()
    const receiving = receive(bodies, post(slow.stream, { 'Content-Length': '100' }), 'somebody', 30_000)
    slow.send('x')
    await settle()

    // 100 bytes take 49 ms.
    bodies.pass(limits.firstByteMs + 49)
    expect(bodies.memory.heldBytes).toBe(100)
    bodies.pass(1)

    await expect(receiving).rejects.toMatchObject({ status: 400, errno: 109 })
    expect(bodies.memory.heldBytes).toBe(0)
  })

  it.each<Record<string, string>>([{}, { 'Content-Length': '100' }])(
    'drops a body whose sender has disconnected: %j',
    async (headers) => {
      const slow = slowBody()
      const receiving = receive(createBodies(), post(slow.stream, headers), 'somebody')
      slow.send('x'.repeat(50))
      await settle()

      slow.break()

      await expect(receiving).rejects.toMatchObject({ status: 400, errno: 109 })
    },
  )

  it.each<Record<string, string>>([{}, { 'Content-Length': '100' }])(
    'releases a body that is no longer needed: %j',
    async (headers) => {
      const bodies = createBodies()
      const slow = slowBody()
      const body = bodies.begin(post(slow.stream, headers), 'somebody', farFuture)
      slow.send('x'.repeat(50))
      await settle()

      body.release()
      await settle()

      expect([body.isWhole, bodies.drops()]).toEqual([false, 0])
      await body.arrived
    },
  )

  it('drops the oldest unauthenticated bodies when the memory is full, to accept others', async () => {
    const bodies = createBodies()
    const stalled = Array.from({ length: 8 }, (_, index) => {
      const headers: Record<string, string> = index % 2 === 0 ? {} : { 'Content-Length': '100' }
      const slow = slowBody()
      const receiving = receive(bodies, post(slow.stream, headers), `stranger ${index}`)
      receiving.catch(() => {})
      slow.send('x'.repeat(99))
      return receiving
    })
    await settle()

    for (let index = 0; index < 100; index++) {
      const body = await receive(bodies, post('{"data":{}}'), `user ${index}`)
      expect(textOf(body, `user ${index}`)).toBe('{"data":{}}')
      body.release()
      body.memory.release()
    }

    for (const receiving of stalled.slice(0, bodies.drops())) {
      await expect(receiving).rejects.toMatchObject({
        status: 503,
        errno: 201,
        extras: { headers: { Connection: 'close' } },
      })
    }
    expect(bodies.drops()).toBeGreaterThan(0)
    expect(bodies.drops()).toBeLessThan(8)
  })

  it('also drops one that has arrived and is unauthenticated, but never one in use', async () => {
    const bodies = createBodies({ totalBytes: 300 })
    const used = await receive(bodies, post('x'.repeat(100)), 'user')
    textOf(used, 'user')
    const unproven = await receive(bodies, post('x'.repeat(60)), 'stranger')

    const late = await receive(bodies, post('x'.repeat(90)), 'another')

    expect(() => textOf(unproven)).toThrow(expect.objectContaining({ status: 503 }))
    expect(textOf(late, 'another')).toHaveLength(90)
    expect(bodies.memory.heldBytes).toBe(190)
    await expect(receive(bodies, post('x'.repeat(99)), 'one more')).rejects.toMatchObject({ status: 503 })
  })

  it('drops no body of which nothing has arrived, because that frees nothing', async () => {
    const bodies = createBodies({ totalBytes: 300 })
    const [silent, holding] = [slowBody(), slowBody()]
    const silently = receive(bodies, post(silent.stream), 'silent stranger')
    const holdingIt = receive(bodies, post(holding.stream), 'stranger')
    holding.send('x'.repeat(99))
    await settle()

    bodies.memory.open('user').grow(120)

    await expect(holdingIt).rejects.toMatchObject({ status: 503 })
    expect(bodies.drops()).toBe(1)
    silent.end()
    expect(textOf(await silently)).toBe('')
  })

  it('also drops bodies for a response', async () => {
    const bodies = createBodies({ totalBytes: 300 })
    const slow = [slowBody(), slowBody()]
    const receiving = slow.map(async ({ stream, send }, index) => {
      const received = receive(bodies, post(stream), `stranger ${index}`)
      send('x'.repeat(99))
      return received
    })
    await settle()

    bodies.memory.open('user').grow(90)

    await expect(receiving[0]!).rejects.toMatchObject({ status: 503 })
    slow[1]!.end()
    expect(textOf(await receiving[1]!)).toHaveLength(99)
  })

  it('counts memory for the user once the sender is authenticated', async () => {
    const bodies = createBodies({ maxBytes: 100, totalBytes: 400 })
    const [first, second, third] = await Promise.all(
      ['first', 'second', 'third'].map((name) => receive(bodies, post('x'.repeat(80)), `token ${name}`)),
    )
    textOf(first!, 'greedy')
    textOf(second!, 'greedy')

    expect(() => textOf(third!, 'greedy')).toThrow(expect.objectContaining({ status: 503 }))

    expect(bodies.memory.heldBytes).toBe(160)
    expect(bodies.drops()).toBe(1)
  })

  it('holds a body that arrives byte by byte in little more memory than its size', async () => {
    const bodies = createBodies({ maxBytes: 100_000, totalBytes: 1_000_000 })
    const slow = slowBody()
    const receiving = receive(bodies, post(slow.stream), 'somebody')
    for (let byte = 0; byte < 3000; byte++) slow.send('x')
    slow.end()

    const body = await receiving

    expect(textOf(body)).toHaveLength(3000)
    expect(bodies.memory.heldBytes).toBeLessThan(6000)
  })
})

describe('a body in flight', () => {
  it('gets a response at the deadline of the request, and the connection is closed', async () => {
    const world = startCrowdedWorld({}, { request_timeout_seconds: '1' })
    const { hostname, port, host } = new URL(world.url)
    const socket = connect(Number(port), hostname)
    let received = ''
    socket.on('data', (data: Buffer) => (received += data))
    const closed = new Promise((resolve) => socket.on('close', resolve))
    const head = [
      `PUT /v1/buckets/0123456789abcdef0123456789abcdef${one} HTTP/1.1`,
      `Host: ${host}`,
      'Authorization: Bearer anybody',
      'X-KeyID: 1-ASNFZ4mrze8BI0VniavN7w',
      'Content-Type: application/json',
      'Content-Length: 1000',
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n{"data":`)
    await eventually('it is in flight', () => world.server.pendingRequests === 1)

    world.pass(1000)
    await closed
    await world.stop()

    expect(received).toStartWith('HTTP/1.1 400 ')
    expect(received).toMatch(/^Connection: close\r$/im)
    expect(received).toMatch(/^X-Request-Id: /im)
    expect(JSON.parse(received.slice(received.indexOf('\r\n\r\n')))).toMatchObject({
      errno: 109,
      details: [{ location: 'body', name: 'body', description: 'was not received in time' }],
    })
  })
})
