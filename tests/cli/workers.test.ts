import { describe, expect, it } from 'bun:test'

import { Workers } from '../../src/cli/workers.ts'

import type { MetricFamily } from '../../src/observability/metric-families.ts'
import type { FromChild, ToWorker } from '../../src/cli/processes.ts'

/** A process that does as the test says. */
interface Puppet {
  told: ToWorker[]
  killed: boolean
  say(message: FromChild): void
  end(how: number | string): Promise<void>
}

/** Workers whose processes are puppets, with a clock that the test sets forward. */
function createTroupe(count: number, options: { spawnFails?: () => boolean } = {}) {
  const puppets: Puppet[] = []
  const losses: [end: number | string, pauseMs: number][] = []
  const hung: number[] = []
  const sleepers: { atMs: number; wake: () => void }[] = []
  let nowMs = 0
  const workers = new Workers({
    count,
    now: () => nowMs,
    delay(ms) {
      const { promise, resolve } = Promise.withResolvers<void>()
      sleepers.push({ atMs: nowMs + ms, wake: resolve })
      return promise
    },
    timeoutMs: 10_000,
    onHang: (pid) => hung.push(pid),
    onLoss: (end, pauseMs) => losses.push([end, pauseMs]),
    start(take) {
      if (options.spawnFails?.()) throw new Error('Cannot start')
      const exited = Promise.withResolvers<number | string>()
      const puppet: Puppet = {
        told: [],
        killed: false,
        say: take,
        async end(how) {
          exited.resolve(how)
          await settle()
        },
      }
      puppets.push(puppet)
      return {
        pid: puppets.length,
        send: (message) => void puppet.told.push(message),
        signal: () => void (puppet.killed = true),
        exited: exited.promise,
      }
    },
  })
  async function pass(ms: number): Promise<void> {
    nowMs += ms
    for (const { atMs, wake } of sleepers) if (atMs <= nowMs) wake()
    await settle()
  }
  const listen = (puppet: Puppet) => puppet.say({ kind: 'listening' })
  return { workers, puppets, losses, hung, pass, listen }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}

async function startTroupe(count: number) {
  const troupe = createTroupe(count)
  const started = troupe.workers.start()
  for (const puppet of troupe.puppets) troupe.listen(puppet)
  await started
  return troupe
}

const requests = (value: number): MetricFamily[] => [
  { name: 'requests', help: '', type: 'counter', merge: 'sum', samples: [['requests', value]] },
  { name: 'in_flight', help: '', type: 'gauge', merge: 'sum', samples: [['in_flight', 1]] },
]

const figures = (families: MetricFamily[]) => Object.fromEntries(families.flatMap(({ samples }) => samples))

describe('Workers.start', () => {
  it.each([1, 2])('gives up with the exit code %d of a worker that can not start', async (code) => {
    const { workers, puppets, losses } = createTroupe(2)
    const started = workers.start()

    await puppets[0]!.end(code)

    expect(await started).toBe(code)
    expect(losses).toEqual([])
  })

  it('is not ready while one that listened is gone again', async () => {
    const { workers, puppets, listen, pass } = createTroupe(2)
    let isReady = false
    void workers.start().then(() => (isReady = true))

    listen(puppets[0]!)
    await puppets[0]!.end('SIGKILL')
    listen(puppets[1]!)
    await settle()
    expect(isReady).toBe(false)

    await pass(100)
    listen(puppets[2]!)
    await settle()
    expect(isReady).toBe(true)
  })
})

