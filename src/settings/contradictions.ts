import { settingsSchema, type AnySetting } from './schema.ts'
import type { EffectiveSetting, Settings } from './settings.ts'
import type { SettingsProblem } from './sources.ts'

/** The largest record that the official clients send, with room for what is around it. */
const maxFirefoxRecordBytes = 256 * 1024

/**
 * How many files and sockets one process may have open at a time: two for each request in flight, as many again for
 * clients that send, wait or are idle, and what the process has for itself.
 */
export function fileDescriptorsNeeded(settings: Pick<Settings, 'maxConcurrentRequests'>): number {
  return 4 * settings.maxConcurrentRequests + 512
}

/**
 * Settings that are right by themselves but not together: `problems` keep a service from running, `warnings` do not. `nowMs` is
 * since 1970; `maxFileDescriptors` is the most files and sockets that this process may have open, null where that is not known.
 */
export function findContradictions(
  settings: Settings,
  effective: EffectiveSetting[],
  { nowMs, maxFileDescriptors }: { nowMs: number; maxFileDescriptors: number | null },
): { problems: SettingsProblem[]; warnings: SettingsProblem[] } {
  const known = new Map(effective.map((setting) => [setting.name, setting]))
  /** Tells what is wrong, and the remedy. Of the settings that it is about, the first one that was given is where to look. */
  const sayTo = (list: SettingsProblem[]) => (names: string, problem: string, remedy: string) => {
    const all = names.split(' ').map((name) => known.get(name)!)
    const { name, source } = all.find((each) => each.source !== 'default') ?? all[0]!
    const where = source === 'default' ? null : source
    list.push({ where, key: `service.${name}`, problem: `${problem}: ${remedy}` })
  }
  const problems: SettingsProblem[] = []
  const warnings: SettingsProblem[] = []
  const refuse = sayTo(problems)
  const warn = sayTo(warnings)
  const larger = (name: string) => `make service.${name} the larger one`

  const { host, port, httpHost, httpScheme, metricsListen, workers, writable } = settings
  const tokenServer = new URL(settings.tokenServerUrl)
  const isOwnPort = Number(tokenServer.port || (tokenServer.protocol === 'https:' ? 443 : 80)) === port
  const isReachedHere = isLoopback(tokenServer.hostname) && (isLoopback(host) || isEverywhere(host))
  const itself = 'is the address of this service itself'
  if (isOwnPort && (tokenServer.hostname === host || isReachedHere))
    refuse('token_server_url', itself, 'name the token server, or change service.port')
  const isMetricsHost = [host, metricsListen?.host ?? ''].some(isEverywhere) || metricsListen?.host === host
  if (metricsListen?.port === port && isMetricsHost) refuse('metrics_listen', itself, 'name another port')

  for (const [method, collections] of Object.entries(writable)) {
    for (const collection of collections) {
      const name = `record_${collection}_${method}_enabled`
      if (settings.readableCollections?.has(collection) === false)
        refuse(
          name,
          'opens a collection that service.readable_collections leaves out',
          'add it there, or remove this',
        )
      if (collection === 'crypto' || collection === 'meta') {
        const message =
          'lets clients change what the other data is read by: a wrong write locks a person out of it'
        warn(name, message, 'remove it, unless a client of yours replaces keys')
      }
    }
  }

  if (settings.readableCollections?.has('crypto') === false) {
    const message = 'leaves out crypto, and clients need the keys in it to decrypt the others'
    warn('readable_collections', message, 'add crypto, unless your clients have these keys')
  }

  const isSecure = httpScheme === 'https'
  const secure = 'set service.http_scheme = https'
  const publicPort = /:(\d+)$/.exec(httpHost ?? '')?.[1]
  const publicName = httpHost?.replace(/:\d+$/, '') ?? host
  if (!isLoopback(host) && !isSecure) {
    const message = `${host} can be reached from other machines without encryption`
    warn('host', message, `put a server with TLS in front, and ${secure}`)
  }
  if (httpHost && httpScheme === null)
    warn('http_host', 'generated URLs begin with http://', `${secure}, or http if that is meant`)
  if (httpHost && /^(0\.0\.0\.0|\[::\])$/.test(publicName))
    warn('http_host', 'is no address that clients can ask', 'write a name; service.host is for listening')
  if (publicPort === (isSecure ? '80' : '443')) {
    const message = `generated URLs begin with ${httpScheme ?? 'http'}:// and have port ${publicPort}`
    warn('http_host http_scheme', message, 'leave the port out, or change service.http_scheme')
  }
  if (settings.explorerEnabled && !isSecure && !isLoopback(publicName)) {
    const message = 'browsers decrypt only where the page came by https or from localhost'
    warn('explorer_enabled', message, `${secure}, or remove it`)
  }
  if (settings.reusePort && port === 0)
    warn('reuse_port port', 'every instance takes a port of its own', 'set service.port')

  const { requestTimeoutSeconds: request, upstreamTimeoutSeconds: upstream } = settings
  if (upstream > request) {
    const message = `a request ends after ${request} s, before ${upstream} s for upstream`
    warn('upstream_timeout_seconds request_timeout_seconds', message, larger('request_timeout_seconds'))
  }
  if (settings.shutdownGraceSeconds < request) {
    const message = `requests may take ${request} s, and are cut ${settings.shutdownGraceSeconds} s after SIGTERM`
    warn('shutdown_grace_seconds request_timeout_seconds', message, larger('shutdown_grace_seconds'))
  }
  if (workers > 1 && settings.cacheBackend === 'memory')
    warn('cache_backend workers', 'every worker remembers by itself', 'use redis to share the memory')
  if (settings.cacheHmacSecret.toHex() === settings.cacheHmacSecretPrevious?.toHex()) {
    const message = 'is the same as service.cache_hmac_secret'
    warn('cache_hmac_secret_previous', message, 'write the secret of before, or remove it')
  }
  if (settings.eos && settings.eos.atMs <= nowMs)
    warn('eos', 'is past: every request is answered 410', 'remove it, or write a later day')
  if (settings.maxRequestBytes < maxFirefoxRecordBytes) {
    const message = 'is less than one record of 250 KB, as Firefox may write it'
    warn('max_request_bytes', message, `write ${maxFirefoxRecordBytes} or more`)
  }
  if (settings.readonly && writable.put.size + writable.delete.size > 0) {
    const message = 'refuses every write, also those that service.record_… settings allow'
    warn('readonly', message, 'remove one or the other')
  }
  const files = fileDescriptorsNeeded(settings)
  if (maxFileDescriptors !== null && maxFileDescriptors < files) {
    const message = `a process may open ${maxFileDescriptors} files, which is too few`
    const remedy = `raise LimitNOFILE= or "ulimit -n" to ${files}, or lower the setting`
    warn('max_concurrent_requests', message, remedy)
  }

  const isShared = settings.cacheBackend === 'redis'
  const dependent: [hasEffect: unknown, name: string, needed: string][] = [
    [workers > 1, 'worker_timeout_seconds', 'service.workers above 1'],
    [isShared, 'cache_url', 'service.cache_backend = redis'],
    [isShared, 'cache_prefix', 'service.cache_backend = redis'],
    [isShared, 'cache_hmac_secret_previous', 'service.cache_backend = redis'],
    [settings.eos, 'eos_message', 'service.eos'],
    [settings.eos, 'eos_url', 'service.eos'],
    [settings.statsdUrl, 'statsd_prefix', 'service.statsd_url'],
    [settings.metricsEnabled, 'metrics_listen', 'service.metrics_enabled = true'],
  ]
  const initials: Record<string, AnySetting> = settingsSchema
  for (const [hasEffect, name, needed] of dependent) {
    if (hasEffect || known.get(name)!.text === initials[name]!.initial) continue
    warn(name, `has no effect without ${needed}`, `remove it, or set ${needed}`)
  }
  return { problems, warnings }
}

function isEverywhere(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

export function isLoopback(host: string): boolean {
  return /^(127\.|\[?::1\]?$|localhost\.?$)/i.test(host)
}
