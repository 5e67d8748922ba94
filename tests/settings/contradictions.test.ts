import { describe, expect, it } from 'bun:test'

import { findContradictions } from '../../src/settings/contradictions.ts'
import { readSettings, renderProblem } from '../../src/settings/settings.ts'
import { casesOf } from './cases.ts'

const secret = '52d914afd94b94716c8fb113dd4f0ae2f55ba31f3506b31562d2698e777e1208'
const least = `service.token_server_url = https://t.example.org\nservice.cache_hmac_secret = ${secret}\n`

/** The messages about these lines, which are the third and following. */
function found(lines: string[], maxFileDescriptors: number | null = null, beginning = least) {
  const text = beginning + lines.map((line) => `service.${line}\n`).join('')
  const outcome = readSettings({ file: { path: 'f', text }, environment: {}, readFile: () => '' })
  if ('problems' in outcome) throw new Error(outcome.problems.map(renderProblem).join('\n'))
  const circumstances = { nowMs: Date.UTC(2027, 0, 1), maxFileDescriptors }
  const { problems, warnings } = findContradictions(outcome.settings, outcome.effective, circumstances)
  return { problems: problems.map(renderProblem), warnings: warnings.map(renderProblem) }
}

const secure = ['http_scheme = https', 'http_host = sync.example.org']

const warned = casesOf(`
host = 0.0.0.0
  f:3: service.host: 0.0.0.0 can be reached from other machines without encryption: put a server with TLS in front, and set service.http_scheme = https
http_host = sync.example.org
  f:3: service.http_host: generated URLs begin with http://: set service.http_scheme = https, or http if that is meant
http_scheme = http
http_host = 0.0.0.0:8000
  f:4: service.http_host: is not an address that clients can use: write a host name; service.host is for listening
http_scheme = https
http_host = sync.example.org:80
  f:4: service.http_host: generated URLs begin with https:// and have port 80: leave the port out, or change service.http_scheme
http_host = sync.example.org
http_scheme = http
explorer_enabled = true
  f:5: service.explorer_enabled: browsers only decrypt on pages from https or localhost: set service.http_scheme = https, or remove it
upstream_timeout_seconds = 40
  f:3: service.upstream_timeout_seconds: requests time out after 30 s, before upstream calls do after 40 s: make service.request_timeout_seconds the larger one
shutdown_grace_seconds = 10
  f:3: service.shutdown_grace_seconds: requests may take 30 s, but are aborted 10 s after SIGTERM: make service.shutdown_grace_seconds the larger one
workers = 2
cache_backend = memory
  f:4: service.cache_backend: each worker has its own cache: use redis to share one
cache_hmac_secret_previous = 52d914afd94b94716c8fb113dd4f0ae2f55ba31f3506b31562d2698e777e1208
  f:3: service.cache_hmac_secret_previous: is the same as service.cache_hmac_secret: write the previous secret, or remove it
eos = 2026-12-31
  f:3: service.eos: is in the past: every request gets 410: remove it, or write a later date
max_request_bytes = 100000
  f:3: service.max_request_bytes: is smaller than a record of 250 KB, which Firefox may write: write 262144 or more
record_crypto_put_enabled = yes
  f:3: service.record_crypto_put_enabled: lets clients change the keys to the other data: a wrong write makes it unreadable: remove it, unless your client replaces keys
record_meta_delete_enabled = yes
  f:3: service.record_meta_delete_enabled: lets clients change the keys to the other data: a wrong write makes it unreadable: remove it, unless your client replaces keys
readable_collections = tabs
  f:3: service.readable_collections: excludes crypto, which has the keys that clients need to decrypt the others: add crypto, unless your clients have these keys
readonly = true
record_tabs_delete_enabled = yes
  f:3: service.readonly: rejects every write, even if service.record_… settings enable it: remove one or the other
port = 0
reuse_port = true
  f:4: service.reuse_port: each instance gets its own port: set service.port
worker_timeout_seconds = 5
  f:3: service.worker_timeout_seconds: has no effect without service.workers above 1: remove it, or set service.workers above 1
cache_backend = memory
cache_url = redis://redis.example.org
  f:4: service.cache_url: has no effect without service.cache_backend = redis: remove it, or set service.cache_backend = redis
cache_backend = memory
cache_hmac_secret_previous = 4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b
  f:4: service.cache_hmac_secret_previous: has no effect without service.cache_backend = redis: remove it, or set service.cache_backend = redis
eos_message = The service moves.
  f:3: service.eos_message: has no effect without service.eos: remove it, or set service.eos
statsd_prefix = bridge
  f:3: service.statsd_prefix: has no effect without service.statsd_url: remove it, or set service.statsd_url
metrics_listen = 0.0.0.0:9100
  f:3: service.metrics_listen: 0.0.0.0 shows the metrics to everyone who can reach this machine: write one address, such as 127.0.0.1:9100
metrics_listen = [::ffff:0.0.0.0]:9100
  f:3: service.metrics_listen: ::ffff:0.0.0.0 shows the metrics to everyone who can reach this machine: write one address, such as 127.0.0.1:9100
max_concurrent_requests = 50
  f:3: service.max_concurrent_requests: one user may have all 50 requests in flight: make it larger than service.max_concurrent_requests_per_user
metrics_enabled = false
metrics_listen = 127.0.0.1:9100
  f:4: service.metrics_listen: has no effect without service.metrics_enabled = true: remove it, or set service.metrics_enabled = true
`)

