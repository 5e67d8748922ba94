import { createApp } from '../../src/app.ts'
import { createLog } from '../../src/observability/log.ts'

type Service = Parameters<typeof createApp>[0]
type Usual =
  'identify' | 'heartbeat' | 'version' | 'monotonicNow' | 'createRequestId' | 'isStopping' | 'metrics' | 'log'

/** An app with these parts on a real socket; its other parts are healthy, and know no user. */
export function listenApp(parts: Omit<Service, Usual> & Partial<Service>) {
  const app = createApp({
    identify: () => Promise.resolve(null),
    heartbeat: () => Promise.resolve({ storage: true, cache: true, permission: true }),
    version: { name: 'sync-bridge', version: '0', commit: '0', source: '' },
    monotonicNow: () => performance.now(),
    createRequestId: () => '0123456789abcdef',
    isStopping: false,
    log: quietLog,
    metrics: () => Promise.resolve({ status: 200, headers: { 'Content-Type': 'text/plain' }, body: '' }),
    ...parts,
  })
  app.listen({ hostname: '127.0.0.1', port: 0, development: false })
  return { app, url: `http://127.0.0.1:${app.server!.port}` }
}

const quietLog = createLog({
  renderer: 'json',
  level: 'error',
  write() {},
  now: Date.now,
  colour: false,
  priorities: false,
})
