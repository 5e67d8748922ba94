import { describe, expect, it } from 'bun:test'
import { Locks } from '../../src/batch/locks.ts'

describe('Locks', () => {
  it('lets callers with a common name in one after the other, in the order of asking', async () => {
    const locks = new Locks()
    const entered: number[] = []
    let inside = 0
    let mostInside = 0

    await Promise.all(
      Array.from({ length: 20 }, async (_, place) => {
        const release = await locks.acquire(place % 2 ? ['a', 'b'] : ['b', 'a'], 1000)
        entered.push(place)
        inside += 1
        mostInside = Math.max(mostInside, inside)
        await Promise.resolve()
        inside -= 1
        release()
      }),
    )

    expect(mostInside).toBe(1)
    expect(entered).toEqual(entered.toSorted((a, b) => a - b))
    expect(locks.size).toBe(0)
  })

  it('is not confused by a name given twice or a release called twice', async () => {
    const locks = new Locks()
    const first = await locks.acquire(['a', 'a'], 1000)
    const second = locks.acquire(['a'], 1000)

    first()
    first()
    const release = await second
    let isThirdIn = false
    const third = locks.acquire(['a'], 1000).then((done) => {
      isThirdIn = true
      return done
    })
    first()
    await Promise.resolve()

    expect(isThirdIn).toBe(false)
    release()
    const lastRelease = await third
    lastRelease()
    expect(locks.size).toBe(0)
  })

  it('rejects whoever has waited too long, and lets the next one in only after the first', async () => {
    const locks = new Locks()
    const first = await locks.acquire(['a'], 1000)

    const impatient = locks.acquire(['b', 'a'], 5)
    const patient = locks.acquire(['a'], 1000)
    const order: string[] = []
    void patient.then(() => order.push('patient'))

    await expect(impatient).rejects.toMatchObject({ failure: 'overload', applied: 'no' })
    // Who has no name in common with anybody does not wait.
    ;(await locks.acquire(['b'], 1000))()
    expect(order).toEqual([])
    order.push('first')
    first()
    ;(await patient)()
    expect(order).toEqual(['first', 'patient'])
    ;(await locks.acquire(['a', 'b'], 1000))()
    expect(locks.size).toBe(0)
  })
})
