import { createIdentity } from '../../domain/credentials.ts'
import { errno, ServiceError, UpstreamError } from '../../domain/errors.ts'
import { openStatsdSocket } from '../../observability/statsd.ts'
import { versionPrefix } from '../../service/bridge.ts'
import { connect } from '../../service/services.ts'
import { reloadable } from '../../settings/schema.ts'
import { maskedSettings, maskedValue } from '../../settings/settings-text.ts'
import {
  describeAddressError,
  metricsAddress,
  originOf,
  publicAddress,
  requireFree,
  type ListeningAddress,
} from './listening.ts'
import { loadSettings } from './load-settings.ts'
import { configOption, describeCommand, type CommandFactory } from '../command.ts'
import { print } from '../output.ts'
import { adviceOn, type Places } from '../advice.ts'
import type { Settings } from '../../settings/settings.ts'
import type { Host } from '../host.ts'

type Verdict = { ok: boolean; detail: string }
export type Verdicts = Record<string, Verdict>

export const checkCommand =
  (tryOut: typeof probe): CommandFactory =>
  (perform) =>
    describeCommand(
      'check',
      'validate the settings, and test token server, cache and address',
      'Prints the results to standard error, then the effective settings with masked secrets to standard output. Exits 0 ' +
        'if there are no problems, otherwise 2.',
    )
      .addOption(configOption)
      .option('--offline', 'only validate the settings, without connecting to anything')
      .option('--json', 'print one JSON object, for programs')
      .option('-q, --quiet', 'print only problems')
      .action(perform((host, { config = null, ...how }) => check(config, how, host, tryOut)))

interface Manner {
  offline?: true
  json?: true
  quiet?: true
}

/**
 * Validates the settings and tests the token server, the cache and the address. Writes verdicts to stderr, then the settings to stdout.
 * 0 if all is well, 2 if not, 1 if the settings can't be written.
 */
async function check(
  path: string | null,
  { offline: isOffline, json: asJson, quiet: isQuiet }: Manner,
  host: Host,
  tryOut: typeof probe,
): Promise<number> {
  const messages: string[] = []
  const loaded = loadSettings(path, host, asJson ? (line) => void messages.push(line) : undefined)
  const effective = loaded?.effective ?? []

  const checks: Verdicts = loaded && !isOffline ? await tryOut(loaded.settings, host) : {}
  const ok = loaded !== null && Object.values(checks).every((verdict) => verdict.ok)
  if (asJson) {
    const settings = effective.map((setting) => {
      return { name: setting.name, value: maskedValue(setting), source: setting.source }
    })
    const code = await print(host, `${JSON.stringify({ ok, settings, messages, checks }, null, 2)}\n`)
    return ok ? code : 2
  }
  for (const [what, verdict] of Object.entries(checks)) {
    if (!verdict.ok || !isQuiet) host.stderr.write(`${what}: ${verdict.detail}\n`)
  }
  if (loaded && isOffline && !isQuiet) host.stderr.write('the settings are valid\n')
  // After the verdicts, because fifty lines would scroll them out of sight.
  const code = loaded && !isQuiet ? await print(host, `${maskedSettings(effective).join('\n')}\n`) : 0
  return ok ? code : 2
}