describe('findContradictions', () => {
  it.each([
    [
      ['metrics_listen = 127.0.0.1:8000'],
      'f:3: service.metrics_listen: is the address of this service itself: name another port',
    ],
    [
      ['metrics_listen = localhost:8000'],
      'f:3: service.metrics_listen: is the address of this service itself: name another port',
    ],
    [
      ['port = 9100', 'http_scheme = https', 'metrics_listen = 0.0.0.0:9100'],
      'f:5: service.metrics_listen: is the address of this service itself: name another port',
    ],
    [
      ['readable_collections = crypto, tabs', 'record_passwords_put_enabled = true'],
      'f:4: service.record_passwords_put_enabled: enables writes to a collection that service.readable_collections excludes: add it there, or remove this',
    ],
  ])("finds that a service can't run with %j", (lines, problem) => {
    expect(found(lines).problems).toEqual([problem])
  })

  it('finds that a service would request tokens from itself', () => {
    const beginning = least.replace('https://t.example.org', 'http://localhost:8000/')

    expect(found([], null, beginning).problems).toEqual([
      'f:1: service.token_server_url: is the address of this service itself: name the token server, or change service.port',
    ])
    expect(found(['port = 8001'], null, beginning).problems).toEqual([])
  })

  it.each(warned)('warns about %j', (lines, warning) => {
    expect(found(lines)).toEqual({ problems: [], warnings: [warning] })
  })

  it('warns about more requests than a process may open files', () => {
    const lines = ['max_concurrent_requests = 1000']

    expect(found(lines, 4511).warnings).toEqual([
      'f:3: service.max_concurrent_requests: this process may only open 4511 files: raise LimitNOFILE= or "ulimit -n" to 4512, or lower the setting',
    ])
    expect(found(lines, 4512).warnings).toEqual([])
  })

  it.each([
    [[]],
    [secure],
    [[...secure, 'host = 0.0.0.0', 'explorer_enabled = true', 'metrics_listen = 127.0.0.1:9100']],
    [['explorer_enabled = true', 'host = ::1']],
    [['http_scheme = http', 'http_host = localhost:8000', 'explorer_enabled = true']],
    // The example in the output of "sync-bridge init" is the default.
    [['worker_timeout_seconds = 10', 'statsd_prefix = sync-bridge']],
    [['eos = 2027-01-02', 'eos_message = The service moves.']],
    [['port = 0', 'metrics_listen = 127.0.0.1:8000']],
    [['port = 9100', 'metrics_listen = 127.0.0.2:9100']],
    // As in a container, whose network decides who can connect.
    [[...secure, 'host = 0.0.0.0', 'metrics_listen = 0.0.0.0:9100']],
    [['max_concurrent_requests = 100', 'max_concurrent_requests_per_user = 0']],
    // Empty is the same as absent.
    [['eos_message =', 'eos_url =', 'cache_hmac_secret_previous =', 'cache_backend = memory']],
    [['readonly = true', 'record_tabs_put_enabled = off']],
  ])('finds nothing in %j', (lines: string[]) => {
    expect(found(lines, 65_536)).toEqual({ problems: [], warnings: [] })
  })
})
