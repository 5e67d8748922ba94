import { Bodies } from '../../src/load/bodies.ts'
import { MemoryBudget } from '../../src/load/memory.ts'
import { ResponseStreams } from '../../src/load/streams.ts'
import { limits } from '../../src/load/limits.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
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

/** An app on a real socket, which clients can leave, with a storage that answers on demand and a controlled clock. */
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
  const streams = new ResponseStreams({
    now,
    disconnect: (request) => app.server!.timeout(request, 1),
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
    memory,
    /** The reasons of rejected requests, in order. */
    rejections,
    server: app.server!,
    /** Advances the clock of bodies and request deadlines. */
    pass(ms: number) {
      aheadMs += ms
      bodies.expire()
      streams.check()
    },
    /** The number of requests that have reached the storage. */
    reached: () => reached,
    /** The statuses of all responses, as reported to logs and metrics. */
    observed,
    /** The number of executed transaction steps. */
    transacted: () => transacted,
    /** From now on, the storage answers at once, including the waiting calls. */
    answerAll,
    /** Ends the lists in flight, of which a chunk has arrived, or breaks them off. */
    endLists,
    ask,
    /** The same, without reading the response. */
    begin: (user: string, path: string, init: RequestInit = {}) => fetch(addressOf(path), initOf(user, init)),
    /** Starts that many requests, each of a new user, which wait for the storage. */
    async crowd(count: number, user?: string) {
      gate = Promise.withResolvers()
      const before = reached
      const answers = Array.from({ length: count }, (_, index) => ask(user ?? `user-${index}`, one))
      await eventually('all wait for the storage', () => Promise.resolve(reached === before + count))
      return answers
    },
    /** Answers all requests in flight, and stops. */
    async stop() {
      answerAll()
      endLists()
      await Promise.allSettled(asked)
      await app.server!.stop(true)
    },
  }
}

/** The path of a record below the bucket. */
export const one = '/collections/tabs/records/a'
