import { afterAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { freePort } from '../support/free-port.ts'
import { BareConnection } from './bare-connection.ts'
import { endAll, serve, startUpstream } from './process.ts'

import type { LoadPlan, LoadReport } from './rolling-load.ts'

// A release is tried with more of both: RESTARTS=10 REQUESTS=100000.
const restarts = Number(process.env.RESTARTS ?? 3)
const requests = Number(process.env.REQUESTS ?? 3000)
const clients = 16
const timeoutMs = 12_000 + restarts * 2000 + requests * 5

afterAll(endAll)

describe('reuse_port under load, with each new process taking over from the one before', () => {
  it.each(['1', '2'])(
    'loses no request and no write, with workers = %s',
    async (workers) => {
      const upstream = await startUpstream()
      const port = freePort()
      const collections = Array.from({ length: clients }, (_, index) => `restarts${index}`)
      const settings = {
        token_server_url: upstream.tokenServerUrl,
        port: String(port),
        workers,
        reuse_port: 'true',
        shutdown_delay_seconds: '0.5',
        // However busy the machine is, and however many clients of one user there are.
        max_event_loop_lag_ms: '0',
        max_concurrent_requests_per_user: '0',
        ...Object.fromEntries(collections.map((name) => [`record_${name}_put_enabled`, 'true'])),
      }
      let bridge = await serve(settings)
      const load = startLoad({
        hostname: '127.0.0.1',
        port,
        bucket: upstream.bucket,
        identity: upstream.bearer,
        collections,
        known: 'bookmarks',
        requests,
      })
      const codes: number[] = []

      for (let restart = 1; restart <= restarts; restart += 1) {
        await load.done((requests * restart) / (restarts + 1))
        const young = await serve(settings)
        bridge.signal('SIGTERM')
        codes.push(await bridge.exited)
        bridge = young
      }
      const report = await load.report
      bridge.signal('SIGTERM')
      codes.push(await bridge.exited)
      upstream.process.signal('SIGTERM')

      if (process.env.REQUESTS) process.stdout.write(`${JSON.stringify({ workers, restarts, ...report })}\n`)
      expect(report).toMatchObject({ requests, failures: {}, missing: [] })
      expect(codes).toEqual(Array.from({ length: restarts + 1 }, () => 0))
      expect(report.written).toBeGreaterThan(requests / 5)
      expect(report.freshConnections).toBeGreaterThan(requests / 5)
    },
    timeoutMs,
  )
})

describe('reuse_port', () => {
  it('answers who was connected but not noticed yet when the old process ends', async () => {
    const delayMs = 200
    const settings = {
      token_server_url: 'http://127.0.0.1:1',
      port: String(freePort()),
      reuse_port: 'true',
      shutdown_delay_seconds: String(delayMs / 1000),
    }
    const outcomes: { atTheDoor: number; failures: unknown[]; code: number }[] = []
    let old = await serve(settings)

    for (let turn = 0; turn < 2; turn += 1) {
      const young = await serve(settings)
      old.signal('SIGTERM')
      await old.line(/"event":"stopping"/)
      // Stopped while it waits, it looks first whether its time is over, and then who is there.
      await Bun.sleep(delayMs / 4)
      old.signal('SIGSTOP')
      let waiting = 60
      const asked = Array.from({ length: waiting }, () =>
        askOnce(old.url)
          .catch(String)
          .finally(() => (waiting -= 1)),
      )
      // It wakes up to find both: its time is over, and somebody is at the door.
      await Bun.sleep(2 * delayMs)
      const atTheDoor = waiting
      old.signal('SIGCONT')
      const answers = await Promise.all(asked)
      outcomes.push({
        atTheDoor,
        failures: answers.filter((status) => status !== 200),
        code: await old.exited,
      })
      old = young
    }
    old.signal('SIGTERM')

    expect(outcomes.map(({ failures, code }) => ({ failures, code }))).toEqual(
      outcomes.map(() => ({ failures: [], code: 0 })),
    )
    for (const { atTheDoor } of outcomes) expect(atTheDoor).toBeGreaterThan(5)
  })
})

async function askOnce(url: string): Promise<number> {
  const { hostname, port, host } = new URL(url)
  const connection = await BareConnection.open(hostname, Number(port))
  const { status } = await connection.ask(`GET /__lbheartbeat__ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  connection.close()
  return status
}

function startLoad(plan: LoadPlan): { done(count: number): Promise<void>; report: Promise<LoadReport> } {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, 'rolling-load.ts'), JSON.stringify(plan)],
    {
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  const progress = { done: 0, changed: Promise.withResolvers<void>() }
  const note = (done: number) => {
    progress.done = done
    progress.changed.resolve()
    progress.changed = Promise.withResolvers()
  }
  const report = (async () => {
    let last = ''
    let rest = ''
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()!
      last = lines.at(-1) ?? last
      if (/^\d+$/.test(last)) note(Number(last))
    }
    note(Infinity)
    return JSON.parse(last) as LoadReport
  })()
  return {
    report,
    async done(count) {
      while (progress.done < count) await progress.changed.promise
    },
  }
}
