import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { faults, hangs, lanes, prove, type FaultName, type Span, type Trial } from './batch-trial.ts'
import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { Shape } from './batch-case.ts'

const quick = (Object.keys(faults) as FaultName[]).filter((name) => !hangs.includes(name))

const commitPatienceMs = 150

let patient: FaultyBridge
/** Commits and undos are only tried for six seconds or half a second, because the storage does not come back. */
let lasting: FaultyBridge
let shortCommits: FaultyBridge
/** With a short call timeout, because a hanging storage uses all of it. */
let impatient: FaultyBridge[]
/** With a short request timeout as well. */
let hasty: FaultyBridge[]

beforeAll(async () => {
  const writable = lanes.flat()
  const startSeveral = (settings: Record<string, string>) =>
    Promise.all(Array.from({ length: 10 }, () => startFaultyBridge({ writable, settings, commitPatienceMs })))
  patient = await startFaultyBridge({ writable })
  const soon = { writable, settings: { request_timeout_seconds: '0.5' }, commitPatienceMs }
  // Long enough on a busy machine to check whether a write was applied before the deadline.
  lasting = await startFaultyBridge({ ...soon, settings: { request_timeout_seconds: '6' } })
  shortCommits = await startFaultyBridge(soon)
  impatient = await startSeveral({ upstream_timeout_seconds: '0.3' })
  hasty = await startSeveral({ upstream_timeout_seconds: '0.2', request_timeout_seconds: '0.3' })
})

afterAll(async () => {
  await Promise.all([patient, lasting, shortCommits, ...impatient, ...hasty].map((each) => each.stop()))
})

describe('a batch over a storage that fails at its k-th call', () => {
  const mixed: Shape[] = [
    { kind: 'mixed', requests: 5, collections: 1 },
    { kind: 'mixed', requests: 5, collections: 4 },
  ]
  const few: Shape[] = [
    { kind: 'mixed', requests: 2, collections: 1 },
    { kind: 'puts', requests: 5, collections: 2 },
    { kind: 'mixed', requests: 9, collections: 3 },
  ]

  it.each(quick)(
    'is complete or has no effect: %s, once',
    async (fault) => {
      const { findings, runs } = await prove([patient], trialsOf(mixed, [fault], 'once'))

      expect(findings).toEqual([])
      expect(runs).toBeGreaterThan(14)
    },
    300_000,
  )

  it.concurrent(
    'is complete, has no effect, or is reported: every failure, from then on',
    async () => {
      const { findings, runs } = await prove([shortCommits], trialsOf(few, quick, 'from then on'), patient)

      expect(findings).toEqual([])
      expect(runs).toBeGreaterThan(150)
    },
    300_000,
  )

  it.concurrent(
    'is complete or has no effect: every failure, permanently',
    async () => {
      const kinds = quick.filter((name) => name !== '401')
      const { findings, runs } = await prove([lasting], trialsOf(few, kinds, 'permanently'), patient)

      expect(findings).toEqual([])
      expect(runs).toBeGreaterThan(60)
    },
    300_000,
  )

  it('is complete or has no effect: every kind of hang, once', async () => {
    const { findings, runs } = await prove(impatient, trialsOf(few, hangs, 'once'), patient)

    expect(findings).toEqual([])
    expect(runs).toBeGreaterThan(40)
  }, 300_000)

  it('is complete, has no effect, or is reported: every kind of hang, from then on', async () => {
    const { findings, runs, maxConsecutive } = await prove(
      hasty,
      trialsOf(few, hangs, 'from then on'),
      patient,
    )

    expect(findings).toEqual([])
    expect(runs).toBeGreaterThan(40)
    // It is 9, with the usual upstream timeout of 20 s each; the server cuts a connection without a response after 240 s. Collections in
    // sequence would take three times as many. Not exact, because calls that begin together may end apart, or be noticed late.
    expect(maxConsecutive).toBeWithin(1, 18)
  }, 300_000)
})

function trialsOf(shapes: Shape[], names: FaultName[], span: Span): Trial[] {
  return shapes.flatMap((shape) => names.map((fault) => ({ shape, fault, span })))
}
