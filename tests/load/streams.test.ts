import { describe, expect, it } from 'bun:test'

import { limits } from '../../src/load/limits.ts'
import { ResponseStreams, type ResponseStreamsOptions, type StreamEnd } from '../../src/load/streams.ts'
import { sourceOf } from '../support/byte-source.ts'

const request = () => new Request('http://bridge/')

/** Streams with a controlled clock. */
function createStreams(options: Partial<ResponseStreamsOptions> = {}) {
  let nowMs = 0
  const disconnected: Request[] = []
  const rejections: string[] = []
  const streams = new ResponseStreams({
    now: () => nowMs,
    disconnect: (each) => void disconnected.push(each),
    observeRejection: (reason) => void rejections.push(reason),
    reportGarbage() {},
    ...options,
  })
  return {
    streams,
    disconnected,
    rejections,
    pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 100) {
        nowMs += 100
        streams.check()
      }
    },
  }
}

/** An endless list in chunks of that many bytes. */
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

/** Sends a body, and controls its reader. */
function send({ streams }: ReturnType<typeof createStreams>, body: Parameters<ResponseStreams['send']>[0]) {
  const asked = request()
  const endings: StreamEnd[] = []
  const reader = streams.send(body, asked, (end) => endings.push(end)).getReader()
  return { asked, reader, endings }
}

describe('ResponseStreams.send', () => {
  it('sends a body completely, in chunks', async () => {
    const world = createStreams()
    const text = 'äb'.repeat(100_000)
    const endings: StreamEnd[] = []
    const sent = world.streams.send(text, request(), (end) => endings.push(end))

    expect(endings).toEqual([])
    expect(await new Response(sent).text()).toBe(text)
    expect(endings).toEqual([{ bytes: 300_000, failure: null }])
  })

  it('disconnects a reader that reads nothing for as long as the limit', async () => {
    const world = createStreams()
    const { stream, isCancelled } = endless()
    const { asked, reader, endings } = send(world, stream)
    await reader.read()

    world.pass(limits.stalledReaderMs - 100)
    expect(world.disconnected).toEqual([])
    world.pass(100)

    expect(world.disconnected).toEqual([asked])
    expect([endings.length, isCancelled()]).toEqual([1, true])
    await expect(reader.read()).rejects.toThrow()
    expect(world.rejections).toEqual(['stalled-reader'])
  })

  it('spares a reader that reads a chunk from time to time', async () => {
    const world = createStreams()
    const { reader } = send(world, endless().stream)

    for (let piece = 0; piece < 10; piece += 1) {
      await reader.read()
      world.pass(limits.stalledReaderMs - 10_000)
    }

    expect(world.disconnected).toEqual([])
  })

  it('never blames a reader for a slow storage', async () => {
    const world = createStreams()
    let controller!: ReadableStreamDefaultController<Uint8Array>
    const slow = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) })
    const { reader } = send(world, sourceOf(slow))

    for (let minute = 0; minute < 10; minute++) {
      const piece = reader.read()
      // The stream reads its source when the last chunk has been sent.
      await Bun.sleep(0)
      world.pass(limits.stalledReaderMs)
      controller.enqueue(new Uint8Array(10))
      await piece
    }

    expect(world.disconnected).toEqual([])
  })

  it('disconnects the list that has stalled longest, for long enough, if another one waits for its permit', async () => {
    const world = createStreams()
    let hasWaiters = false
    const open = (isWanted = () => hasWaiters) => send(world, { ...endless().stream, hasWaiters: isWanted })
    const elsewhere = open(() => false)
    await elsewhere.reader.read()
    const [longest, second] = [open(), open()]
    await longest.reader.read()
    world.pass(1000)
    await second.reader.read()

    world.pass(2 * limits.yieldAfterMs)
    expect(world.disconnected).toEqual([])
    hasWaiters = true
    world.pass(100)
    expect(world.disconnected).toEqual([longest.asked])

    await second.reader.read()
    world.pass(limits.yieldAfterMs - 100)
    expect(world.disconnected).toHaveLength(1)
    world.pass(100)
    expect(world.disconnected).toEqual([longest.asked, second.asked])
    world.pass(10_000)
    expect(world.disconnected).toHaveLength(2)
  })
})
