import { describe, expect, it } from 'bun:test'

import { FuzzedWorld } from './world.ts'

/** The number of requests; set `FUZZ=1000000` for more. */
const count = Number(process.env.FUZZ ?? 2_000)
/** A fixed seed, so that the result is reproducible; set `FUZZ_SEED` to try others. */
const seed = Number(process.env.FUZZ_SEED ?? 20_780)
const lanes = 6

describe(`${count} random requests, FUZZ_SEED=${seed}`, () => {
  it('get the documented responses, and have no other effect', async () => {
    await using world = await FuzzedWorld.start()

    const outcomes = await Promise.all(
      Array.from({ length: lanes }, (_, lane) =>
        world.fuzz(`fuzzer-${lane}`, seed * lanes + lane, Math.ceil(count / lanes)),
      ),
    )

    const statuses = new Map<number, number>()
    for (const [status, times] of outcomes.flatMap((outcome) => [...outcome.statuses])) {
      statuses.set(status, (statuses.get(status) ?? 0) + times)
    }
    // oxlint-disable-next-line no-console -- figures of a long run, and the seed
    console.log(`FUZZ_SEED=${seed}`, JSON.stringify(Object.fromEntries([...statuses].toSorted())))
    expect(outcomes.flatMap(({ failures }) => failures)).toEqual([])
    expect(world.untouched).toEqual([{ id: 'a', payload: 'of the bystander' }])
    // Most requests must get past validation, or little would be tested.
    expect(statuses.get(200) ?? 0).toBeGreaterThan(count / 10)
  }, 3_600_000)
})
