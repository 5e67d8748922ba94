import { describe, expect, it } from 'bun:test'

import { runUntilStopped } from '../../../src/cli/service/lifecycle.ts'
import { createOutputLog } from '../../../src/cli/output.ts'
import { eventually } from '../../support/eventually.ts'
import { readTestSettings } from '../../support/bridge.ts'
import { fakeHost } from '../fake-host.ts'

const settings = readTestSettings({ settings: { logging_renderer: 'text' } })

describe('runUntilStopped', () => {
  it('reloads again after a reload that failed', async () => {
    const signals = new Map<string, () => void>()
    const host = fakeHost({}, {}, { onSignal: (name, handler) => void signals.set(name, handler) })
    const stop = Promise.withResolvers<number>()
    let reads = 0
    const reread = () => {
      reads += 1
      if (reads === 1) throw Object.assign(new Error('removed between two checks'), { code: 'ENOENT' })
      return settings
    }
    const service = {
      url: 'http://127.0.0.1:8000',
      port: 8000,
      families: () => [],
      reload() {},
      stop: async () => {},
    }
    const output = createOutputLog(settings, host, host.stdout)
    const orders = { stop: stop.promise, abort: Promise.withResolvers<number>().promise }
    const running = runUntilStopped({ settings, host, output, reread }, service, orders, null)
    await eventually('it listens', () => signals.has('SIGHUP') && host.out.includes('listening'))

    signals.get('SIGHUP')!()
    await eventually('the reload has failed', () => host.out.includes('reload failed reason=ENOENT'))
    signals.get('SIGHUP')!()
    await eventually('the next one succeeds', () => host.out.includes('settings reloaded'))
    stop.resolve(0)

    expect(await running).toBe(0)
  })
})