/** Tests the services that this one depends on, and the addresses to listen on. */
export async function probe(settings: Settings, host: Host): Promise<Verdicts> {
  let redisError: [trouble: string, code: string | null] = ['timeout', 'timed out']
  const { tokenServer, store } = connect(settings, host, {
    upstreamCall() {},
    redisTrouble: (...error) => void (redisError = error),
  })
  const metrics = metricsAddress(settings)
  const [refusal, isCacheWell, address, metricsVerdict, statsdVerdict] = await Promise.all([
    probeTokenServer(() => tokenServer.exchange(unknownIdentity)),
    store === null || keepsEntriesSoon(store),
    tryAddress(publicAddress(settings), `${versionPrefix(settings)}/__version__`, versionMark),
    metrics && tryAddress(metrics, '/__metrics__', /sync_bridge_build_info/),
    settings.statsdUrl && tryStatsd(settings.statsdUrl),
  ])
  await store?.close()
  const [trouble, code] = redisError
  const problem =
    trouble === 'refused'
      ? `refuses commands (${code ?? trouble}): give its user +get +set +del +ping, set maxmemory-policy, name the master, or write redis+cluster:// for a cluster`
      : `no response (${code ?? trouble}): check service.cache_url, or set service.cache_backend = memory`
  return {
    'token server': { ok: refusal === null, detail: refusal ?? 'OK' },
    cache: { ok: isCacheWell, detail: isCacheWell ? 'OK' : problem },
    address,
    ...(metricsVerdict && { 'metrics address': metricsVerdict }),
    ...(statsdVerdict && { statsd: statsdVerdict }),
  }
}

/** Null if a token server answers, else the problem. */
async function probeTokenServer(ask: () => Promise<unknown>): Promise<string | null> {
  try {
    await ask()
    return null
  } catch (error) {
    // Only a token server rejects credentials with errors of its protocol.
    if (error instanceof ServiceError && error.status === 401) return null
    if (!(error instanceof ServiceError || error instanceof UpstreamError)) throw error
    return error.message + adviceOn(error.message, places)
  }
}

const clientState = '0'.repeat(32)
const unknownIdentity = createIdentity({ scheme: 'Bearer', assertion: 'sync-bridge-check', clientState })

const places: Places = {
  tokenServer: 'service.token_server_url',
  authority: 'add that to service.certificate_ca_bundle',
}

const reloadRule = `a reload applies record_*, ${[...reloadable].join(', ')}; other changes and a new executable need a restart`

// After `service.eos`, the version is the error of an ended service.
const versionMark = new RegExp(`"sync-bridge"|"errno":${errno.serviceEnded}`)

// A running instance of this service, which has `mark` in its answer at `path`, does not prevent the next process from starting.
async function tryAddress(address: ListeningAddress, path: string, mark: RegExp): Promise<Verdict> {
  try {
    requireFree(address)
    return { ok: true, detail: 'available' }
  } catch (error) {
    const problem = await describeAddressError(error, address)
    if (problem === null) throw error
    const isOwn = problem.startsWith('the port is in use') && (await answersWith(mark, address, path))
    if (isOwn) return { ok: true, detail: `in use by sync-bridge; ${reloadRule}` }
    return { ok: false, detail: `cannot ${address.purpose}: ${problem}` }
  }
}

async function answersWith(
  mark: RegExp,
  { hostname, port }: ListeningAddress,
  path: string,
): Promise<boolean> {
  try {
    const answer = await fetch(`${originOf(hostname, port)}${path}`, { signal: AbortSignal.timeout(1000) })
    return mark.test(await answer.text())
  } catch {
    return false
  }
}

// Only the name can be tested: statsd never answers.
async function tryStatsd(address: NonNullable<Settings['statsdUrl']>): Promise<Verdict> {
  try {
    const socket = await openStatsdSocket(address)
    socket.close()
    return { ok: true, detail: 'OK' }
  } catch (error) {
    const { code } = error as { code?: unknown }
    return { ok: false, detail: `the host is unknown (${String(code)}): check service.statsd_url` }
  }
}

// The store connects in the background, so the first commands may fail. A replica, a full server and one that denies the user these
// commands respond to a ping, so that is not enough.
async function keepsEntriesSoon(store: NonNullable<ReturnType<typeof connect>['store']>): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    try {
      // Several keys, because a member of a cluster refuses those of the other members.
      const keys = Array.from({ length: 16 }, (_, index) => `check-${index}`)
      await Promise.all(
        keys.map(async (key) => {
          await store.set(key, '', 1000)
          await store.get(key)
          await store.delete(key)
        }),
      )
      if (await store.ping()) return true
    } catch {
      // `redisTrouble` has the reason.
    }
    await Bun.sleep(50)
  }
  return false
}