describe('a worker that dies', () => {
  it('is replaced after a pause that doubles up to 5 s', async () => {
    const { puppets, losses, pass } = await startTroupe(2)

    for (const pauseMs of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      const before = puppets.length
      await puppets.at(-1)!.end(1)
      await pass(pauseMs - 1)
      expect(puppets.length).toBe(before)
      await pass(1)
      expect(puppets.length).toBe(before + 1)
    }
    expect(losses.map(([, pauseMs]) => pauseMs)).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000])
  })

  it('is replaced after the first pause again when it has lived for 10 s', async () => {
    const { puppets, losses, pass } = await startTroupe(1)

    await puppets.at(-1)!.end(1)
    await pass(100)
    await pass(9999)
    await puppets.at(-1)!.end(1)
    await pass(200)
    await pass(10_000)
    await puppets.at(-1)!.end('SIGKILL')

    expect(losses).toEqual([
      [1, 100],
      [1, 200],
      ['SIGKILL', 100],
    ])
  })

  it('does not take the others with it, even if its successor can not start for a while', async () => {
    let isMissing = false
    const { workers, puppets, losses, pass, listen } = createTroupe(2, { spawnFails: () => isMissing })
    const started = workers.start()
    listen(puppets[0]!)
    listen(puppets[1]!)
    await started

    isMissing = true
    await puppets[0]!.end(137)
    await pass(100)
    isMissing = false
    await pass(200)

    expect(losses).toEqual([
      [137, 100],
      [1, 200],
    ])
    expect(puppets.length).toBe(3)
  })
})

describe('a worker that hangs', () => {
  const answerPings = (puppet: Puppet) => {
    const pings = puppet.told.filter(({ kind }) => kind === 'ping').length
    puppet.told = puppet.told.filter(({ kind }) => kind !== 'ping')
    for (let count = 0; count < pings; count++) puppet.say({ kind: 'pong', families: [] })
  }

  it('is not said of anybody when the supervisor itself was stopped for long', async () => {
    const { puppets, hung, pass } = await startTroupe(2)

    await pass(600_000)
    for (const puppet of puppets) answerPings(puppet)
    await pass(2000)

    expect(puppets.map(({ killed }) => killed)).toEqual([false, false])
    expect(hung).toEqual([])
  })

  it('makes the whole unresponsive if nobody takes its place within twice the timeout', async () => {
    const { workers, puppets, pass } = await startTroupe(2)
    const until = async (seconds: number) => {
      for (; seconds > 0; seconds -= 2) {
        await pass(2000)
        answerPings(puppets[0]!)
      }
    }

    await until(20)
    expect(workers.areResponsive).toBe(true)
    await until(2)
    expect(workers.areResponsive).toBe(false)
  })
})

describe('Workers', () => {
  it('stop at once where one waits for being replaced', async () => {
    const { workers, puppets } = await startTroupe(2)
    await puppets[0]!.end(1)
    const stopped = workers.stop(0)

    await puppets[1]!.end(0)

    await stopped
    expect(puppets.length).toBe(2)
  })
})

describe('the metrics of all workers', () => {
  const answer = (puppet: Puppet, value: number) => puppet.say({ kind: 'pong', families: requests(value) })
  const answered = (puppet: Puppet) => {
    const message = puppet.told.findLast(({ kind }) => kind === 'all-metrics')
    return message?.kind === 'all-metrics' ? figures(message.families) : null
  }

  it('do without a worker that is silent for 500 ms, but not without what it had counted', async () => {
    const { puppets, pass } = await startTroupe(2)
    puppets[0]!.say({ kind: 'ask-metrics' })
    answer(puppets[0]!, 1)
    answer(puppets[1]!, 10)
    await settle()

    puppets[0]!.say({ kind: 'ask-metrics' })
    answer(puppets[0]!, 2)
    await pass(499)
    expect(answered(puppets[0]!)).toEqual({ requests: 11, in_flight: 2 })
    await pass(1)

    expect(answered(puppets[0]!)).toEqual({ requests: 12, in_flight: 1 })
  })

  it('never count back when a worker dies', async () => {
    const { puppets, pass, listen } = await startTroupe(2)
    puppets[0]!.say({ kind: 'ask-metrics' })
    answer(puppets[0]!, 1)
    answer(puppets[1]!, 10)
    await puppets[1]!.end('SIGKILL')
    await pass(100)
    listen(puppets[2]!)

    puppets[0]!.say({ kind: 'ask-metrics' })
    answer(puppets[0]!, 1)
    answer(puppets[2]!, 5)
    await settle()

    expect(answered(puppets[0]!)).toEqual({ requests: 16, in_flight: 2 })
  })
})
