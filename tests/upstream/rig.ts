import { createServer, type AddressInfo } from 'node:net'
import { createPermits } from '../../src/load/permits.ts'
import {
  createUpstream,
  type UpstreamCallSummary,
  type UpstreamOptions,
  type UpstreamRequest,
} from '../../src/upstream/send.ts'
import { Transport } from '../../src/upstream/transport.ts'
import { SyncStorage } from '../../src/upstream/sync-storage.ts'
import { TokenServer } from '../../src/upstream/token-server.ts'
import { readText } from '../support/byte-source.ts'
import { startSandbox, type SandboxOptions } from '../support/sandbox.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
import { createIdentity, type Identity, type SyncCredentials } from '../../src/domain/credentials.ts'
import { RecentMap } from '../../src/domain/bounded.ts'
import type { BulkStorage, ListOutcome, RecordPage } from '../../src/domain/record-storage.ts'
import { StorageCalls, type StorageCaller, type StorageContext } from '../../src/upstream/signed-call.ts'

/** A rig, what another device has written with it, and a client; `cleanUp` ends it. */
export async function openRig(options?: SandboxOptions) {
  const rig = await startRig(options)
  onCleanUp(() => rig.stop())
  const has = (records: { id: string; payload?: string; sortindex?: number }[], collection = 'tabs') =>
    timestamp(rig.sandbox.write(rig.user, collection, records))
  return { ...rig, has, storage: await rig.open() }
}

export const numbered = (count: number, prefix = 'id') =>
  Array.from({ length: count }, (_, index) => ({ id: `${prefix}${index}`, payload: `payload ${index}` }))

export const since = (kind: 'unmodified-since' | 'differs', at: number): Precondition => ({
  kind,
  timestamp: timestamp(at),
})

/**
 * A sandbox, a fault proxy in front of its storage, and our client; one clock, which only pauses advance. On sockets, because the runtime
 * keeps connections, and reports how they fail.
 */
async function startRig(options: SandboxOptions = {}) {
  const clock = { nowMs: 1_700_000_000_000 }
  const sandbox = await startSandbox({ clock: () => clock.nowMs, ...options })
  const proxy = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = proxy.url
  const user = sandbox.addUser('somebody')
  const exchanges: UpstreamCallSummary[] = []
  const pauses: number[] = []
  const delay = async (ms: number) => {
    pauses.push(ms)
    clock.nowMs += ms
  }
  const random = () => 0.5
  const now = () => clock.nowMs
  const permits = createPermits(1024)
  const upstream = newUpstream({ observe: (it) => exchanges.push(it), random, delay, permits })
  const { send } = upstream
  const tokenServer = new TokenServer({
    url: sandbox.tokenServerUrl,
    send,
    timeoutMs: 60_000,
    now,
    monotonicNow: now,
  })
  const renewals: SyncCredentials[] = []
  let nonces = 0

  return {
    sandbox,
    proxy,
    user,
    clock,
    exchanges,
    pauses,
    renewals,
    tokenServer,
    identity,
    ...permits,
    async open(overrides: Partial<StorageCaller & StorageContext> = {}): Promise<BulkStorage> {
      const credentials = await tokenServer.exchange(identity())
      const context: StorageContext = {
        upstream,
        timeoutMs: 60_000,
        now,
        monotonicNow: now,
        nonce: () => `nonce${(nonces += 1)}`,
        delay,
        limitsByNode: new RecentMap(1000),
        ...overrides,
      }
      return new SyncStorage(
        new StorageCalls(context, {
          credentials,
          renew: async (refused) => {
            renewals.push(refused)
            return await tokenServer.exchange(identity())
          },
          userAgent: 'Test/1.0',
          notices: { backoffSeconds: 0, alert: null, isShutDown: false, quotaRemaining: null },
          deadlineAtMs: Infinity,
          ...overrides,
        }),
      )
    },
    /** Writes of other devices advance the sandbox's clock, so ours may follow at once. */
    later(ms = 20) {
      clock.nowMs = Math.max(clock.nowMs, sandbox.nowMs()) + ms
    },
    async stop() {
      await proxy.stop()
      await sandbox.stop()
    },
  }

  function identity(): Identity {
    return createIdentity({
      scheme: 'BrowserID',
      assertion: user.assertion(),
      clientState: user.clientState,
    })
  }
}

const cleanUps: (() => unknown)[] = []

/** Runs an action at the next `cleanUp`; call that after each test. */
export function onCleanUp(...actions: (() => unknown)[]): void {
  cleanUps.push(...actions)
}

export async function cleanUp(): Promise<void> {
  for (const action of cleanUps.splice(0).reverse()) await action()
}

/** A server behind a proxy with planned faults, and ways to call it. */
export async function startTarget(
  answer: (request: Request) => Response | Promise<Response> = () => new Response('ok'),
  options: Partial<UpstreamOptions> = {},
) {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, fetch: answer })
  const proxy = await startFaultProxy({ target: server.url })
  onCleanUp(
    () => server.stop(true),
    () => proxy.stop(),
  )
  return { proxy, ...makeSend(proxy.url, options) }
}

/** A server that answers the first request of every connection with this text, and closes it. */
export async function startRaw(answer: string): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onCleanUp(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export function makeSend(base: string, options: Parameters<typeof newUpstream>[0] = {}) {
  const exchanges: UpstreamCallSummary[] = []
  const pauses: number[] = []
  const upstream = newUpstream({
    observe: (call) => exchanges.push(call),
    random: () => 0,
    delay: async (ms) => void pauses.push(ms),
    ...options,
  })
  const send = (request: Partial<UpstreamRequest> & { path?: string } = {}) =>
    upstream.send({
      target: 'storage',
      method: 'GET',
      url: new URL(request.path ?? '/x', base),
      user: 'a',
      headers: {},
      timeoutMs: 20_000,
      maxBytes: 1_000_000,
      ...request,
    })
  const text = async (request: Parameters<typeof send>[0] = {}) =>
    Buffer.from((await send(request)).bytes).toString()
  return { send, text, exchanges, pauses, upstream }
}

/** The entry point to upstream, with the limits of the unit. */
export function newUpstream({
  ca = null,
  ...options
}: Partial<UpstreamOptions> & { ca?: string | null } = {}) {
  const { now = () => performance.now(), random = () => 0.5 } = options
  const transport = new Transport(now)
  transport.trust(ca)
  const upstream = createUpstream({
    permits: createPermits(1024),
    transport,
    observe: () => {},
    delay: async () => {},
    now,
    random,
    ...options,
  })
  return { ...upstream, transport }
}

export interface ExposedRecord {
  id: string
  last_modified: number
  payload: string
  sortindex?: number
}

/** The page of a list; throws if there is none. */
export function pageOf(listed: ListOutcome): RecordPage {
  if (listed.outcome !== 'page') throw new Error(`Expected a page, got ${listed.outcome}`)
  return listed.page
}

/** Reads a page to its end. */
export async function recordsOf({ document }: RecordPage): Promise<ExposedRecord[]> {
  return JSON.parse(await readText(document)).data
}

export async function idsOf(page: RecordPage): Promise<string[]> {
  return (await recordsOf(page)).map(({ id }) => id)
}

/** The error that a promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('Expected a rejection')
}
