import { describe, expect, it } from 'bun:test'
import { Together } from '../../src/upstream/together.ts'

describe('Together', () => {
  it('lets all who wait go on in one turn, after whatever was to be done before', async () => {
    const together = new Together()
    const order: string[] = []
    const one = together.wait().then(() => order.push('one'))
    const other = Promise.resolve()
      .then(() => order.push('before'))
      .then(() => together.wait())
      .then(() => order.push('other'))
    await Promise.all([one, other])

    expect(order).toEqual(['before', 'one', 'other'])
  })

  it('makes those who come later wait for the next turn', async () => {
    const together = new Together()
    const first = together.wait()
    await first

    expect(together.wait()).not.toBe(first)
  })
})
