import { describe, expect, it } from 'bun:test'
import { randomBytes } from 'node:crypto'

import { makeCertificates } from '../support/certificates.ts'
import { freePort, temporaryFolder } from '../support/processes.ts'
import { eventually } from '../support/redis-server.ts'
import { haproxy } from './balancer-programs.ts'
import { answeredBy, Client, startLoad, startNodes } from './nodes.ts'

describe('the secret of two bridges with one Redis', () => {
  it('is replaced under load without an error and without asking the token server again', async () => {
    await using stack = new AsyncDisposableStack()
    const folder = stack.use(temporaryFolder())
    const certificates = await makeCertificates(folder.path)
    const nodes = stack.use(await startNodes({ shutdown_delay_seconds: '0.3' }))
    const port = freePort()
    stack.use(await haproxy.start({ folder, certificates, port, nodes: nodes.ports }))
    const users = Array.from({ length: 6 }, (_, index) => nodes.sandbox.addUser(`user ${index}`))
    const load = startLoad(
      users.map((user) => new Client(`https://127.0.0.1:${port}`, user, certificates.caPem)),
    )
    await eventually('both are in use', () => answeredBy(nodes).every((count) => count > 20))
    const exchanges = nodes.exchanges()
    const keys = (await nodes.redis.command('KEYS', '*')) as string[]
    const fresh = randomBytes(32).toString('hex')

    const phases: Record<string, string>[] = [
      { cache_hmac_secret: fresh, cache_hmac_secret_previous: nodes.secret },
      { cache_hmac_secret: fresh },
    ]
    for (const settings of phases) {
      for (const index of [0, 1]) {
        nodes.nodes[index]!.signal('SIGTERM')
        await nodes.nodes[index]!.exited
        await nodes.restart(index, settings)
        await eventually('it is in use again', () => answeredBy(nodes)[index]! > 20, 10_000)
      }
    }
    const { failures, requests } = await load.stop()

    expect(failures).toEqual([])
    expect(requests).toBeGreaterThan(200)
    expect(exchanges).toBe(users.length)
    // A machine that is very busy may answer too late from Redis now and then.
    expect(nodes.exchanges() - exchanges).toBeLessThanOrEqual(2)
    // Everybody's credentials are there once more, sealed with the new secret.
    const after = (await nodes.redis.command('KEYS', '*')) as string[]
    expect(after).toHaveLength(2 * keys.length)
  }, 30_000)
})
