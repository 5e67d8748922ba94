import { afterEach, beforeEach, describe, expect, it, jest, spyOn } from 'bun:test'

import { reconnectDelayMs, RedisConnection } from '../../src/credentials/redis-connection.ts'
import { RedisError } from '../../src/credentials/redis-client.ts'
import { outcomeSoFar } from './outcome.ts'

import type { RedisClient } from '../../src/credentials/redis-client.ts'

/** One connection as the other side sees it. */
interface FakeClient {
  /** Commands that have no answer yet. */
  waiting: { command: string; answer(): void }[]
  isDestroyed: boolean
  /** Ends it from outside. */
  lose(code: string): void
}

let connection: RedisConnection
let clients: FakeClient[]
let seen: string[]
/** How the next attempts to connect go. */
let attempts: { outcome: 'success' | 'refused' | 'never'; atMs: number[] }
/** How a Redis answers that has just been asked. */
let answers: 'at once' | 'never'

beforeEach(() => {
  jest.useFakeTimers()
  clients = []
  seen = []
  attempts = { outcome: 'success', atMs: [] }
  answers = 'at once'
  connection = new RedisConnection({
    open,
    commandTimeoutMs: 100,
    random: () => 0,
    onTrouble: (trouble, code) => seen.push(code === null ? trouble : `${trouble} ${code}`),
  })
})

afterEach(() => {
  connection.close()
  jest.useRealTimers()
})

async function open(): Promise<RedisClient> {
  attempts.atMs.push(performance.now())
  if (attempts.outcome === 'refused') throw new RedisError('ECONNREFUSED')
  if (attempts.outcome === 'never') return new Promise(() => {})
  const { promise: ended, resolve } = Promise.withResolvers<string | null>()
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => {})
  const client: FakeClient = {
    waiting: [],
    isDestroyed: false,
    lose(code) {
      broken.reject(new RedisError(code))
      resolve(code)
    },
  }
  clients.push(client)
  return {
    ended,
    destroy() {
      client.isDestroyed = true
      client.lose('')
    },
    send([command]) {
      if (answers === 'at once') return Promise.resolve('OK')
      const { promise, resolve: answer } = Promise.withResolvers<unknown>()
      client.waiting.push({ command: command!, answer: () => answer('OK') })
      return Promise.race([promise, broken.promise])
    },
  }
}

