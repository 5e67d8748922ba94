import { afterEach, describe, expect, it } from 'bun:test'
import { connect } from 'node:net'

import { AnswerStreams } from '../../src/routes/streams.ts'
import { sourceOf } from '../support/byte-source.ts'
import { eventually } from '../support/eventually.ts'
import { one, startCrowdedWorld } from './crowded-world.ts'

import type { Socket } from 'node:net'
import type { Release } from '../../src/routes/load-shedding.ts'
import type { AnswerStreamsOptions } from '../../src/routes/streams.ts'
import type { CrowdedWorld } from './crowded-world.ts'

const request = () => new Request('http://bridge/')

/** Streams whose time passes, and whose operating system sends, when they are told to. */
function createStreams(options: Partial<AnswerStreamsOptions> = {}) {
  let nowMs = 0
  const unsent = new Map<Request, number>()
  const cut: Request[] = []
  const rejections: string[] = []
  const streams = new AnswerStreams({
    maxOfUser: 8,
    now: () => nowMs,
    unsentBytes: (requests) => requests.map((each) => unsent.get(each) ?? null),
    cut: (each) => void cut.push(each),
    observeRejection: (reason) => void rejections.push(reason),
    ...options,
  })
  return {
    streams,
    unsent,
    cut,
    rejections,
    pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 100) {
        nowMs += 100
        streams.check()
      }
    },
  }
}

/** A list without an end, in pieces of so many bytes. */
function endless(bytes = 100_000) {
  let isCancelled = false
  const stream = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => controller.enqueue(new Uint8Array(bytes)),
      cancel: () => void (isCancelled = true),
    },
    { highWaterMark: 0 },
  )
  return { stream: sourceOf(stream), isCancelled: () => isCancelled }
}

/** Sends a body, and what its reader does. */
function send(
  { streams }: ReturnType<typeof createStreams>,
  body: Parameters<AnswerStreams['send']>[0],
  ended = () => {},
) {
  const asked = request()
  let endings = 0
  const sent = streams.send(body, asked, () => {
    endings += 1
    ended()
  })
  const reader = (sent as ReadableStream<Uint8Array>).getReader()
  return { asked, reader, endings: () => endings }
}

describe('AnswerStreams.acquire', () => {
  it('lets a user have eight lists in flight, and the ninth when one of them ends', async () => {
    const { streams } = createStreams()
    const permits = Array.from({ length: 8 }, () => streams.acquire('greedy'))
    const ninth = streams.acquire('greedy')
    let hasBegun = false
    void Promise.resolve(ninth).then(() => (hasBegun = true))

    expect(permits.some((permit) => permit instanceof Promise)).toBe(false)
    expect(streams.acquire('another')).not.toBeInstanceOf(Promise)
    await Promise.resolve()
    expect(hasBegun).toBe(false)
    const [first] = await Promise.all(permits)
    first!()
    first!()

    expect(await ninth).not.toBeNull()
    expect(streams.acquire('greedy')).toBeInstanceOf(Promise)
  })

  it('gives up after ten seconds of waiting', async () => {
    const { streams, pass, rejections } = createStreams({ maxOfUser: 1 })
    await streams.acquire('greedy')
    const late = streams.acquire('greedy')

    pass(10_000)

    expect(await late).toBeNull()
    expect(rejections).toEqual(['list'])
  })

  it('lets one user have all 48 when there is to be no limit', () => {
    const { streams } = createStreams({ maxOfUser: 0 })

    const permits = Array.from({ length: 49 }, () => streams.acquire('greedy'))

    expect(permits.filter((permit) => permit instanceof Promise)).toHaveLength(1)
  })

  it('keeps the last places for users who have hardly any, however many of others wait', async () => {
    const { streams } = createStreams()
    for (let index = 0; index < 300; index++) void streams.acquire(`greedy ${index % 6}`)

    const modest = Array.from({ length: 8 }, (_, index) => streams.acquire(`modest ${index}`))
    const late = streams.acquire('late')
    ;(modest[0] as Release)()

    expect(modest.some((permit) => permit instanceof Promise)).toBe(false)
    expect(late).toBeInstanceOf(Promise)
    expect(await late).not.toBeNull()
  })
})

