import { afterAll, beforeEach } from 'bun:test'
import {
  startTestBridge,
  type Answer,
  type AskInit,
  type TestBridge,
  type TestBridgeOptions,
} from '../support/bridge.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { rawRequest, sendRaw, type RawAnswer } from './raw-http.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

interface RawInit {
  /** The user; default: the bridge's user. Null: no credentials. */
  as?: SandboxUser | null
  /** Additional header lines. */
  lines?: string[]
  /** Sent unchanged, without a header for its length. */
  body?: string
}

/**
 * Starts a bridge for all tests of a file, with a fault proxy in front of its storage; each test resets its plan. On a socket, because the
 * specification says what is sent over HTTP.
 */
export async function openWorld(options: TestBridgeOptions = {}) {
  const bridge = await startTestBridge(options)
  const storage = await startFaultProxy({ target: bridge.sandbox.storageUrl })
  bridge.sandbox.switches.nodeUrl = storage.url
  beforeEach(() => storage.plan(() => null))
  afterAll(async () => {
    await bridge.stop()
    await storage.stop()
  })
  return {
    bridge,
    storage,
    /** The path of the user's bucket, as used in sub-requests. */
    bucket: `/buckets/${bridge.user.clientState}`,
    batch: batchOf(bridge),
    /** Sends one request as raw text, with the credentials of the user unless `as` says otherwise. */
    send(method: string, target: string, { as = bridge.user, lines = [], body }: RawInit = {}) {
      const given = [...(as ? headerLines(bridge.identityOf(as)) : []), ...lines]
      return sendRaw(bridge.url, rawRequest(method, target, { url: bridge.url, lines: given, body }))
    },
    /** The stored version of a record. */
    stored: (id: string, collection = 'history') =>
      bridge.sandbox.records(bridge.user, collection).find((record) => record.id === id),
  }
}

/** Sends batches to a bridge. */
export function batchOf(bridge: TestBridge) {
  return (body: unknown, init: AskInit = {}) => bridge.ask('/v1/batch', { method: 'POST', body, ...init })
}

/** The statuses of the responses in a batch. */
export const statuses = ({ body }: Answer): number[] =>
  body.responses.map(({ status }: { status: number }) => status)

export const headerLines = (headers: Record<string, string>) =>
  Object.entries(headers).map(([name, value]) => `${name}: ${value}`)

/** A raw response whose body is JSON. */
export const parsed = (answer: RawAnswer) => ({ ...answer, body: JSON.parse(answer.body) as unknown })
