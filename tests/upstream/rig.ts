import { Breakers } from '../../src/upstream/circuit-breaker.ts'
import { ConcurrencyLimits } from '../../src/upstream/concurrency-limits.ts'
import { createUpstream } from '../../src/upstream/send.ts'
import { createSyncStorage } from '../../src/upstream/sync-storage.ts'
import { TokenServer } from '../../src/upstream/token-server.ts'
import { readText } from '../support/byte-source.ts'
import { startSandbox } from '../support/sandbox.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { createIdentity } from '../../src/domain/credentials.ts'
import { RecentMap } from '../../src/domain/recent-map.ts'
import type { Identity, SyncCredentials } from '../../src/domain/credentials.ts'
import type { BulkStorage, ListOutcome, RecordPage } from '../../src/domain/record-storage.ts'
import type { UpstreamCallSummary, UpstreamOptions } from '../../src/upstream/send.ts'
import type { StorageCaller, StorageClient } from '../../src/upstream/call.ts'
import type { SandboxOptions } from '../support/sandbox.ts'

export type Rig = Awaited<ReturnType<typeof startRig>>

/** A sandbox, a fault proxy in front of its storage, and our client of it; one clock, moved by pauses alone. */
export async function startRig(options: SandboxOptions = {}) {
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
  const breakers = new Breakers({ now: () => performance.now(), random })
  const upstream = newUpstream({ observe: (it) => exchanges.push(it), random, delay, breakers })
  const { send } = upstream
  const tokenServer = new TokenServer({ url: sandbox.tokenServerUrl, send, breakers, timeoutMs: 5000, now })
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
    async open(overrides: Partial<StorageCaller & StorageClient> = {}): Promise<BulkStorage> {
      const credentials = await tokenServer.exchange(identity())
      const client: StorageClient = {
        upstream,
        timeoutMs: 5000,
        now,
        nonce: () => `nonce${(nonces += 1)}`,
        random,
        delay,
        limitsOfNodes: new RecentMap(1000),
        ...overrides,
      }
      return createSyncStorage(client, {
        credentials,
        renew: async (refused) => {
          renewals.push(refused)
          return await tokenServer.exchange(identity())
        },
        userAgent: 'Test/1.0',
        deadlineAtMs: null,
        ...overrides,
      })
    },
    /** Other devices' writes move the sandbox's clock on; ours may follow at once. */
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

/** The door to upstream, with limits that nobody meets and breakers of its own. */
export function newUpstream(options: Partial<UpstreamOptions> = {}) {
  const { now = () => performance.now(), random = () => 0.5 } = options
  return createUpstream({
    limits: new ConcurrencyLimits(1024, { maxRequests: 512, maxListsOfUser: 8 }),
    http2: true,
    breakers: new Breakers({ now, random }),
    observe: () => {},
    delay: async () => {},
    now,
    random,
    ...options,
  })
}

export interface ExposedRecord {
  id: string
  last_modified: number
  payload: string
  sortindex?: number
}

/** The page of a list that must have one. */
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

/** What a promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('Expected a rejection')
}
