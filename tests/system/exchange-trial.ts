/**
 * A separate program: a bridge under continuous load, which is exchanged for another instance at the same port, again and again, as
 * docs/scale.md describes. Its argument is an `ExchangePlan` as JSON; it prints an `ExchangeReport` as JSON. Runs in its own network namespace in
 * the test, because connections survive only with a setting of the kernel.
 */
import { freePort } from '../support/free-port.ts'
import { endAll, serve, startUpstream } from '../support/executable.ts'
import { startLoad, type LoadReport } from './rolling-load.ts'

export interface ExchangePlan {
  workers: number
  exchanges: number
  requests: number
  clients: number
}

export interface ExchangeReport extends LoadReport {
  exchanges: number
  /** The exit codes of the instances that were stopped. */
  codes: number[]
  /** The warnings of the instances at their start. */
  warnings: string[]
}

const plan = JSON.parse(process.argv[2]!) as ExchangePlan
const report = await run()
endAll()
await Bun.write(Bun.stdout, `${JSON.stringify(report)}\n`)
// Timers of settled waits would keep it alive.
process.exit(0)

async function run(): Promise<ExchangeReport> {
  const upstream = await startUpstream()
  const port = freePort()
  const collections = Array.from({ length: plan.clients }, (_, index) => `restarts${index}`)
  const startInstance = () =>
    serve({
      token_server_url: upstream.tokenServerUrl,
      port: String(port),
      workers: String(plan.workers),
      reuse_port: 'true',
      shutdown_delay_seconds: '1',
      // However busy the machine is, and however many clients one user has.
      max_concurrent_requests_per_user: '0',
      ...Object.fromEntries(collections.map((name) => [`record_${name}_put_enabled`, 'true'])),
    })
  let instance = await startInstance()
  const load = startLoad({
    url: `http://127.0.0.1:${port}`,
    bucket: upstream.bucket,
    identity: upstream.bearer,
    collections,
    known: 'bookmarks',
    requests: plan.requests,
  })
  const instances = [instance]
  const codes: number[] = []

  for (let turn = 1; turn <= plan.exchanges; turn += 1) {
    await load.done((plan.requests * turn) / (plan.exchanges + 1))
    const before = instance
    instance = await startInstance()
    instances.push(instance)
    codes.push(await before.stop())
  }
  const loadReport = await load.report
  await instance.stop()
  await upstream.process.stop()
  const warnings = instances.flatMap(({ events }) =>
    events('a stop can reset connections').map(({ reason }) => String(reason)),
  )
  return { ...loadReport, exchanges: codes.length, codes, warnings }
}
