import { canonicalCollection } from '../domain/record.ts'
import * as address from './address-readers.ts'
import {
  collectionNames,
  apiVersion,
  boolean,
  caBundle,
  choice,
  integer,
  isoDate,
  orNull,
  prefix,
  seconds,
  secretBytes,
  text,
  type Reader,
} from './readers.ts'

/** One setting: its reader, default and meaning. */
export interface Setting<T, Default extends string | null | typeof required> {
  read: Reader<T>
  /** The default, as in a file. Null: none. `required`: the operator must set it. */
  initial: Default
  meaning: string
  /** An example, if there is no useful default. */
  example?: string
  /** Never shown. May also come from a file of its name in systemd's credentials directory. */
  secret?: true
}

export type AnySetting = Setting<unknown, string | null | typeof required>

/** Marks a setting that must be set. */
export const required = Symbol('required')

const levels = choice('debug', 'info', 'warning', 'error')

/**
 * Every setting by its name, in display order; `service.<name>` in a file and `SERVICE_<NAME>` in the environment. The single source for
 * reading, types, the reference and `init`.
 */
export const settingsSchema = {
  host: setting(address.listeningHost, '127.0.0.1', 'Address to listen on'),
  port: setting(integer(0, 65535), '8000', 'Port to listen on; 0 takes a free one'),
  workers: setting(integer(1, 256), '1', 'Processes that share the port'),
  worker_timeout_seconds: setting(
    seconds(3600, 1),
    '10',
    'Time after which an unresponsive worker is replaced',
  ),
  http_scheme: optional(choice('http', 'https'), 'https', 'Scheme of generated URLs; if none, http'),
  http_host: optional(
    address.publicHost,
    'sync.example.org',
    "Public address in URLs; if none, the request's Host",
  ),
  http_api_version: setting(apiVersion, '1.5', 'Version for clients; its first number starts every path'),
  project_name: setting(text, 'Sync Bridge', 'Name shown in the root view'),
  project_docs: optional(
    address.link,
    'https://example.org/docs',
    "Link to documentation; if none, the bridge's own",
  ),
  error_info_link: optional(address.link, 'https://example.org/help', 'Link in responses to internal errors'),
  token_server_url: setting(
    address.tokenServerUrl,
    required,
    'Token server, with or without a trailing slash or /1.0/sync/1.5',
    'https://token.example.org',
  ),
  token_server_heartbeat_timeout_seconds: setting(seconds(600), '5', 'Timeout of a health probe'),
  upstream_timeout_seconds: setting(seconds(3600), '20', 'Timeout for the start of an upstream response'),
  request_timeout_seconds: setting(seconds(3600), '30', 'Timeout for the start of a response'),
  // Rejects an empty text, which looks like trusting no authority but would trust the system's.
  certificate_ca_bundle: setting(
    caBundle,
    null,
    'PEM file, relative to this file; if set, TLS to upstream trusts only it',
    'ca.pem',
  ),
  cache_backend: setting(choice('redis', 'memory'), 'redis', 'Cache of credentials: redis or memory'),
  cache_url: setting(
    address.cacheUrl,
    'redis://127.0.0.1:6379/0',
    'Redis: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://',
    'rediss://:PASSWORD@redis.example.org/0?cacert=redis-ca.pem',
  ),
  cache_prefix: setting(prefix, 'sync-bridge:', 'Prefix of every key in the cache'),
  cache_hmac_secret: secret(secretBytes, required, 'Encrypts the cache: 64 hexadecimal characters'),
  cache_hmac_secret_previous: secret(orNull(secretBytes), null, 'Still decrypts the cache, for a rotation'),
  cache_credentials_ttl_seconds: setting(integer(1, 86_400), '300', 'How long credentials are cached'),
  batch_max_requests: setting(integer(1, 1000), '25', 'Maximum requests in a batch'),
  readable_collections: setting(
    collectionNames,
    'all',
    'Collections that clients can read, separated by commas; others are 404. Keep crypto: it has the keys',
    'crypto, tabs',
  ),
  readonly: setting(boolean, 'false', 'Rejects every write; overrides the settings of collections'),
  retry_after_seconds: setting(integer(1, 86_400), '30', 'Minimum Retry-After of failures'),
  backoff: optional(integer(0, 86_400), '60', 'Asks clients to pause for this many seconds'),
  eos: optional(isoDate, '2031-12-31', 'End of service: a date, or a date and time with zone'),
  eos_message: optional(text, 'The service moves.', 'Message to clients about the end of service'),
  eos_url: optional(address.link, 'https://example.org/end', 'Where clients read about the end of service'),
  cors_origins: setting(
    address.origins,
    '*',
    'Origins of web pages to allow besides http_host, separated by commas; * for all',
    'https://app.example.org, moz-extension://0a1b2c3d',
  ),
  cors_max_age_seconds: setting(integer(0, 86_400), '3600', 'How long browsers may cache a preflight'),
  max_request_bytes: setting(integer(1, 8_388_608), '8388608', 'Maximum size of a request body'),
  max_concurrent_requests: setting(integer(1, 100_000), '2048', 'Maximum requests in flight in each process'),
  max_concurrent_requests_per_user: setting(
    integer(0, 100_000),
    '64',
    'Maximum requests in flight for one user in each process; 0: no limit',
  ),
  logging_renderer: setting(choice('json', 'text'), 'json', 'json for machines, text for people'),
  logging_level: setting(levels, 'info', 'Lowest level to log: debug, info, warning or error'),
  statsd_url: optional(address.udpAddress, 'udp://127.0.0.1:8125', 'Where to send metrics'),
  statsd_prefix: setting(prefix, 'sync-bridge', 'Prefix of every name in statsd'),
  metrics_enabled: setting(boolean, 'true', 'Serves Prometheus metrics at /__metrics__'),
  metrics_listen: optional(
    address.listeningAddress,
    '127.0.0.1:9100',
    'Address and port that serve /__metrics__ instead of the public port',
  ),
  docs_enabled: setting(boolean, 'true', 'Serves the API documentation at /docs'),
  explorer_enabled: setting(
    boolean,
    'false',
    'Serves /explore, a page that shows users their own data, decrypted in the browser',
  ),
  flush_safe_etag: setting(
    boolean,
    'false',
    'Gives an empty list of changes the ETag of the request, so that kinto.js survives deletions',
  ),
  reuse_port: setting(boolean, 'false', 'Shares the port with other instances of the same user'),
  shutdown_delay_seconds: setting(
    seconds(3600, 0),
    '0',
    'How long to accept requests after SIGTERM while clients close their connections',
  ),
  shutdown_grace_seconds: setting(seconds(3600), '35', 'How long requests may run after SIGTERM'),
}

