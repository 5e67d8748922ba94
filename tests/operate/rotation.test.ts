import { describe, expect, it } from 'bun:test'
import { randomBytes } from 'node:crypto'

import { makeCertificates } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { haproxy } from './balancer-programs.ts'
import { answeredBy, newClients, startLoad, startNodes } from './nodes.ts'

describe('the secret of two bridges with one Redis', () => {
  it('is replaced under load without an error and without calling the token server again', async () => {
    await using stack = new AsyncDisposableStack()
    const folder = stack.use(temporaryFolder())
    const certificates = await makeCertificates(folder.path)
    const nodes = stack.use(await startNodes({ shutdown_delay_seconds: '0.3' }))
    const port = freePort()
    stack.use(await haproxy.start({ folder, certificates, port, nodes: nodes.ports }))
    const clients = newClients(6, `https://127.0.0.1:${port}`, nodes.sandbox, certificates.caPem)
    const load = startLoad(clients)
    await eventually('both are in use', () => answeredBy(nodes).every((count) => count > 20))
    const exchanges = nodes.exchanges()
    const keys = async () => ((await nodes.redis.command('KEYS', '*')) as string[]).length
    const fresh = randomBytes(32).toString('hex')

    const phases: Record<string, string>[] = [
      { cache_hmac_secret: fresh, cache_hmac_secret_previous: nodes.secret },
      { cache_hmac_secret: fresh },
    ]
    for (const settings of phases) {
      for (const index of [0, 1]) {
        await nodes.nodes[index]!.stop()
        await nodes.restart(index, settings)
        await eventually('it is in use again', () => answeredBy(nodes)[index]! > 20)
      }
      // All credentials are stored again, sealed with the new secret.
      await eventually('all are sealed again', async () => (await keys()) === 2 * clients.length)
    }
    const { failures, requests } = await load.stop()

    expect(failures).toEqual([])
    expect(requests).toBeGreaterThan(100)
    // Both bridges may have received requests of a new user before either had stored anything.
    expect(exchanges).toBeGreaterThanOrEqual(clients.length)
    await nodes.exchangesAreExplained(Math.min(exchanges, 2 * clients.length))
  }, 300_000)
})
