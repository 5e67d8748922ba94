import { settingsSchema, type AnySetting } from './schema.ts'
import type { EffectiveSetting, Settings } from './settings.ts'
import type { SettingsProblem } from './sources.ts'

/** The largest record that Firefox sends, with room for its envelope. */
const maxFirefoxRecordBytes = 256 * 1024

/**
 * Maximum open files and sockets of a process: two per request in flight, two more for clients that send, wait or are idle, and what the
 * process itself needs.
 */
export function fileDescriptorsNeeded(settings: Pick<Settings, 'maxConcurrentRequests'>): number {
  return 4 * settings.maxConcurrentRequests + 512
}

/**
 * Finds settings that are valid alone but not together: `problems` prevent a start, `warnings` do not. `nowMs`: since 1970.
 * `maxFileDescriptors`: how many files and sockets this process may open; null if unknown.
 */
export function findContradictions(
  settings: Settings,
  effective: EffectiveSetting[],
  { nowMs, maxFileDescriptors }: { nowMs: number; maxFileDescriptors: number | null },
): { problems: SettingsProblem[]; warnings: SettingsProblem[] } {
  const known = new Map(effective.map((setting) => [setting.name, setting]))
  /** Adds a problem with its remedy, located at the first of the named settings that was given. */
  const reportTo = (list: SettingsProblem[]) => (names: string, problem: string, remedy: string) => {
    const all = names.split(' ').map((name) => known.get(name)!)
    const { name, source } = all.find((each) => each.source !== 'default') ?? all[0]!
    const where = source === 'default' ? null : source
    list.push({ where, key: `service.${name}`, problem: `${problem}: ${remedy}` })
  }
  const problems: SettingsProblem[] = []
  const warnings: SettingsProblem[] = []
  const refuse = reportTo(problems)
  const warn = reportTo(warnings)
  const larger = (name: string) => `make service.${name} the larger one`

  const { host, port, httpHost, httpScheme, metricsListen, workers, writable } = settings
  const tokenServer = new URL(settings.tokenServerUrl)
  const isOwnPort = Number(tokenServer.port || (tokenServer.protocol === 'https:' ? 443 : 80)) === port
  const isReachedHere = isLoopback(tokenServer.hostname) && (isLoopback(host) || isEverywhere(host))
  const itself = 'is the address of this service itself'
  if (isOwnPort && (tokenServer.hostname === host || isReachedHere))
    refuse('token_server_url', itself, 'name the token server, or change service.port')
  const metricsHost = metricsListen?.host ?? ''
  const isMetricsHost = [host, metricsHost].some(isEverywhere) || isSameHost(metricsHost, host)
  if (metricsListen?.port === port && isMetricsHost) refuse('metrics_listen', itself, 'name another port')

  for (const [method, collections] of Object.entries(writable)) {
    for (const collection of collections) {
      const name = `record_${collection}_${method}_enabled`
      if (settings.readableCollections?.has(collection) === false)
        refuse(
          name,
          'enables writes to a collection that service.readable_collections excludes',
          'add it there, or remove this',
        )
      if (collection === 'crypto' || collection === 'meta') {
        const message = 'lets clients change the keys to the other data: a wrong write makes it unreadable'
        warn(name, message, 'remove it, unless your client replaces keys')
      }
    }
  }

  if (settings.readableCollections?.has('crypto') === false) {
    const message = 'excludes crypto, which has the keys that clients need to decrypt the others'
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
  // In a container both listen everywhere, and its network decides who can connect.
  if (isEverywhere(metricsHost) && !isEverywhere(host)) {
    const message = `${metricsHost} shows the metrics to everyone who can reach this machine`
    warn('metrics_listen', message, 'write one address, such as 127.0.0.1:9100')
  }
  if (httpHost && httpScheme === null)
    warn('http_host', 'generated URLs begin with http://', `${secure}, or http if that is meant`)
  if (httpHost && /^(0\.0\.0\.0|\[::\])$/.test(publicName))
    warn(
      'http_host',
      'is not an address that clients can use',
      'write a host name; service.host is for listening',
    )
  if (publicPort === (isSecure ? '80' : '443')) {
    const message = `generated URLs begin with ${httpScheme ?? 'http'}:// and have port ${publicPort}`
    warn('http_host http_scheme', message, 'leave the port out, or change service.http_scheme')
  }
  if (settings.explorerEnabled && !isSecure && !isLoopback(publicName)) {
    const message = 'browsers only decrypt on pages from https or localhost'
    warn('explorer_enabled', message, `${secure}, or remove it`)
  }
  if (settings.reusePort && port === 0)
    warn('reuse_port port', 'each instance gets its own port', 'set service.port')

  const { requestTimeoutSeconds: request, upstreamTimeoutSeconds: upstream } = settings
  if (upstream > request) {
    const message = `requests time out after ${request} s, before upstream calls do after ${upstream} s`
    warn('upstream_timeout_seconds request_timeout_seconds', message, larger('request_timeout_seconds'))
  }
  if (settings.shutdownGraceSeconds < request) {
    const message = `requests may take ${request} s, but are aborted ${settings.shutdownGraceSeconds} s after SIGTERM`
    warn('shutdown_grace_seconds request_timeout_seconds', message, larger('shutdown_grace_seconds'))
  }
  const { maxConcurrentRequests: inFlight, maxConcurrentRequestsPerUser: ofOneUser } = settings
  if (ofOneUser >= inFlight) {
    const message = `one user may have all ${inFlight} requests in flight`
    warn('max_concurrent_requests', message, 'make it larger than service.max_concurrent_requests_per_user')
  }
  if (workers > 1 && settings.cacheBackend === 'memory')
    warn('cache_backend workers', 'each worker has its own cache', 'use redis to share one')
  if (settings.cacheHmacSecret.toHex() === settings.cacheHmacSecretPrevious?.toHex()) {
    const message = 'is the same as service.cache_hmac_secret'
    warn('cache_hmac_secret_previous', message, 'write the previous secret, or remove it')
  }
  if (settings.eos && settings.eos.atMs <= nowMs)
    warn('eos', 'is in the past: every request gets 410', 'remove it, or write a later date')
  if (settings.maxRequestBytes < maxFirefoxRecordBytes) {
    const message = 'is smaller than a record of 250 KB, which Firefox may write'
    warn('max_request_bytes', message, `write ${maxFirefoxRecordBytes} or more`)
  }
  if (settings.readonly && writable.put.size + writable.delete.size > 0) {
    const message = 'rejects every write, even if service.record_… settings enable it'
    warn('readonly', message, 'remove one or the other')
  }
  const files = fileDescriptorsNeeded(settings)
  if (maxFileDescriptors !== null && maxFileDescriptors < files) {
    const message = `this process may only open ${maxFileDescriptors} files`
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
    // Empty is the same as absent.
    const isInitial = (known.get(name)!.text ?? '') === (initials[name]!.initial ?? '')
    if (hasEffect || isInitial) continue
    warn(name, `has no effect without ${needed}`, `remove it, or set ${needed}`)
  }
  return { problems, warnings }
}

function isEverywhere(host: string): boolean {
  const { hostname = '' } = URL.parse(`http://${host.includes(':') ? `[${host}]` : host}`) ?? {}
  return ['0.0.0.0', '[::]', '[::ffff:0:0]'].includes(hostname)
}

function isSameHost(one: string, other: string): boolean {
  const isNamed = [one, other].some((host) => /^localhost\.?$/i.test(host))
  return one === other || (isNamed && isLoopback(one) && isLoopback(other))
}

export function isLoopback(host: string): boolean {
  return /^(127\.|\[?::1\]?$|localhost\.?$)/i.test(host)
}
