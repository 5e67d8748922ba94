import { Bodies } from '../../src/load/bodies.ts'
import { MemoryBudget } from '../../src/load/memory.ts'
import { overload } from '../../src/protocol/reply.ts'
import { listenApp } from '../support/app.ts'
import { readTestSettings, request, startTestBridge, type Answer } from '../support/bridge.ts'
import { startFaultProxy, type Plan } from '../support/fault-proxy.ts'

export type DocumentedWorld = Awaited<ReturnType<typeof startDocumentedWorld>>

/**
 * Bridges in every condition that the API document mentions, each on its own socket, because it describes HTTP responses. The storage of
 * `well` holds the records `present` and `other` in `bookmarks`.
 */
export async function startDocumentedWorld() {
  const well = await startTestBridge({
    settings: {
      backoff: '5',
      eos: '2999-12-31',
      eos_message: 'It was nice',
      max_request_bytes: '4096',
      readable_collections: 'bookmarks, history',
    },
    writable: ['bookmarks'],
  })
  const proxy = await startFaultProxy({ target: well.sandbox.storageUrl })
  well.sandbox.switches.nodeUrl = proxy.url
  proxy.plan(announceQuota)
  well.sandbox.write(well.user, 'bookmarks', [
    { id: 'present', payload: 'p', sortindex: 3 },
    { id: 'other', payload: 'q' },
  ])
  const restrictedCors = await startTestBridge({ settings: { cors_origins: 'https://app.example' } })
  const ended = await startTestBridge({ settings: { eos: '2020-01-01' }, writable: ['bookmarks'] })
  const cutOff = await startTestBridge({ tokenServerUrl: 'http://127.0.0.1:1', writable: ['bookmarks'] })
  const defective = startDefectiveApp()
  return {
    /** Healthy, with writes to `bookmarks` enabled, over a storage that `proxy` can make fail. Announces its end of service. */
    well,
    proxy,
    /** Allows pages of one origin only. */
    restrictedCors,
    /** Past its end of service. */
    ended,
    /** Its token server is unreachable. */
    cutOff,
    /** Throws an unexpected error whenever it needs a storage. */
    defective,
    async stop() {
      await Promise.all([well.stop(), restrictedCors.stop(), ended.stop(), cutOff.stop(), defective.stop()])
      await proxy.stop()
    },
  }
}

/** The storage's normal behaviour: announces the remaining quota. */
export const announceQuota: Plan = () => ({
  kind: 'rewrite',
  headers: { 'X-Weave-Quota-Remaining': '-0.50' },
})

/** Sends a request to any of the bridges as the user of `well`. */
export function askAt(url: string, world: DocumentedWorld, path: string, init: RequestInit): Promise<Answer> {
  const headers = { ...world.well.identityOf(world.well.user), ...(init.headers as Record<string, string>) }
  return request(url + path, { ...init, headers })
}

/** An app with all its parts, in which the storage and transactions throw unexpected errors, and root views are too many. */
function startDefectiveApp() {
  const memory = new MemoryBudget(1_000_000)
  const { app, url } = listenApp({
    settings: readTestSettings({
      settings: { error_info_link: 'https://help.example' },
      writable: ['bookmarks'],
    }),
    openStorage: () => Promise.reject(new Error('A defect')),
    transact: () => Promise.reject(new Error('A defect')),
    identify: () => Promise.reject(overload),
    now: Date.now,
    observers: { request() {}, listBroken() {}, batch() {}, error() {} },
    load: { isFull: false, reject() {}, acquire: () => () => {}, backoffSeconds: 0 },
    memory,
    bodies: new Bodies({ maxBytes: 4096, memory, now: Date.now, observeDrop() {} }),
    streams: { send: (body) => new Response(body as BodyInit).body! },
  })
  const routes = app.routes.map(({ method, path }) => ({ method, path }))
  return { url, routes, stop: () => app.server!.stop(true) }
}
