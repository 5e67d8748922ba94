import { describe, expect, it } from 'bun:test'
import { limits } from '../../src/load/limits.ts'
import { MemoryBudget, ProcessMemory } from '../../src/load/memory.ts'

describe('MemoryBudget', () => {
  it('gives one owner at most as much as remains free', () => {
    const budget = new MemoryBudget(100)

    expect(budget.open('a').tryGrow(51)).toBe(false)
    expect(budget.open('a').tryGrow(50)).toBe(true)
    expect(budget.open('a').tryGrow(1)).toBe(false)
    expect(budget.open('b').tryGrow(25)).toBe(true)
    expect(budget.open('c').tryGrow(12)).toBe(true)
    expect(budget.heldBytes).toBe(87)
  })

  it('takes back what a request held', () => {
    const budget = new MemoryBudget(100)
    const memory = budget.open('a')
    memory.grow(30)
    memory.grow(10)

    memory.release()
    memory.release()

    expect(budget.heldBytes).toBe(0)
    memory.grow(50)
    expect(budget.heldBytes).toBe(50)
  })

  it('frees memory of others if that helps', () => {
    const budget = new MemoryBudget(100)
    const held = [budget.open('a'), budget.open('b')]
    for (const memory of held) memory.grow(25)
    budget.makeRoom = () => held.shift()?.release() === undefined && held.length < 2

    expect(budget.open('c').tryGrow(51)).toBe(false)
    expect(budget.heldBytes).toBe(50)
    expect(budget.open('c').tryGrow(30)).toBe(true)
    expect(budget.heldBytes).toBe(55)
  })

  it('gives up if nothing is freed, whatever is said', () => {
    const budget = new MemoryBudget(100)
    budget.open('a').grow(50)
    let asked = 0
    // Bounded, so that this test ends even if the loop does not.
    budget.makeRoom = () => (asked += 1) < 1000

    expect(budget.open('b').tryGrow(40)).toBe(false)
    expect(asked).toBe(1)
  })
})

describe('ProcessMemory', () => {
  const mebibyte = 1024 * 1024

  it('collects garbage above 96 MiB, again after 32 MiB more, and rejects requests above its limit', () => {
    const most = limits.rejectAboveBytes / mebibyte
    let residentBytes = 0
    let collections = 0
    const memory = new ProcessMemory({
      residentBytes: () => residentBytes,
      collectGarbage: () => void (collections += 1),
    })
    const watchAt = (mebibytes: number) => {
      residentBytes = mebibytes * mebibyte
      memory.watch()
      return [collections, memory.isShort]
    }

    expect(watchAt(96)).toEqual([0, false])
    expect(watchAt(108)).toEqual([1, false])
    expect(watchAt(140)).toEqual([1, false])
    expect(watchAt(141)).toEqual([2, false])
    expect(watchAt(most + 1)).toEqual([3, true])
    expect(watchAt(most)).toEqual([3, false])
  })
})
