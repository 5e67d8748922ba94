import { settingsSchema } from './schema.ts'

import type { AnySetting } from './schema.ts'
import type { EffectiveSetting, Settings } from './settings.ts'
import type { SettingsProblem } from './sources.ts'

/** What settings meet when a service starts. */
interface Circumstances {
  /** Since 1970. */
  nowMs: number
  /** The most files and sockets that this process may have open; null where that is not known. */
  maxFileDescriptors: number | null
}

/** Tells what is wrong, and the remedy. Of the settings that it is about, the first one that was given is where to look. */
type Say = (names: string, problem: string, remedy: string) => void

/** The largest record that the official clients send, with room for what is around it. */
const largestRecordBytes = 256 * 1024

/**
 * How many files and sockets one process may have open at a time: two for each request in flight, as many again for
 * clients that send, wait or are idle, and what the process has for itself.
 */
export function fileDescriptorsNeeded(settings: Pick<Settings, 'maxConcurrentRequests'>): number {
  return 4 * settings.maxConcurrentRequests + 512
}

/** Settings that are right by themselves but not together: `problems` keep a service from running, `warnings` do not. */
export function findContradictions(
  settings: Settings,
  effective: EffectiveSetting[],
  circumstances: Circumstances,
): { problems: SettingsProblem[]; warnings: SettingsProblem[] } {
  const known = new Map(effective.map((setting) => [setting.name, setting]))
  const sayTo =
    (list: SettingsProblem[]): Say =>
    (names, problem, remedy) => {
      const all = names.split(' ').map((name) => known.get(name)!)
      const given = all.find(({ source }) => source !== 'default')
      const key = `service.${(given ?? all[0]!).name}`
      list.push({ where: given?.source ?? null, key, problem: `${problem}: ${remedy}` })
    }
  const problems: SettingsProblem[] = []
  const warnings: SettingsProblem[] = []
  const warn = sayTo(warnings)
  refuse(settings, sayTo(problems))
  warnOfAddresses(settings, warn)
  warnOfLimits(settings, circumstances, warn)
  const initials: Record<string, AnySetting> = settingsSchema
  for (const [hasEffect, name, needed] of dependent(settings)) {
    if (hasEffect || known.get(name)!.text === initials[name]!.initial) continue
    warn(name, `has no effect without ${needed}`, `remove it, or set ${needed}`)
  }
  return { problems, warnings }
}

function refuse({ host, port, metricsListen, tokenServerUrl }: Settings, say: Say): void {
  const { hostname, protocol, port: portText } = new URL(tokenServerUrl)
  const isOwnPort = Number(portText || (protocol === 'https:' ? 443 : 80)) === port
  const isOwnHost = hostname === host || (isLoopback(hostname) && (isLoopback(host) || isEverywhere(host)))
  const { host: metricsHost = '', port: metricsPort = null } = metricsListen ?? {}
  const areOneHost = metricsHost === host || isEverywhere(host) || isEverywhere(metricsHost)
  const itself = 'is the address of this service itself'
  if (metricsPort === port && areOneHost) say('metrics_listen', itself, 'name another port')
  if (isOwnPort && isOwnHost) say('token_server_url', itself, 'name the token server, or change service.port')
}

function warnOfAddresses(settings: Settings, say: Say): void {
  const { host, port, httpHost, httpScheme, explorerEnabled, reusePort } = settings
  const isSecure = httpScheme === 'https'
  const secure = 'set service.http_scheme = https'
  const publicPort = /:(\d+)$/.exec(httpHost ?? '')?.[1]
  const publicName = httpHost?.replace(/:\d+$/, '') ?? host
  if (!isLoopback(host) && !isSecure) {
    const message = `${host} can be reached from other machines without encryption`
    say('host', message, `put a server with TLS in front, and ${secure}`)
  }
  if (httpHost && httpScheme === null)
    say('http_host', 'generated URLs begin with http://', `${secure}, or http if that is meant`)
  if (httpHost && /^(0\.0\.0\.0|\[::\])$/.test(publicName))
    say('http_host', 'is no address that clients can ask', 'write a name; service.host is for listening')
  if (publicPort === (isSecure ? '80' : '443')) {
    const message = `generated URLs begin with ${httpScheme ?? 'http'}:// and have port ${publicPort}`
    say('http_host http_scheme', message, 'leave the port out, or change service.http_scheme')
  }
  if (explorerEnabled && !isSecure && !isLoopback(publicName)) {
    const message = 'browsers decrypt only where the page came by https or from localhost'
    say('explorer_enabled', message, `${secure}, or remove it`)
  }
  if (reusePort && port === 0)
    say('reuse_port port', 'every instance takes a port of its own', 'set service.port')
}

