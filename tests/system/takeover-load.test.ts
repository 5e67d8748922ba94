import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import type { TrialPlan, TrialReport } from './takeover-trial.ts'

// Use more of both before a release: TAKEOVERS=10 REQUESTS=100000.
const takeovers = Number(process.env.TAKEOVERS ?? 2)
const requests = Number(process.env.REQUESTS ?? 1500)
const timeoutMs = 120_000 + takeovers * 10_000 + requests * 20

/** A network namespace whose kernel settings can be changed. Some machines don't allow it. */
const inOwnNetwork = (migrates: boolean) => [
  'unshare',
  ...(process.getuid?.() === 0 ? ['--net'] : ['--net', '--map-root-user']),
  'sh',
  '-c',
  `ip link set lo up && echo ${migrates ? 1 : 0} >/proc/sys/net/ipv4/tcp_migrate_req && exec "$@"`,
  'sh',
]

const { exitCode } = Bun.spawnSync([...inOwnNetwork(true), 'true'])
if (exitCode !== 0) process.stderr.write('skipped: takeovers under load need "unshare --net" and "ip"\n')

async function runTrial(plan: TrialPlan, migrates: boolean): Promise<TrialReport> {
  const trial = [process.execPath, join(import.meta.dir, 'takeover-trial.ts'), JSON.stringify(plan)]
  const child = Bun.spawn([...inOwnNetwork(migrates), ...trial], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const text = await new Response(child.stdout).text()
  if (process.env.REQUESTS) process.stdout.write(`${text.trim()} ${JSON.stringify(plan)}\n`)
  return JSON.parse(text.trimEnd().split('\n').at(-1)!) as TrialReport
}

describe.skipIf(exitCode !== 0)('takeovers under load, where the kernel moves waiting connections', () => {
  it.each([1, 2])(
    'lose no request and no write, with workers = %d',
    async (workers) => {
      const report = await runTrial({ workers, takeovers, requests, clients: 16 }, true)

      expect(report).toMatchObject({ requests, takeovers, failures: {}, missing: [], warnings: [] })
      expect(report.written).toBeGreaterThan(requests / 5)
      expect(report.freshConnections).toBeGreaterThan(requests / 5)
    },
    timeoutMs,
  )
})

describe.skipIf(exitCode !== 0)('takeovers where the kernel does not move waiting connections', () => {
  it(
    'cause a warning at every start, and lose no acknowledged write',
    async () => {
      const report = await runTrial({ workers: 1, takeovers: 1, requests: 500, clients: 4 }, false)

      const warning = 'net.ipv4.tcp_migrate_req is off'
      expect(report).toMatchObject({ requests: 500, takeovers: 1, missing: [], warnings: [warning, warning] })
    },
    timeoutMs,
  )
})
