import { describe, expect, it } from 'bun:test'

import { RefusalPace } from '../../src/routes/refusal-pace.ts'

/** So many turns asked for: how many of them were given at once, and in what order the others came. */
function ask(pace: RefusalPace, turns: number) {
  const released: number[] = []
  let atOnce = 0
  for (let index = 0; index < turns; index++) {
    const turn = pace.turn()
    if (turn === null) atOnce += 1
    else void turn.then(() => released.push(index))
  }
  return { atOnce, released }
}

describe('RefusalPace', () => {
  it('lets 100 refusals go at once, and the next ones in the following windows, in their order', async () => {
    const pace = new RefusalPace()

    const { atOnce, released } = ask(pace, 250)

    expect({ atOnce, waiting: pace.waiting }).toEqual({ atOnce: 100, waiting: 150 })
    pace.beginWindow(0)
    await Promise.resolve()
    expect(released).toEqual(Array.from({ length: 100 }, (_, index) => 100 + index))
    expect(ask(pace, 1)).toMatchObject({ atOnce: 0 })
    pace.beginWindow(0)
    await Promise.resolve()
    expect(released).toHaveLength(150)
    expect(pace.waiting).toBe(0)
  })

  it('gives what those who waited have left to those who come', () => {
    const pace = new RefusalPace()
    ask(pace, 130)

    pace.beginWindow(0)

    expect(ask(pace, 300).atOnce).toBe(70)
  })

  it('lets a quarter as many go as were admitted, when that is more', () => {
    const pace = new RefusalPace()

    pace.beginWindow(803)

    expect(ask(pace, 1000).atOnce).toBe(200)
  })

  it('saves nothing for later', () => {
    const pace = new RefusalPace()

    for (let count = 0; count < 10; count++) pace.beginWindow(0)

    expect(ask(pace, 300).atOnce).toBe(100)
  })

  it('keeps 4096 waiting at most', () => {
    const pace = new RefusalPace()

    const { atOnce } = ask(pace, 5000)

    expect(atOnce).toBe(5000 - 4096)
    expect(pace.waiting).toBe(4096)
  })
})
