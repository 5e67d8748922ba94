import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import type { ExchangePlan, ExchangeReport } from './exchange-trial.ts'

// Use more of both before a release: EXCHANGES=10 REQUESTS=100000.
const exchanges = Number(process.env.EXCHANGES ?? 1)
const requests = Number(process.env.REQUESTS ?? 400)
const timeoutMs = 120_000 + exchanges * 10_000 + requests * 20

/** A network namespace whose kernel settings can be changed, because the kernel moves connections. Some machines don't allow it. */
const inOwnNetwork = (migrates: boolean) => [
  'unshare',
  ...(process.getuid?.() === 0 ? ['--net'] : ['--net', '--map-root-user']),
  'sh',
  '-c',
  `ip link set lo up && echo ${migrates ? 1 : 0} >/proc/sys/net/ipv4/tcp_migrate_req && exec "$@"`,
  'sh',
]

const { exitCode } = Bun.spawnSync([...inOwnNetwork(true), 'true'])
if (exitCode !== 0) process.stderr.write('skipped: exchanges under load need "unshare --net" and "ip"\n')

async function runTrial(plan: ExchangePlan, migrates: boolean): Promise<ExchangeReport> {
  const trial = [process.execPath, join(import.meta.dir, 'exchange-trial.ts'), JSON.stringify(plan)]
  const child = Bun.spawn([...inOwnNetwork(migrates), ...trial], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const text = await new Response(child.stdout).text()
  if (process.env.REQUESTS) process.stdout.write(`${text.trim()} ${JSON.stringify(plan)}\n`)
  return JSON.parse(text.trimEnd().split('\n').at(-1)!) as ExchangeReport
}

describe.skipIf(exitCode !== 0)(
  'exchanges of instances under load, where the kernel moves waiting connections',
  () => {
    it.each([1, 2])(
      'lose no request and no write, with workers = %d',
      async (workers) => {
        const report = await runTrial({ workers, exchanges, requests, clients: 16 }, true)

        expect(report).toMatchObject({ requests, exchanges, failures: {}, missing: [], warnings: [] })
        expect(new Set(report.codes)).toEqual(new Set([0]))
        expect(report.written).toBeGreaterThan(requests / 5)
        expect(report.freshConnections).toBeGreaterThan(requests / 5)
      },
      timeoutMs,
    )
  },
)

describe.skipIf(exitCode !== 0)(
  'exchanges of instances where the kernel does not move waiting connections',
  () => {
    it(
      'cause a warning at every start, and lose no acknowledged write',
      async () => {
        const report = await runTrial({ workers: 1, exchanges: 1, requests: 200, clients: 4 }, false)

        const warning = 'net.ipv4.tcp_migrate_req is off'
        expect(report).toMatchObject({
          requests: 200,
          exchanges: 1,
          missing: [],
          warnings: [warning, warning],
        })
      },
      timeoutMs,
    )
  },
)
