import { startFaultProxy, type Fault, type FaultProxy, type ProxiedRequest } from '../support/fault-proxy.ts'
import { startTestBridge, type TestBridge, type TestBridgeOptions } from '../support/bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** Decides about one user's storage calls; `index` counts them from 0. */
type UserPlan = (request: ProxiedRequest, index: number) => Fault | null | Promise<Fault | null>

/**
 * A bridge that reaches its storage through relays that can fail for one user at a time. Every user has a separate node, so that
 * each can be planned and stopped alone.
 */
export interface FaultyBridge extends TestBridge {
  /** In front of the token server. */
  tokenProxy: FaultProxy
  /** From now on, the user's calls are counted from 0 and follow the plan. */
  planFor(user: SandboxUser, plan: UserPlan): void
  /** The user's storage calls since the last `planFor`. */
  callsOf(user: SandboxUser): readonly ProxiedRequest[]
  /** The relay in front of the user's node, once the user has credentials. */
  nodeOf(user: SandboxUser): FaultProxy
  /** The user sends no more requests, and the node is stopped. */
  retire(user: SandboxUser): Promise<void>
  /** Sends a batch as this user. Returns its status, and its responses. */
  batch(user: SandboxUser, requests: SubRequest[]): Promise<BatchAnswer>
  /** The number of events of this name that the bridge has logged about the collection, such as `batch.partial`. */
  eventsAbout(collection: string, event: string): number
}

export interface SubRequest {
  method?: string
  /** Below the collections of the user. */
  path: string
  headers?: Record<string, string>
  body?: object
}

interface BatchAnswer {
  status: number
  /** None if the batch failed as a whole. */
  statuses: number[]
  bodies: { details?: { existing?: { payload: string } } }[]
}

/** Starts the chain of bridge, relays and sandbox. */
export async function startFaultyBridge(options: TestBridgeOptions = {}): Promise<FaultyBridge> {
  const nodes = new Map<number, FaultProxy>()
  const tokens = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, fetch: grant })
  const tokenProxy = await startFaultProxy({ target: tokens.url })
  const bridge = await startTestBridge({ ...options, tokenServerUrl: tokenProxy.url })
  const { sandbox, logs } = bridge
  const plans = new Map<number, { plan: UserPlan; calls: ProxiedRequest[] }>()

  /** The response of the sandbox's token server, with the address of the user's own node. */
  async function grant({ url, headers }: Request): Promise<Response> {
    const path = new URL(url).pathname
    const answer = await fetch(sandbox.tokenServerUrl + path, { headers })
    if (answer.status !== 200 || path === '/__heartbeat__') return answer
    const granted = (await answer.json()) as { uid: number; api_endpoint: string }
    const { pathname } = new URL(granted.api_endpoint)
    return Response.json({ ...granted, api_endpoint: (await nodeOf(granted.uid)).url + pathname })
  }

  async function nodeOf(uid: number): Promise<FaultProxy> {
    const known = nodes.get(uid)
    if (known) return known
    const node = await startFaultProxy({ target: sandbox.storageUrl })
    node.plan((request) => {
      const planned = plans.get(uid)
      if (!planned) return null
      planned.calls.push(request)
      return planned.plan(request, planned.calls.length - 1)
    })
    nodes.set(uid, node)
    return node
  }

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
    tokenProxy,
    planFor: (user, plan) => void plans.set(user.uid, { plan, calls: [] }),
    callsOf: (user) => plans.get(user.uid)?.calls ?? [],
    nodeOf: ({ uid }) => nodes.get(uid)!,
    async retire({ uid }) {
      await nodes.get(uid)?.stop()
      nodes.delete(uid)
      plans.delete(uid)
    },
    async batch(user, requests) {
      const collections = `/buckets/${user.clientState}/collections/`
      const body = { requests: requests.map((each) => ({ ...each, path: collections + each.path })) }
      const answer = await bridge.ask('/v1/batch', { method: 'POST', as: user, body })
      const responses: { status: number; body: object }[] = answer.body.responses ?? []
      return {
        status: answer.status,
        statuses: responses.map(({ status }) => status),
        bodies: responses.map((response) => response.body),
      }
    },
    eventsAbout(collection, event) {
      readLog()
      return events.get(`${event} ${collection}`) ?? 0
    },
    async stop() {
      await bridge.stop()
      await Promise.all(Array.from(nodes.values(), (node) => node.stop()))
      await tokenProxy.stop()
      await tokens.stop(true)
    },
  }
}

/**
 * Held forever, so that a response always comes from a bridge that has timed out. (The relay's own `hang` continues when the caller
 * disconnects: that is a write that is applied late.)
 */
export function hangForever(): Promise<Fault> {
  return new Promise(() => {})
}

/** Responses of a broken storage, each before anything was applied. */
export const statusFaults = {
  500: { kind: 'status', status: 500 },
  503: { kind: 'status', status: 503, headers: { 'Retry-After': '600' }, body: '"maintenance"' },
  conflict: { kind: 'status', status: 503, headers: { 'Retry-After': '10' }, body: '0' },
  401: { kind: 'status', status: 401, body: '0' },
  412: { kind: 'status', status: 412, body: '0' },
} satisfies Record<string, Fault>
