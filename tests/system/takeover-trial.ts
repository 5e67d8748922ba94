/**
 * A separate program: a bridge under continuous load, while one process after the other takes over. Its argument is a `TrialPlan` as JSON;
 * it prints a `TrialReport` as JSON. Runs where connections survive a takeover: in its own network namespace in the test.
 */
import { freePort } from '../support/free-port.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, serve, startUpstream } from '../support/executable.ts'
import { startLoad, type LoadReport } from './rolling-load.ts'

export interface TrialPlan {
  workers: number
  takeovers: number
  requests: number
  clients: number
}

export interface TrialReport extends LoadReport {
  takeovers: number
  /** The warnings of the bridge at its start. */
  warnings: string[]
}

const plan = JSON.parse(process.argv[2]!) as TrialPlan
const report = await run()
endAll()
await Bun.write(Bun.stdout, `${JSON.stringify(report)}\n`)
// Timers of settled waits would keep it alive.
process.exit(0)

async function run(): Promise<TrialReport> {
  const upstream = await startUpstream()
  const port = freePort()
  const collections = Array.from({ length: plan.clients }, (_, index) => `restarts${index}`)
  const bridge = await serve({
    token_server_url: upstream.tokenServerUrl,
    port: String(port),
    workers: String(plan.workers),
    reuse_port: 'true',
    // However busy the machine is, and however many clients one user has.
    max_concurrent_requests_per_user: '0',
    ...Object.fromEntries(collections.map((name) => [`record_${name}_put_enabled`, 'true'])),
  })
  const { events } = bridge
  const load = startLoad({
    url: `http://127.0.0.1:${port}`,
    bucket: upstream.bucket,
    identity: upstream.bearer,
    collections,
    known: 'bookmarks',
    requests: plan.requests,
  })
  let pid = bridge.pid

  for (let turn = 1; turn <= plan.takeovers; turn += 1) {
    await load.done((plan.requests * turn) / (plan.takeovers + 1))
    process.kill(pid, 'SIGUSR2')
    await eventually('another process has taken over', () => events('taken over').length === turn)
    await eventually('the one before has ended', () => events('stopped').length === turn)
    pid = Number(events('taken over').at(-1)!.pid)
  }
  const loadReport = await load.report
  process.kill(pid, 'SIGTERM')
  await bridge.exited
  await upstream.process.stop()
  const warnings = events('taking over can reset connections').map(({ reason }) => String(reason))
  return { ...loadReport, takeovers: events('taken over').length, warnings }
}
