import { createIdentity } from '../domain/credentials.ts'
import { ServiceError, UpstreamError } from '../domain/errors.ts'
import { versionPrefix } from '../service/bridge.ts'
import { connect } from '../service/services.ts'
import { maskedSettings, maskedValue } from '../settings/settings-text.ts'
import { describeAddressError, originOf, publicAddress, requireFree } from './listening.ts'
import { loadSettings } from './load-settings.ts'
import type { Settings } from '../settings/settings.ts'
import type { GivenOptions } from './command-line.ts'
import type { Host } from './host.ts'

type Verdict = { ok: boolean; detail: string }
export type Verdicts = Record<string, Verdict>

/**
 * Shows the effective settings, and tries the token server, the cache and the address to listen on. 0 if all is well,
 * otherwise 2. The verdicts go to stderr, the settings after them to stdout. `trusting`: variables that add trusted certificates.
 */
export async function check(
  path: string | null,
  trusting: string[],
  options: GivenOptions,
  host: Host,
  tryOut: typeof probe,
): Promise<number> {
  const [isOffline, asJson, isQuiet] = ['offline', 'json', 'quiet'].map((option) => options.has(option))
  const messages: string[] = []
  const loaded = loadSettings(path, host, trusting, asJson ? (line) => void messages.push(line) : undefined)
  const effective = loaded?.effective ?? []

  const checks: Verdicts = loaded && !isOffline ? await tryOut(loaded.settings, host) : {}
  const ok = loaded !== null && Object.values(checks).every((verdict) => verdict.ok)
  if (asJson) {
    const settings = effective.map((setting) => {
      return { name: setting.name, value: maskedValue(setting), source: setting.source }
    })
    host.stdout.write(`${JSON.stringify({ ok, settings, messages, checks }, null, 2)}\n`)
    return ok ? 0 : 2
  }
  for (const [what, verdict] of Object.entries(checks)) {
    if (!verdict.ok || !isQuiet) host.stderr.write(`${what}: ${verdict.detail}\n`)
  }
  if (loaded && isOffline && !isQuiet) host.stderr.write('the settings are valid\n')
  // After the verdict, which fifty lines would push out of sight.
  if (loaded && !isQuiet) host.stdout.write(`${maskedSettings(effective).join('\n')}\n`)
  return ok ? 0 : 2
}

/** Asks each service that this one depends on, and tries the address to listen on. */
export async function probe(settings: Settings, host: Host): Promise<Verdicts> {
  let redisError: string | null = null
  const { tokenServer, store } = connect(settings, host, {
    upstreamCall() {},
    breaker() {},
    redisTrouble: (trouble, code) => void (redisError = code ?? trouble),
  })
  const [refusal, isCacheWell, address] = await Promise.all([
    askTokenServer(() => tokenServer.exchange(nobody)),
    store === null || answersSoon(() => store.ping()),
    tryAddress(settings),
  ])
  await store?.close()
  const silence = `no answer (${redisError ?? 'in time'}): see service.cache_url, or set service.cache_backend = memory`
  return {
    'token server': { ok: refusal === null, detail: refusal ?? 'answers' },
    cache: { ok: isCacheWell, detail: isCacheWell ? 'answers' : silence },
    address,
  }
}

/** Null if it answers as a token server does, otherwise what is wrong. */
async function askTokenServer(ask: () => Promise<unknown>): Promise<string | null> {
  try {
    await ask()
    return null
  } catch (error) {
    // Only a token server refuses credentials with errors of its protocol.
    if (error instanceof ServiceError && error.status === 401) return null
    if (!(error instanceof ServiceError || error instanceof UpstreamError)) throw error
    return error.message + (hints.find(([pattern]) => pattern.test(error.message))?.[1] ?? '')
  }
}

const clientState = '0'.repeat(32)
const nobody = createIdentity({ scheme: 'Bearer', assertion: 'sync-bridge-check', clientState })

const authority = 'its certificate is of an unknown authority; name that in service.certificate_ca_bundle'
const hints: [RegExp, string][] = [
  [/SELF_SIGNED|UNABLE_TO_|_ISSUER/, `: ${authority}`],
  [/ALTNAME|HOSTNAME_MISMATCH/, ': its certificate is for another host'],
  [/CERT_HAS_EXPIRED/, ': its certificate has expired'],
  [/ECONNREFUSED/, ': nothing listens there; see service.token_server_url'],
  [/ENOTFOUND|EAI_|DNS_/, ': the host is unknown; see service.token_server_url'],
]

// A running instance of this service does not keep its next process from starting.
async function tryAddress(settings: Settings): Promise<Verdict> {
  const address = publicAddress(settings)
  try {
    requireFree(address)
    return { ok: true, detail: 'is free' }
  } catch (error) {
    const problem = await describeAddressError(error, address)
    if (problem === null) throw error
    const running = problem.startsWith('the port is in use') ? await runningVersion(settings) : null
    if (running) return { ok: true, detail: `in use by sync-bridge ${running}` }
    return { ok: false, detail: `cannot ${address.purpose}: ${problem}` }
  }
}

async function runningVersion(settings: Settings): Promise<string | null> {
  try {
    const url = `${originOf(settings.host, settings.port)}${versionPrefix(settings)}/__version__`
    const answer = await fetch(url, { signal: AbortSignal.timeout(1000) })
    const told = (await answer.json()) as { name?: unknown; version?: unknown }
    return told.name === 'sync-bridge' ? String(told.version) : null
  } catch {
    return null
  }
}

// A store connects in the background, so the first ping may come too early.
async function answersSoon(ping: () => Promise<boolean>): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    if (await ping()) return true
    await Bun.sleep(50)
  }
  return false
}
