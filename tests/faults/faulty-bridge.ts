import { startFaultProxy } from '../support/fault-proxy.ts'
import type { Fault, FaultProxy, ProxiedRequest } from '../support/fault-proxy.ts'
import { startTestBridge } from '../support/bridge.ts'
import type { TestBridge, TestBridgeOptions } from '../support/bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** Decides about one user's calls of the storage; `index` counts them from 0. */
export type UserPlan = (request: ProxiedRequest, index: number) => Fault | null | Promise<Fault | null>

/** A bridge that reaches its storage through a relay which can be made to fail, for one user at a time. */
export interface FaultyBridge extends TestBridge {
  proxy: FaultProxy
  /** From now on the user's calls are counted anew and go through the plan. */
  planFor(user: SandboxUser, plan: UserPlan): void
  /** The user's calls of the storage since the last `planFor`. */
  callsOf(user: SandboxUser): readonly ProxiedRequest[]
  /** How many events of this name the bridge has logged about the collection, such as `batch.partial`. */
  eventsAbout(collection: string, event: string): number
}

/** Starts the chain of bridge, relay and sandbox. */
export async function startFaultyBridge(options: TestBridgeOptions = {}): Promise<FaultyBridge> {
  const bridge = await startTestBridge(options)
  const { sandbox, logs } = bridge
  const proxy = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = proxy.url
  const plans = new Map<number, { plan: UserPlan; calls: ProxiedRequest[] }>()
  proxy.plan((request) => {
    const uid = Number(request.path.split('/')[2])
    const planned = plans.get(uid)
    if (!planned) return null
    planned.calls.push(request)
    return planned.plan(request, planned.calls.length - 1)
  })

  const events = new Map<string, number>()
  let readLines = 0
  const readLog = () => {
    for (; readLines < logs.length; readLines += 1) {
      const { event, collections } = JSON.parse(logs[readLines]!) as {
        event: string
        collections: string | null
      }
      if (!event.startsWith('batch.')) continue
      for (const name of collections?.split(',') ?? []) {
        const key = `${event} ${name}`
        events.set(key, (events.get(key) ?? 0) + 1)
      }
    }
  }

  return {
    ...bridge,
    proxy,
    planFor: (user, plan) => void plans.set(user.uid, { plan, calls: [] }),
    callsOf: (user) => plans.get(user.uid)?.calls ?? [],
    eventsAbout(collection, event) {
      readLog()
      return events.get(`${event} ${collection}`) ?? 0
    },
    async stop() {
      await bridge.stop()
      await proxy.stop()
    },
  }
}

/** How long a call is held that is never to be answered; above the upstream timeout of the test. */
const heldMs = 3000

/**
 * Held until the bridge has given up, and never carried out. (The relay's own `hang` goes on when the caller leaves:
 * that is a write which is carried out late.)
 */
export async function hangForGood(): Promise<Fault> {
  await Bun.sleep(heldMs)
  return { kind: 'reset-before' }
}

/** Answers that a broken storage gives, each before anything was done. */
export const statusFaults = {
  500: { kind: 'status', status: 500 },
  503: { kind: 'status', status: 503, headers: { 'Retry-After': '600' }, body: '"maintenance"' },
  conflict: { kind: 'status', status: 503, headers: { 'Retry-After': '10' }, body: '0' },
  401: { kind: 'status', status: 401, body: '0' },
  412: { kind: 'status', status: 412, body: '0' },
} satisfies Record<string, Fault>
