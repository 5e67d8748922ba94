import { Bodies } from '../../src/load/bodies.ts'
import { MemoryBudget } from '../../src/load/memory.ts'
import { AnswerStreams } from '../../src/load/streams.ts'
import { limits } from '../../src/load/limits.ts'
import { timestamp } from '../../src/domain/record.ts'
import { sourceOf } from '../support/byte-source.ts'
import { readTestSettings, request, type Answer } from '../support/bridge.ts'
import { listenApp } from '../support/app.ts'
import { eventually } from '../support/eventually.ts'

import type { BulkStorage, ListOutcome } from '../../src/domain/record-storage.ts'
import type { OperationOutcome, Step } from '../../src/domain/operation.ts'
import { RequestLimit, type RejectionReason } from '../../src/load/permits.ts'

export type CrowdedWorld = ReturnType<typeof startCrowdedWorld>

const bucket = '0123456789abcdef0123456789abcdef'
const record = { id: 'a', payload: 'p', lastModified: timestamp(1_700_000_000_000) }

/** An app on a real socket whose storage answers when it is told to, and whose time passes when it is told to. */
export function startCrowdedWorld(
  { maxRequests = 100, maxRequestsPerUser = 8 } = {},
  settings: Record<string, string> = {},
) {
  const read = readTestSettings({ settings: { record_tabs_put_enabled: 'true', ...settings } })
  let aheadMs = 0
  const now = () => aheadMs
  const rejections: RejectionReason[] = []
  const observeRejection = (reason: RejectionReason) => void rejections.push(reason)
  const isShortOfMemory = () => false
  const load = new RequestLimit({ maxRequests, maxRequestsPerUser, now, isShortOfMemory, observeRejection })
  const memory = new MemoryBudget(limits.memoryBytes)
  const bodies = new Bodies({ maxBytes: read.maxRequestBytes, memory, now, observeDrop() {} })
  const streams = new AnswerStreams({
    now,
    cut: (request) => app.server!.timeout(request, 1),
    reportGarbage() {},
    observeRejection,
  })
  let gate = Promise.withResolvers<void>()
  let reached = 0
  let transacted = 0
  const asked: Promise<Answer>[] = []
  const observed: number[] = []
  const lists = new Set<ReadableStreamDefaultController<Uint8Array>>()
  async function reach(): Promise<void> {
    reached += 1
    await gate.promise
  }
  const storage = {
    notices: { backoffSeconds: null, alert: null, quotaRemaining: null },
    async get() {
      await reach()
      return { outcome: 'found', record }
    },
    async list(): Promise<ListOutcome> {
      await reach()
      let stream: ReadableStreamDefaultController<Uint8Array>
      const document = new ReadableStream<Uint8Array>({
        start(controller) {
          stream = controller
          lists.add(stream)
          stream.enqueue(new Uint8Array(100_000))
        },
        cancel: () => void lists.delete(stream),
      })
      return {
        outcome: 'page',
        page: { timestamp: record.lastModified, document: sourceOf(document), count: null, next: null },
      }
    },
  } as unknown as BulkStorage
  const { app, url } = listenApp({
    settings: read,
    openStorage: ({ assertion }) => Promise.resolve({ ...storage, owner: assertion }),
    async transact(steps: Step[]): Promise<OperationOutcome[]> {
      await reach()
      transacted += steps.length
      return steps.map(() => ({ outcome: 'stored', record }))
    },
    now: Date.now,
    monotonicNow: now,
    load,
    memory,
    bodies,
    streams,
    observers: {
      request: (_, { status }) => void observed.push(status),
      listBroken() {},
      batch() {},
      error() {},
    },
  })

  function initOf(user: string, init: RequestInit): RequestInit {
    const keyId = `1-${Buffer.from(bucket, 'hex').toString('base64url')}`
    const headers = { Authorization: `Bearer ${user}`, 'X-KeyID': keyId, 'Content-Type': 'application/json' }
    return { redirect: 'manual', ...init, headers: { ...headers, ...(init.headers as object) } }
  }
  const addressOf = (path: string) => url + (path.startsWith('/v1') ? path : `/v1/buckets/${bucket}${path}`)

  const ask = (user: string, path: string, init: RequestInit = {}): Promise<Answer> => {
    const answer = request(addressOf(path), initOf(user, init))
    asked.push(answer)
    return answer
  }
  const answerAll = () => gate.resolve()
  const endLists = (error?: Error) => {
    for (const stream of lists) {
      if (error) stream.error(error)
      else stream.close()
    }
    lists.clear()
  }

  return {
    url,
    load,
    /** Why requests were rejected, in their order. */
    rejections,
    server: app.server!,
    /** Lets the time pass that the bodies and deadlines of requests go by. */
    pass(ms: number) {
      aheadMs += ms
      bodies.expire()
      streams.check()
    },
    /** How many requests have reached the storage so far. */
    reached: () => reached,
    /** The statuses of all answers, as logs and metrics are told them. */
    observed,
    /** How many steps of transactions were carried out. */
    transacted: () => transacted,
    /** From now on the storage answers at once, and so do the calls that wait. */
    answerAll,
    /** Ends the lists under way, of which a piece is there already, or breaks them off. */
    endLists,
    ask,
    /** The same, without reading the answer. */
    begin: (user: string, path: string, init: RequestInit = {}) => fetch(addressOf(path), initOf(user, init)),
    /** So many requests of users of their own that wait for the storage, from now on. */
    async crowd(count: number, user?: string) {
      gate = Promise.withResolvers()
      const before = reached
      const answers = Array.from({ length: count }, (_, index) => ask(user ?? `user-${index}`, one))
      await eventually('all wait for the storage', () => Promise.resolve(reached === before + count))
      return answers
    },
    /** Answers what is under way, and ends. */
    async stop() {
      answerAll()
      endLists()
      await Promise.allSettled(asked)
      await app.server!.stop(true)
    },
  }
}

/** A record, below the bucket. */
export const one = '/collections/tabs/records/a'
