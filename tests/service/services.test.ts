import { describe, expect, it } from 'bun:test'
import { createIdentity } from '../../src/domain/credentials.ts'
import { createServices } from '../../src/service/services.ts'
import type { Call } from '../../src/routes/call.ts'

const identity = createIdentity({ scheme: 'BrowserID', assertion: 'a', clientState: 'ab'.repeat(16) })

/** The services over a token server that fails this way; only the part that `identify` uses. */
function servicesWith(failure: Error) {
  const [settings, exposed, connections, observers, host, load] = [
    { cacheHmacSecret: Buffer.alloc(32), tokenServerUrl: 'http://t.example' },
    {},
    { tokenServer: { exchange: () => Promise.reject(failure) }, store: null },
    { credentials() {} },
    { now: Date.now, monotonicNow: () => performance.now(), randomBytes: (n: number) => new Uint8Array(n) },
    { acquireRootView: () => () => {} },
  ] as unknown as Parameters<typeof createServices>
  return createServices(settings, exposed, connections, observers, host, load)
}

describe('identify', () => {
  it('rejects with our own defect, which is no refusal', async () => {
    const defect = new TypeError('A defect')

    expect(
      await servicesWith(defect)
        .identify(identity, { requestId: 'r', deadlineAtMs: performance.now() + 60_000 } as Call)
        .catch((error: unknown) => error),
    ).toBe(defect)
  })
})
