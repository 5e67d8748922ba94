import { afterEach, describe, expect, it } from 'bun:test'
import { connect } from 'node:net'

import { BodyBudget } from '../../src/routes/body.ts'
import { eventually } from '../support/eventually.ts'
import { one, startCrowdedWorld } from './crowded-world.ts'

import type { Socket } from 'node:net'
import type { BodyBudgetOptions, IncomingBody } from '../../src/routes/body.ts'
import type { CrowdedWorld } from './crowded-world.ts'

const farFuture = 1_000_000

/** A budget whose time passes when it is told to. */
function createBudget(options: Partial<BodyBudgetOptions> = {}) {
  let nowMs = 0
  const budget = new BodyBudget({
    maxBytes: 100,
    now: () => nowMs,
    observeDrop() {},
    totalBytes: 400,
    ...options,
  })
  return {
    budget,
    pass(ms: number) {
      nowMs += ms
      budget.expire()
    },
  }
}

const jsonType = { 'Content-Type': 'application/json' }

function post(body: BodyInit, headers: Record<string, string> = {}): Request {
  return new Request('http://bridge/', { method: 'POST', body, headers: { ...jsonType, ...headers } })
}

/** A body that comes piece by piece, when it is told to. */
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
    break: () => controller.error(new Error('The client has left')),
    isCancelled: () => isCancelled,
  }
}

