import { createIdentity } from '../domain/credentials.ts'
import { ServiceError, UpstreamError } from '../domain/errors.ts'
import { maskedSettings, maskedValue } from '../settings/settings-text.ts'
import { describeAddressError, publicAddress, requireFree } from './listening.ts'
import { loadSettings } from './load-settings.ts'

import type { Settings } from '../settings/settings.ts'
import type { Host, Output } from './host.ts'

export type Probes = Awaited<ReturnType<typeof createProbes>>

interface CheckOptions {
  /** The settings file; null: the environment alone. */
  path: string | null
  /** Variables that add trusted certificates. */
  trusting: string[]
  /** Makes no connection. */
  isOffline: boolean
  /** Prints one JSON object instead of everything else. */
  asJson: boolean
  /** Prints problems only. */
  isQuiet: boolean
}

/**
 * Shows the settings as they count, and tries the token server, the cache and the address to listen on. 0 if all is well,
 * otherwise 2. The settings go to stdout, verdicts to stderr.
 */
export async function check(
  options: CheckOptions,
  host: Host,
  createProbes: (settings: Settings, host: Host) => Promise<Probes>,
): Promise<number> {
  const { path, trusting, isOffline, asJson, isQuiet } = options
  const lines: string[] = []
  const kept: Output = { ...host.stderr, write: (text) => void lines.push(...text.trimEnd().split('\n')) }
  const loaded = await loadSettings(path, asJson ? { ...host, stderr: kept } : host, trusting)
  if (loaded && !asJson && !isQuiet) host.stdout.write(`${maskedSettings(loaded.effective).join('\n')}\n`)

  const checks = loaded && !isOffline ? await probe(await createProbes(loaded.settings, host)) : {}
  const isWell = loaded !== null && Object.values(checks).every(({ ok }) => ok)
  if (asJson) {
    const settings = loaded?.effective.map((setting) => ({
      name: setting.name,
      value: maskedValue(setting),
      source: setting.source,
    }))
    const report = { ok: isWell, settings: settings ?? [], messages: lines, checks }
    host.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
  } else {
    for (const [what, { ok, detail }] of Object.entries(checks)) {
      if (!ok || !isQuiet) host.stderr.write(`${what}: ${detail}\n`)
    }
    if (loaded && isOffline && !isQuiet) host.stderr.write('the settings are valid\n')
  }
  return isWell ? 0 : 2
}

type Verdicts = Record<string, { ok: boolean; detail: string }>

async function probe(probes: Probes): Promise<Verdicts> {
  const [tokenServer, cache, address] = await Promise.all([
    probes.tokenServer(),
    probes.cache(),
    probes.address(),
  ])
  await probes.close()
  return { 'token server': verdict(tokenServer, 'answers'), cache: verdict(cache, 'answers'), address }
}

function verdict(outcome: true | string, well: string): Verdicts[string] {
  return outcome === true ? { ok: true, detail: well } : { ok: false, detail: outcome }
}

/** Asks each service that this one depends on: true if it answers, or a sentence about what is wrong. */
export async function createProbes(settings: Settings, host: Host) {
  const { connect } = await import('../service/services.ts')
  let redisError: string | null = null
  const { tokenServer, store } = connect(settings, host, {
    upstreamCall() {},
    breaker() {},
    redisTrouble: (trouble, code) => void (redisError = code ?? trouble),
  })
  return {
    async tokenServer(): Promise<true | string> {
      try {
        await tokenServer.exchange(nobody)
        return true
      } catch (error) {
        // Only a token server refuses credentials with errors of its protocol.
        if (error instanceof ServiceError && error.status === 401) return true
        if (error instanceof ServiceError || error instanceof UpstreamError)
          return `${error.message}${hint(error.message)}`
        throw error
      }
    },
    async cache(): Promise<true | string> {
      if (store === null || (await answersSoon(() => store.ping()))) return true
      return `no answer (${redisError ?? 'in time'}): see service.cache_url`
    },
    /** The address to listen on. */
    address: () => tryAddress(settings),
    close: async () => store?.close(),
  }
}

const nobody = createIdentity({
  scheme: 'Bearer',
  assertion: 'sync-bridge-check',
  clientState: '0'.repeat(32),
})

function hint(message: string): string {
  return hints.find(([pattern]) => pattern.test(message))?.[1] ?? ''
}

const hints: [RegExp, string][] = [
  [
    /SELF_SIGNED|UNABLE_TO_|_ISSUER/,
    ': its certificate is of an unknown authority; name that in service.certificate_ca_bundle',
  ],
  [/ALTNAME|HOSTNAME_MISMATCH/, ': its certificate is for another host'],
  [/CERT_HAS_EXPIRED/, ': its certificate has expired'],
  [/ECONNREFUSED/, ': nothing listens there; see service.token_server_url'],
  [/ENOTFOUND|EAI_|DNS_/, ': the host is unknown; see service.token_server_url'],
]

// A running instance of this service does not keep its next process from starting.
async function tryAddress(settings: Settings): Promise<Verdicts[string]> {
  const address = publicAddress(settings)
  try {
    requireFree(address)
    return { ok: true, detail: 'is free' }
  } catch (error) {
    const problem = await describeAddressError(error, address)
    if (problem === null) throw error
    const running = problem.startsWith('the port is in use') ? await runningVersion(settings) : null
    if (running) return { ok: true, detail: `in use by sync-bridge ${running}` }
    return { ok: false, detail: `cannot listen on ${address.hostname}:${address.port}: ${problem}` }
  }
}

async function runningVersion({ host, port }: Settings): Promise<string | null> {
  try {
    const everywhere: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }
    const name = everywhere[host] ?? (host.includes(':') ? `[${host}]` : host)
    const answer = await fetch(`http://${name}:${port}/v1/__version__`, {
      signal: AbortSignal.timeout(1000),
    })
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