/** Settings of earlier versions that no longer do anything. They are ignored with a warning, for all of 1.x. */
export const removedSettings: ReadonlySet<string> = new Set(['max_event_loop_lag_ms'])

/** The settings that a reload applies to the running service; the others need a restart. */
export const reloadable: ReadonlySet<string> = new Set<SettingName>([
  'certificate_ca_bundle',
  'readable_collections',
  'readonly',
  'retry_after_seconds',
  'backoff',
  'eos',
  'eos_message',
  'eos_url',
  'cors_origins',
  'cors_max_age_seconds',
  'logging_level',
])

export type SettingName = keyof typeof settingsSchema

/** The two settings that every collection has, `false` unless given. */
export const collectionSettings = {
  put: { form: 'record_<collection>_put_enabled', meaning: 'Lets clients create and change records' },
  delete: { form: 'record_<collection>_delete_enabled', meaning: 'Lets clients delete records' },
} as const

/** The collections that Firefox uses. */
export const firefoxCollections =
  'addons addresses bookmarks clients creditcards crypto extension-storage forms history meta passwords prefs tabs'.split(
    ' ',
  )

/** The collection, by canonical name, and the method of a collection setting; null for any other name. */
export function collectionGate(name: string): { collection: string; method: 'put' | 'delete' } | null {
  const match = /^record_(.+)_(put|delete)_enabled$/.exec(name)
  const collection = match ? canonicalCollection(match[1]!) : null
  return collection === null ? null : { collection, method: match![2] as 'put' | 'delete' }
}

function setting<T, const Default extends AnySetting['initial']>(
  read: Reader<T>,
  initial: Default,
  meaning: string,
  example?: string,
): Setting<T, Default> {
  return { read, initial, meaning, example }
}

/** A setting without a default. An empty text leaves it unset. */
function optional<T>(read: Reader<T>, example: string, meaning: string) {
  return setting(orNull(read), null, meaning, example)
}

function secret<T, const Default extends AnySetting['initial']>(
  read: Reader<T>,
  initial: Default,
  meaning: string,
) {
  return { ...setting(read, initial, meaning, '64 hexadecimal characters'), secret: true as const }
}
