import { describe, expect, it } from 'bun:test'

import { Locks, RecentMap, runBounded } from '../../src/domain/bounded.ts'

describe('RecentMap', () => {
  it('evicts the entry unused for longest', () => {
    const map = new RecentMap<string, number>(2)
    map.set('a', 1)
    map.set('b', 2)

    map.get('a')
    map.set('c', 3)

    expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([1, undefined, 3])
    expect(map.values()).toHaveLength(2)
  })

  it('never grows beyond its bound', () => {
    const map = new RecentMap<number, number>(100)

    for (let key = 0; key < 10_000; key++) {
      map.set(key, key)
      expect(map.values().length).toBeLessThanOrEqual(100)
    }

    for (let key = 9950; key < 10_000; key++) expect(map.get(key)).toBe(key)
  })
})

/** Holds names until `release`; `entered` resolves once it holds them. */
function holder(locks: Locks, names: string[], withinMs = 1000) {
  const [entered, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const ended = locks.hold(names, withinMs, () => {
    entered.resolve()
    return left.promise
  })
  return { entered: entered.promise, leave: left.resolve, ended }
}

describe('Locks', () => {
  it('admits tasks with a common name in sequence, in order of arrival', async () => {
    const locks = new Locks()
    const entered: number[] = []
    let inside = 0
    let maxInside = 0

    await Promise.all(
      Array.from({ length: 20 }, (_, place) =>
        locks.hold(place % 2 ? ['a', 'b', 'a'] : ['b', 'a'], 1000, async () => {
          entered.push(place)
          inside += 1
          maxInside = Math.max(maxInside, inside)
          await Bun.sleep(0)
          inside -= 1
        }),
      ),
    )

    expect(maxInside).toBe(1)
    expect(entered).toEqual(entered.toSorted((a, b) => a - b))
    await Bun.sleep(0)
    expect(locks.size).toBe(0)
  })

  it("returns the task's result, and admits the next one if it throws", async () => {
    const locks = new Locks()

    const failing = locks.hold(['a'], 1000, () => Promise.reject(new Error('failed')))
    const next = locks.hold(['a'], 1000, async () => 'next')

    await expect(failing).rejects.toThrow('failed')
    expect(await next).toBe('next')
  })

  it('rejects a waiter that timed out, and admits the next one only after the first', async () => {
    const locks = new Locks()
    const first = holder(locks, ['a'])
    await first.entered

    const impatient = holder(locks, ['b', 'a'], 5)
    const patient = holder(locks, ['a'])
    const order: string[] = []
    void patient.entered.then(() => order.push('patient'))

    await expect(impatient.ended).rejects.toMatchObject({ failure: 'overload', applied: 'no' })
    // A task without a common name does not wait.
    await locks.hold(['b'], 1000, async () => {})
    expect(order).toEqual([])
    order.push('first')
    first.leave()
    await patient.entered
    patient.leave()
    await patient.ended
    expect(order).toEqual(['first', 'patient'])
    await locks.hold(['a', 'b'], 1000, async () => {})
    await Bun.sleep(0)
    expect(locks.size).toBe(0)
  })
})

describe('runBounded', () => {
  it('runs all tasks, no more than the limit at a time', async () => {
    let [inFlight, most, done] = [0, 0, 0]
    const task = async () => {
      most = Math.max(most, (inFlight += 1))
      await Promise.resolve()
      inFlight -= 1
      done += 1
    }

    await runBounded(Array<typeof task>(10).fill(task), 3)

    expect([most, done]).toEqual([3, 10])
  })

  it('rejects with the first failure, after those in flight, and starts no more', async () => {
    const started: number[] = []
    const ended: number[] = []
    const tasks = Array.from({ length: 6 }, (_, index) => async () => {
      started.push(index)
      await Promise.resolve()
      if (index === 1) throw new Error('The second one failed')
      await Bun.sleep(0)
      ended.push(index)
    })

    const failure = await runBounded(tasks, 2).catch((error: unknown) => error)

    expect(failure).toEqual(new Error('The second one failed'))
    expect([started, ended]).toEqual([[0, 1], [0]])
  })
})