/** Lets so much time pass, and everything happen that comes of it. */
async function pass(ms: number): Promise<void> {
  await settle()
  for (let left = ms; left > 0; left -= 5) {
    jest.advanceTimersByTime(Math.min(5, left))
    await settle()
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await Promise.resolve()
}

const get = () => connection.ask(['GET', 'key'])

describe('RedisConnection to a server that hangs', () => {
  beforeEach(async () => {
    await pass(5)
    answers = 'never'
  })

  it('waits 100 ms three times, then not at all', async () => {
    for (let request = 0; request < 3; request++) {
      const answer = get()
      await pass(99)
      expect(await outcomeSoFar(answer)).toBe('waits')
      await pass(1)
      expect(await outcomeSoFar(answer)).toBe('Cannot use the credential cache: no answer in time')
    }

    expect(await outcomeSoFar(get())).toBe('Cannot use the credential cache: not connected')
    expect(seen).toEqual(['timeout', 'timeout', 'timeout', 'suspended'])
  })

  it('lets nothing pile up: a thousand commands wait 100 ms together and are gone', async () => {
    const asked = Array.from({ length: 1000 }, get)
    await pass(100)

    const outcomes = await Promise.all(asked.map(outcomeSoFar))
    expect(outcomes.filter((outcome) => outcome === 'waits' || outcome === null)).toEqual([])
    expect(clients[0]!.isDestroyed).toBe(true)
    expect(seen.filter((trouble) => trouble === 'suspended')).toHaveLength(1)
  })

  it('drops the connection at the third command without an answer, and makes another one', async () => {
    const asked = Promise.allSettled([get(), get(), get()])
    await pass(99)
    expect(clients[0]!.isDestroyed).toBe(false)
    await pass(1)
    await asked

    expect(clients[0]!.isDestroyed).toBe(true)
    await pass(50)
    expect(clients).toHaveLength(2)
  })

  it('counts only commands in a row', async () => {
    for (let round = 0; round < 2; round++) {
      const asked = Promise.allSettled([get(), get()])
      await pass(100)
      await asked
      answers = 'at once'
      await get()
      answers = 'never'
    }

    expect(seen).toEqual(['timeout', 'timeout', 'timeout', 'timeout'])
    expect(clients[0]!.isDestroyed).toBe(false)
  })

  it('asks for a sign of life twice a second, and is in use again with the first', async () => {
    const asked = Promise.allSettled([get(), get(), get()])
    await pass(100)
    await asked
    await pass(499)
    expect(clients[1]!.waiting).toEqual([])
    await pass(1)
    expect(clients[1]!.waiting.map(({ command }) => command)).toEqual(['PING'])
    // Without an answer the connection goes, and the next one is asked.
    await pass(400)
    expect([clients[1]!.isDestroyed, clients.length]).toEqual([true, 3])

    answers = 'at once'
    expect(await outcomeSoFar(get())).toBe('Cannot use the credential cache: not connected')
    await pass(100)

    expect(await get()).toBe('OK')
  })
})

describe('RedisConnection in a process that stood still', () => {
  it('reads what has arrived meanwhile before it gives up', async () => {
    await pass(5)
    answers = 'never'
    const asked = [get(), get()]
    await settle()

    // The timer comes, and by then much more time has passed.
    const standstill = spyOn(performance, 'now').mockReturnValue(performance.now() + 500)
    await pass(100)
    const given = await Promise.all(asked.map(outcomeSoFar))
    standstill.mockRestore()
    clients[0]!.waiting[0]!.answer()
    await pass(24)
    const early = await Promise.all(asked.map(outcomeSoFar))
    await pass(1)

    expect(given).toEqual(['waits', 'waits'])
    expect(early).toEqual([null, 'waits'])
    expect(await outcomeSoFar(asked[1]!)).toBe('Cannot use the credential cache: no answer in time')
    expect(seen).toEqual(['timeout'])
  })
})

describe('RedisConnection to a server that is away', () => {
  it('lets nobody wait while it is known to be away', async () => {
    attempts.outcome = 'refused'
    const first = get()
    await pass(5)

    expect(await outcomeSoFar(first)).toBe('Cannot use the credential cache: not connected')
    expect(await outcomeSoFar(get())).toBe('Cannot use the credential cache: not connected')
    expect(seen).toEqual(['unreachable ECONNREFUSED'])
  })

  it('is tried for ever, every two seconds at least, and in use as soon as one attempt succeeds', async () => {
    attempts.outcome = 'refused'
    await pass(20_000)
    const pauses = attempts.atMs.slice(1).map((atMs, index) => atMs - attempts.atMs[index]!)
    attempts.outcome = 'success'
    await pass(2000)

    expect(pauses.length).toBeGreaterThan(10)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(2000)
    expect(await get()).toBe('OK')
  })

  it('is noticed at once when it goes away, and commands under way end with it', async () => {
    await pass(5)
    answers = 'never'
    const underWay = get()
    await settle()

    clients[0]!.lose('ECONNRESET')
    attempts.outcome = 'refused'

    expect(await outcomeSoFar(underWay)).toBe('Cannot use the credential cache: ECONNRESET')
    expect(await outcomeSoFar(get())).toBe('Cannot use the credential cache: not connected')
    expect(seen).toEqual(['unreachable ECONNRESET'])
  })
})

describe('RedisConnection to a server that does not even greet', () => {
  it('lets those who come first wait 500 ms together, and then nobody at all', async () => {
    attempts.outcome = 'never'
    const first = get()
    await pass(300)
    const second = get()
    await pass(199)
    expect([await outcomeSoFar(first), await outcomeSoFar(second)]).toEqual(['waits', 'waits'])
    await pass(1)

    expect(await outcomeSoFar(first)).toBe('Cannot use the credential cache: not connected')
    expect(await outcomeSoFar(second)).toBe('Cannot use the credential cache: not connected')
    expect(await outcomeSoFar(get())).toBe('Cannot use the credential cache: not connected')
  })
})

describe('reconnectDelayMs', () => {
  it('doubles from 50 ms to 2 s and stays there for ever', () => {
    const delays = [0, 1, 2, 3, 4, 5, 6, 7, 1000, 1e6].map((failures) => reconnectDelayMs(failures, 0))

    expect(delays).toEqual([50, 100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000])
  })

  it('is shortened by up to a quarter', () => {
    expect(reconnectDelayMs(1000, 0.5)).toBe(1750)
    expect(reconnectDelayMs(0, 1)).toBe(37.5)
  })
})