/** The pieces that were sent have been read. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}

async function receive(
  budget: BodyBudget,
  ...args: Parameters<BodyBudget['receive']>
): Promise<IncomingBody> {
  const body = budget.receive(...args)
  await body.arrived
  return body
}

const textOf = (body: IncomingBody, owner = 'somebody') =>
  body.parse(owner, (bytes) => new TextDecoder().decode(bytes))

describe('BodyBudget', () => {
  it('reads a body in pieces up to the limit, and frees its memory at the end', async () => {
    const { budget } = createBudget({ maxBytes: 7 })
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream), 'somebody', farFuture)
    for (const piece of ['{"a"', ':1', '}']) slow.send(piece)
    slow.end()

    const body = await receiving

    expect(budget.heldBytes).toBe(7)
    expect(textOf(body)).toBe('{"a":1}')
    expect(budget.heldBytes).toBe(7)
    body.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('refuses one that is a byte too long with 413, and stops reading', async () => {
    const { budget } = createBudget({ maxBytes: 7 })
    const slow = slowBody()
    const announced = receive(budget, post('', { 'Content-Length': '8' }), 'somebody', farFuture)
    await expect(announced).rejects.toMatchObject({ status: 413, errno: 113 })

    const receiving = receive(budget, post(slow.stream), 'somebody', farFuture)
    slow.send('1234567')
    slow.send('8')

    await expect(receiving).rejects.toMatchObject({
      status: 413,
      extras: { headers: { Connection: 'close' } },
    })
    expect([slow.isCancelled(), budget.heldBytes]).toEqual([true, 0])
  })

  it('is empty where there is none', async () => {
    const { budget } = createBudget()

    const body = await receive(budget, new Request('http://bridge/', { method: 'PUT' }), 'x', farFuture)

    expect(textOf(body)).toBe('')
  })

  it('gives up a body whose first byte does not come within ten seconds', async () => {
    const { budget, pass } = createBudget()
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream), 'somebody', 30_000)

    pass(9999)
    expect(slow.isCancelled()).toBe(false)
    pass(1)

    await expect(receiving).rejects.toMatchObject({ status: 400, errno: 109 })
    expect(slow.isCancelled()).toBe(true)
  })

  it('gives up a body at the deadline of its request, however it drips', async () => {
    const { budget, pass } = createBudget()
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream), 'somebody', 30_000)

    for (let second = 0; second < 29; second++) {
      slow.send('x')
      await settle()
      pass(1000)
    }
    expect([slow.isCancelled(), budget.heldBytes > 0]).toEqual([false, true])
    pass(1000)

    await expect(receiving).rejects.toMatchObject({
      status: 400,
      message: 'body: was not received in time',
      extras: { headers: { Connection: 'close' } },
    })
    expect(budget.heldBytes).toBe(0)
  })

  it('frees the memory of a body whose sender has left', async () => {
    const { budget } = createBudget()
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream), 'somebody', farFuture)
    slow.send('x'.repeat(50))
    await settle()

    slow.break()

    await expect(receiving).rejects.toMatchObject({ status: 400 })
    expect(budget.heldBytes).toBe(0)
  })

  it('drops the body that has cost most when the memory is full, and receives those that come at once', async () => {
    const { budget, pass } = createBudget()
    const stalled = Array.from({ length: 4 }, (_, index) => {
      const slow = slowBody()
      const receiving = receive(budget, post(slow.stream), `stranger ${index}`, farFuture)
      receiving.catch(() => {})
      slow.send('x'.repeat(99))
      return { slow, receiving }
    })
    await settle()
    pass(1000)

    const bodies = []
    for (let index = 0; index < 100; index++) {
      bodies.push(await receive(budget, post('{"data":{}}'), `user ${index}`, farFuture))
      bodies.at(-1)!.release()
    }

    expect(bodies).toHaveLength(100)
    expect(budget.heldBytes).toBeLessThanOrEqual(400)
    await expect(stalled[0]!.receiving).rejects.toMatchObject({
      status: 503,
      errno: 201,
      extras: { headers: { Connection: 'close' } },
    })
    expect(stalled.map(({ slow }) => slow.isCancelled())).toEqual([true, false, false, false])
  })

  it('also drops one that has arrived while its credentials are still unproven, never one that is being used', async () => {
    const { budget, pass } = createBudget()
    const used = await receive(budget, post('x'.repeat(100)), 'user', farFuture)
    textOf(used, 'user')
    const unproven = await receive(budget, post('x'.repeat(100)), 'stranger', farFuture)
    const others = [1, 2].map((user) => receive(budget, post('x'.repeat(100)), `user ${user}`, farFuture))
    for (const [user, body] of (await Promise.all(others)).entries()) textOf(body, `user ${user}`)
    pass(10)

    const late = await receive(budget, post('{}'), 'another', farFuture)

    expect(() => textOf(unproven)).toThrow(expect.objectContaining({ status: 503 }))
    expect(textOf(late, 'another')).toBe('{}')
    expect(budget.heldBytes).toBe(302)
    await expect(receive(budget, post('x'.repeat(99)), 'one more', farFuture)).rejects.toMatchObject({
      status: 503,
    })
  })

  it('gives one caller a quarter of the memory', async () => {
    const { budget } = createBudget({ maxBytes: 50 })
    const bodies = [1, 2].map(() => receive(budget, post('x'.repeat(50)), 'greedy', farFuture))
    for (const body of await Promise.all(bodies)) textOf(body, 'greedy')

    await expect(receive(budget, post('x'), 'greedy', farFuture)).rejects.toMatchObject({ status: 503 })

    const modest = await receive(budget, post('x'), 'modest', farFuture)
    expect(textOf(modest)).toBe('x')
  })

  it('counts what strangers sent as that of the user whom their credentials stand for', async () => {
    const { budget } = createBudget({ maxBytes: 50 })
    const bodies = ['first', 'second', 'third'].map((name) =>
      receive(budget, post('x'.repeat(50)), `token ${name}`, farFuture),
    )
    const [first, second, third] = await Promise.all(bodies)
    textOf(first!, 'greedy')
    textOf(second!, 'greedy')

    expect(() => textOf(third!, 'greedy')).toThrow(expect.objectContaining({ status: 503 }))

    for (const body of [first!, second!, third!]) body.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('lets go of a body that nobody waits for any more', async () => {
    const { budget } = createBudget()
    const slow = slowBody()
    const body = budget.receive(post(slow.stream), 'somebody', farFuture)
    slow.send('x'.repeat(50))
    await settle()

    body.release()
    await settle()

    expect([slow.isCancelled(), budget.heldBytes]).toEqual([true, 0])
  })

  it('receives a small body whole, and reserves its memory at once', async () => {
    const { budget } = createBudget()
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream, { 'Content-Length': '9' }), 'somebody', farFuture)
    expect(budget.heldBytes).toBe(9)
    slow.send('{"data"')
    slow.send(':1')
    slow.end()

    const body = await receiving

    expect([body.isWhole, textOf(body)]).toEqual([true, '{"data":1'])
    body.release()
    expect(budget.heldBytes).toBe(0)
  })

  it('gives up a small body that does not come at 2 KB/s, after the time of the first byte', async () => {
    const { budget, pass } = createBudget()
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream, { 'Content-Length': '100' }), 'somebody', 30_000)
    slow.send('x')
    await settle()

    pass(10_049)
    expect(budget.heldBytes).toBe(100)
    pass(1)

    await expect(receiving).rejects.toMatchObject({
      status: 400,
      message: 'body: was not received in time',
      extras: { headers: { Connection: 'close' } },
    })
    expect(budget.heldBytes).toBe(0)
  })

  it('gives up a small body at the deadline of its request', async () => {
    const { budget, pass } = createBudget()
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream, { 'Content-Length': '100' }), 'somebody', 1000)

    pass(1000)

    await expect(receiving).rejects.toMatchObject({ status: 400, errno: 109 })
  })

  it('frees the memory of a small body whose sender has left, or that nobody waits for', async () => {
    const { budget } = createBudget()
    const [left, released] = [slowBody(), slowBody()]
    const init = { 'Content-Length': '100' }
    const leaving = receive(budget, post(left.stream, init), 'somebody', farFuture)
    const body = budget.receive(post(released.stream, init), 'another', farFuture)
    left.send('x')
    expect(budget.heldBytes).toBe(200)

    left.break()
    body.release()

    await expect(leaving).rejects.toMatchObject({ status: 400, errno: 109 })
    await body.arrived
    expect([body.isWhole, budget.heldBytes]).toEqual([false, 0])
  })

  it('drops a small body that has cost most when the memory is full', async () => {
    const { budget, pass } = createBudget()
    const slow = slowBody()
    const length = { 'Content-Length': '100' }
    const stalled = receive(budget, post(slow.stream, length), 'stranger', farFuture)
    stalled.catch(() => {})
    pass(1000)
    const others = [1, 2, 3].map((user) =>
      receive(budget, post('x'.repeat(100), length), `user ${user}`, farFuture),
    )
    await Promise.all(others)

    await receive(budget, post('{}', { 'Content-Length': '2' }), 'another', farFuture)

    await expect(stalled).rejects.toMatchObject({ status: 503, errno: 201 })
  })

  it('holds a body that comes byte by byte in little more memory than it has', async () => {
    const { budget } = createBudget({ maxBytes: 100_000, totalBytes: 1_000_000 })
    const slow = slowBody()
    const receiving = receive(budget, post(slow.stream), 'somebody', farFuture)
    for (let byte = 0; byte < 3000; byte++) slow.send('x')
    slow.end()

    const body = await receiving

    expect(textOf(body)).toHaveLength(3000)
    expect(budget.heldBytes).toBeLessThan(6000)
  })
})

describe('bodies under way', () => {
  const worlds: CrowdedWorld[] = []
  const sockets: Socket[] = []
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy()
    await Promise.all(worlds.splice(0).map((world) => world.stop()))
  })

  function start(...options: Parameters<typeof startCrowdedWorld>): CrowdedWorld {
    const world = startCrowdedWorld(...options)
    worlds.push(world)
    return world
  }

  /** Sends the head of a PUT and the beginning of its body; what comes back, once the connection is closed. */
  function stall(world: CrowdedWorld, beginning: string, authorization = 'Bearer anybody'): Promise<string> {
    const { hostname, port, host } = new URL(world.url)
    const socket = connect(Number(port), hostname)
    sockets.push(socket)
    const path = `/v1/buckets/0123456789abcdef0123456789abcdef${one}`
    const head = [
      `PUT ${path} HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: ${authorization}`,
      'X-KeyID: 1-ASNFZ4mrze8BI0VniavN7w',
      'Content-Type: application/json',
      'Content-Length: 1000',
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n${beginning}`)
    return new Promise((resolve) => {
      let received = ''
      socket.on('data', (data: Buffer) => (received += data))
      socket.on('close', () => resolve(received))
      socket.on('error', () => {})
    })
  }

  it('take nobody’s place, however many stall', async () => {
    const world = start({ maxRequests: 5, maxRequestsOfUser: 1 })
    world.answerAll()
    const stalled = Array.from({ length: 50 }, (_, index) => stall(world, '{', `Bearer stranger-${index}`))
    await eventually('all are under way', () => Promise.resolve(world.server.pendingRequests === 50))

    const answers = await Promise.all([1, 2, 3].map((user) => world.ask(`user-${user}`, one)))

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(world.clock.rejections).toMatchObject({ limit: 0, lag: 0, user: 0 })
    world.wallClock.pass(30_000)
    for (const received of await Promise.all(stalled)) expect(received).toStartWith('HTTP/1.1 400 ')
  })

  it('are answered at the deadline of the request, and the connection is closed', async () => {
    const world = start({}, { request_timeout_seconds: '1' })
    const answer = stall(world, '{"data":')
    await eventually('it is under way', () => Promise.resolve(world.server.pendingRequests === 1))

    world.wallClock.pass(1000)

    const received = await answer
    expect(received).toStartWith('HTTP/1.1 400 ')
    expect(received).toMatch(/^Connection: close\r$/im)
    expect(received).toMatch(/^X-Request-Id: /im)
    expect(JSON.parse(received.slice(received.indexOf('\r\n\r\n')))).toMatchObject({
      errno: 109,
      details: [{ location: 'body', name: 'body', description: 'was not received in time' }],
    })
  })
})
