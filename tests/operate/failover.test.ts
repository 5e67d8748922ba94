import { describe, expect, it } from 'bun:test'

import { startWatched } from '../credentials/redis-topologies.ts'
import { eventually } from '../support/eventually.ts'
import { startExecutable } from '../support/executable.ts'
import { Client, newClients, startLoad } from './nodes.ts'

import type { RedisServer } from '../support/redis-server.ts'

// A sentinel whose vote failed waits some seconds before it tries again.
const failoverMs = 120_000

// A sentinel, because it decides which Redis is the master.
describe('a bridge whose Redis is monitored by a sentinel', () => {
  it('answers every request while the master dies and the next one hangs, and follows both times', async () => {
    await using stack = new AsyncDisposableStack()
    const watched = stack.use(await startWatched())
    const settings = { cache_backend: 'redis', cache_url: watched.urlOf() }
    const bridge = stack.use(await startExecutable({ settings, writable: ['tabs'] }))
    const { sandbox } = bridge
    const load = startLoad(newClients(6, bridge.url, sandbox))
    /** Whether a new user is cached in it. */
    const isUsed = async (server: RedisServer) => {
      const before = Number(await server.command('DBSIZE'))
      await new Client(bridge.url, sandbox.addUser(crypto.randomUUID())).ask('GET', '')
      await Bun.sleep(50)
      return Number(await server.command('DBSIZE')) > before
    }
    await eventually('the master is in use', () => isUsed(watched.master))

    /** Many requests arrive and are answered before the sentinel can act. */
    const surviveOutage = async (outage: () => unknown) => {
      watched.signalSentinel('SIGSTOP')
      await outage()
      const before = load.requests()
      await eventually('many are answered meanwhile', () => load.requests() > before + 50)
      watched.signalSentinel('SIGCONT')
    }

    await surviveOutage(() => watched.master.kill())
    await eventually('the replica is in use', () => isUsed(watched.replica), failoverMs)
    await watched.master.start()
    await eventually('the old master is a replica', async () =>
      String(await watched.master.command('INFO', 'replication')).includes('master_link_status:up'),
    )
    await surviveOutage(() => watched.replica.stop())
    await eventually('the first is in use again', () => isUsed(watched.master), failoverMs)
    watched.replica.cont()
    const { failures } = await load.stop()

    expect(failures).toEqual([])
  }, 300_000)
})