function warnOfLimits(settings: Settings, { nowMs, maxFileDescriptors }: Circumstances, say: Say): void {
  const { requestTimeoutSeconds: request, upstreamTimeoutSeconds: upstream, workers, writable } = settings
  const larger = (name: string) => `make service.${name} the larger one`
  if (upstream > request) {
    const message = `a request ends after ${request} s, before ${upstream} s for upstream`
    say('upstream_timeout_seconds request_timeout_seconds', message, larger('request_timeout_seconds'))
  }
  if (settings.shutdownGraceSeconds < request) {
    const message = `requests may take ${request} s, and are cut ${settings.shutdownGraceSeconds} s after SIGTERM`
    say('shutdown_grace_seconds request_timeout_seconds', message, larger('shutdown_grace_seconds'))
  }
  if (workers > 1 && settings.workerTimeoutSeconds * 1000 <= settings.maxEventLoopLagMs) {
    const names = 'worker_timeout_seconds max_event_loop_lag_ms'
    say(names, 'a worker that is only late is killed', larger('worker_timeout_seconds'))
  }
  if (settings.maxConcurrentRequestsPerUser > settings.maxConcurrentRequests) {
    const names = 'max_concurrent_requests_per_user max_concurrent_requests'
    say(names, 'one user may have more than there is for all', larger('max_concurrent_requests'))
  }
  if (workers > 1 && settings.cacheBackend === 'memory')
    say('cache_backend workers', 'every worker remembers by itself', 'use redis to share the memory')
  if (settings.cacheHmacSecret.toHex() === settings.cacheHmacSecretPrevious?.toHex()) {
    const message = 'is the same as service.cache_hmac_secret'
    say('cache_hmac_secret_previous', message, 'write the secret of before, or remove it')
  }
  if (settings.eos && settings.eos.atMs <= nowMs)
    say('eos', 'is past: every request is answered 410', 'remove it, or write a later day')
  if (settings.maxRequestBytes < largestRecordBytes) {
    const message = 'is less than one record of 250 KB, as Firefox may write it'
    say('max_request_bytes', message, `write ${largestRecordBytes} or more`)
  }
  if (settings.readonly && writable.put.size + writable.delete.size > 0) {
    const message = 'refuses every write, also those that service.record_… settings allow'
    say('readonly', message, 'remove one or the other')
  }
  const files = fileDescriptorsNeeded(settings)
  if (maxFileDescriptors !== null && maxFileDescriptors < files) {
    const message = `a process may open ${maxFileDescriptors} files, which is too few`
    const remedy = `raise LimitNOFILE= or "ulimit -n" to ${files}, or lower the setting`
    say('max_concurrent_requests', message, remedy)
  }
}

/** Settings that count only where something else is so: whether it is, their names, and what that is. */
function dependent(settings: Settings): [hasEffect: unknown, name: string, needed: string][] {
  const isShared = settings.cacheBackend === 'redis'
  return [
    [settings.workers > 1, 'worker_timeout_seconds', 'service.workers above 1'],
    [isShared, 'cache_url', 'service.cache_backend = redis'],
    [isShared, 'cache_prefix', 'service.cache_backend = redis'],
    [isShared, 'cache_hmac_secret_previous', 'service.cache_backend = redis'],
    [settings.eos, 'eos_message', 'service.eos'],
    [settings.eos, 'eos_url', 'service.eos'],
    [settings.statsdUrl, 'statsd_prefix', 'service.statsd_url'],
    [settings.metricsEnabled, 'metrics_listen', 'service.metrics_enabled = true'],
  ]
}

function isEverywhere(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

function isLoopback(host: string): boolean {
  return /^(127\.|\[?::1\]?$|localhost\.?$)/i.test(host)
}