describe('AnswerStreams.send', () => {
  it('sends a body whole, in pieces', async () => {
    const world = createStreams()
    const text = 'äb'.repeat(100_000)
    let endings = 0

    const sent = world.streams.send(text, request(), () => (endings += 1))

    expect(endings).toBe(0)
    expect(await new Response(sent).text()).toBe(text)
    expect([endings, world.streams.active]).toEqual([1, 0])
  })

  it('hands over first what fits beside the head, and large pieces to those who take them', async () => {
    const { reader } = send(createStreams(), new Uint8Array(300_000))

    const lengths: number[] = []
    for (let piece = await reader.read(); !piece.done; piece = await reader.read())
      lengths.push(piece.value.length)

    expect(lengths).toEqual([8192, 65_536, 131_072, 300_000 - 8192 - 65_536 - 131_072])
  })

  it('passes on a stream that breaks', async () => {
    const world = createStreams()
    const broken = new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error('gone')) })

    const { reader, endings } = send(world, sourceOf(broken))

    await expect(reader.read()).rejects.toThrow('gone')
    expect([endings(), world.streams.active]).toEqual([1, 0])
  })

  it('ends a reader who takes nothing for half a minute, once it was looked at', async () => {
    const world = createStreams()
    const { stream, isCancelled } = endless()
    const { asked, reader, endings } = send(world, stream)
    await reader.read()

    world.pass(34_900)
    expect(world.cut).toEqual([])
    world.pass(100)

    expect(world.cut).toEqual([asked])
    expect([endings(), isCancelled(), world.streams.active]).toEqual([1, true, 0])
    await expect(reader.read()).rejects.toThrow()
    expect(world.rejections).toEqual(['slow-reader'])
  })

  it('spares a reader to whom the operating system has sent more than 1 KiB a second meanwhile', async () => {
    const world = createStreams()
    const { asked, reader } = send(world, endless().stream)
    await reader.read()
    world.unsent.set(asked, 2_000_000)

    for (let second = 0; second < 300; second++) {
      world.pass(1000)
      world.unsent.set(asked, world.unsent.get(asked)! - 1100)
    }
    expect(world.cut).toEqual([])

    world.pass(65_000)
    expect(world.cut).toEqual([asked])
  })

  it('ends one who takes less than that', async () => {
    const world = createStreams()
    const { asked, reader } = send(world, endless().stream)
    await reader.read()
    world.unsent.set(asked, 2_000_000)

    for (let second = 0; second < 40; second++) {
      world.pass(1000)
      world.unsent.set(asked, world.unsent.get(asked)! - 900)
    }

    expect(world.cut).toEqual([asked])
  })

  it('never blames a reader for a storage that is slow', async () => {
    const world = createStreams()
    let controller!: ReadableStreamDefaultController<Uint8Array>
    const slow = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) })
    const { reader } = send(world, sourceOf(slow))

    for (let minute = 0; minute < 10; minute++) {
      const piece = reader.read()
      // The stream asks its source once the last piece is settled.
      await Bun.sleep(0)
      world.pass(60_000)
      controller.enqueue(new Uint8Array(10))
      await piece
    }

    expect(world.cut).toEqual([])
  })

  it('makes room for others when nearly all places are taken by readers that are slow', async () => {
    const world = createStreams()
    const all = Array.from({ length: 48 }, (_, index) => {
      const release = world.streams.acquire(`user ${index % 24}`) as Release
      return send(world, endless(1_000_000).stream, release)
    })
    for (const [index, { reader }] of all.entries()) {
      // The last ten have taken much more than the buffers of the operating system hold.
      for (let pieces = 0; pieces < (index < 38 ? 10 : 200); pieces++) await reader.read()
    }

    world.pass(3000)

    expect(world.streams.active).toBe(39)
    expect(world.cut.some((asked) => all.slice(38).some((each) => each.asked === asked))).toBe(false)
  })

  it('gives up the whole answers that have cost most when their memory is needed', async () => {
    const world = createStreams({ maxHeldBytes: 1_000_000 })
    const unread = Array.from({ length: 10 }, () => send(world, new Uint8Array(100_000)))
    world.pass(1000)

    const late = send(world, 'x'.repeat(200_000))

    expect(world.cut).toHaveLength(2)
    expect(unread.map(({ endings }) => endings())).toEqual([1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    let bytes = 0
    for (let piece = await late.reader.read(); !piece.done; piece = await late.reader.read())
      bytes += piece.value.length
    expect(bytes).toBe(200_000)
  })
})

describe('a user who does not read', () => {
  const worlds: CrowdedWorld[] = []
  const sockets: Socket[] = []
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy()
    await Promise.all(worlds.splice(0).map((world) => world.stop()))
  })

  /** Asks for a list and takes nothing of it; whether its connection was ended. */
  function askWithoutReading(world: CrowdedWorld, user: string) {
    const { hostname, port, host } = new URL(world.url)
    const socket = connect(Number(port), hostname).pause()
    sockets.push(socket)
    const path = '/v1/buckets/0123456789abcdef0123456789abcdef/collections/tabs/records'
    const headers = `Authorization: Bearer ${user}\r\nX-KeyID: 1-ASNFZ4mrze8BI0VniavN7w`
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n\r\n`)
    let isClosed = false
    socket.on('close', () => (isClosed = true))
    socket.on('error', () => {})
    return { resume: () => void socket.resume(), isClosed: () => isClosed }
  }

  it('gets eight lists, others as many, and is ended after half a minute', async () => {
    const world = startCrowdedWorld({ maxRequests: 512, maxRequestsOfUser: 8 }, {}, { endlessLists: true })
    worlds.push(world)
    world.answerAll()
    const stalled = Array.from({ length: 64 }, () => askWithoutReading(world, 'greedy'))
    await eventually('eight have begun', () => Promise.resolve(world.server.pendingRequests === 64))

    const others = await Promise.all(
      Array.from({ length: 8 }, (_, index) => world.begin(`user-${index}`, '/collections/tabs/records')),
    )
    expect(others.map(({ status }) => status)).toEqual(Array(8).fill(200))
    await Promise.all(others.map(({ body }) => body!.cancel()))
    expect(world.reached()).toBe(16)

    world.wallClock.pass(10_000)
    await eventually('the others are rejected', () => Promise.resolve(world.server.pendingRequests === 8))
    expect(world.clock.rejections).toMatchObject({ list: 56, 'slow-reader': 0 })
    world.wallClock.pass(35_000)
    world.wallClock.pass(35_000)

    expect(world.clock.rejections).toMatchObject({ 'slow-reader': 8 })
    for (const each of stalled) each.resume()
    await eventually('their connections are ended', () =>
      Promise.resolve(stalled.filter(({ isClosed }) => isClosed()).length >= 8),
    )
    expect((await world.ask('greedy', one)).status).toBe(200)
  }, 15_000)
})
