import { canonicalCollection } from '../domain/record.ts'
import {
  cacheUrl,
  link,
  listeningAddress,
  listeningHost,
  origins,
  publicHost,
  tokenServerUrl,
  udpAddress,
} from './address-readers.ts'
import {
  apiVersion,
  boolean,
  caBundle,
  choice,
  integer,
  isoDate,
  prefix,
  seconds,
  secondsOrNone,
  secretBytes,
  text,
} from './readers.ts'

import type { Reader } from './readers.ts'

/** One setting: how its text is read, its default, and what it means. */
export interface Setting<T, Default extends string | null | typeof required> {
  read: Reader<T>
  /** The default, as a file would have it. Null: none. `required`: the operator has to give one. */
  initial: Default
  meaning: string
  /** An example for a setting without a default. */
  example?: string
  /** Its value is never shown. It may also come from a file of its name in systemd's credentials directory. */
  secret?: true
  /** Whether the empty text is refused, although "none" is the default. */
  refusesEmpty?: true
  /** Whether a reload applies it to the running service; the others need a restart. */
  reloads?: true
}

export type AnySetting = Setting<unknown, string | null | typeof required>

/** Stands in place of a default for a setting that has to be given. */
export const required = Symbol('required')

/**
 * Every setting, in the order in which it is shown, by its name in the file; `service.<name>` there and
 * `SERVICE_<NAME>` in the environment. The one source for reading, types, the reference and `init`.
 */
export const settingsSchema = {
  host: setting(listeningHost, '127.0.0.1', 'Address to listen on'),
  port: setting(integer(0, 65535), '8000', 'Port to listen on; 0 takes a free one'),
  workers: setting(integer(1, 256), '1', 'Processes that share the port'),
  worker_timeout_seconds: setting(
    seconds(3600),
    '10',
    'A worker that gives no sign of life for so long is replaced; counts with several workers only',
  ),
  http_scheme: setting(choice('http', 'https'), null, 'Scheme of generated URLs; none: http', {
    example: 'https',
  }),
  http_host: setting(
    publicHost,
    null,
    "Public address in generated URLs; none: the request's validated Host",
    {
      example: 'sync.example.org',
    },
  ),
  http_api_version: setting(
    apiVersion,
    '1.5',
    'Version shown to clients; its first number is the URL prefix',
  ),
  project_name: setting(text, 'Sync Bridge', 'Name shown in the root view'),
  project_docs: setting(link, null, "Documentation linked from the root view; none: the bridge's own pages", {
    example: 'https://example.org/docs',
  }),
  error_info_link: setting(link, null, 'Link in answers about a defect of the service', {
    example: 'https://example.org/help',
  }),
  token_server_url: setting(
    tokenServerUrl,
    required,
    'Token server, with or without a trailing slash or /1.0/sync/1.5',
    { example: 'https://token.example.org' },
  ),
  token_server_heartbeat_timeout_seconds: setting(seconds(600), '5', 'How long a health probe may take'),
  upstream_timeout_seconds: setting(
    seconds(3600),
    '20',
    'How long upstream may take to the first byte of an answer',
  ),
  request_timeout_seconds: setting(
    seconds(3600),
    '30',
    'How long a request may take before its body streams',
  ),
  certificate_ca_bundle: setting(
    caBundle,
    null,
    'PEM file; when set, TLS to upstream trusts only it; relative to this file',
    { example: 'ca.pem', refusesEmpty: true, reloads: true },
  ),
  cache_backend: setting(
    choice('redis', 'memory'),
    'redis',
    'Where credentials are remembered: redis, or memory',
  ),
  cache_url: setting(
    cacheUrl,
    'redis://127.0.0.1:6379/0',
    'Redis: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://',
  ),
  cache_prefix: setting(prefix, 'sync-bridge:', 'Begins every key in the cache'),
  cache_hmac_secret: setting(secretBytes, required, 'Encrypts the cache: 64 hexadecimal characters', {
    secret: true,
  }),
  cache_hmac_secret_previous: setting(
    secretBytes,
    null,
    'Still decrypts the cache, while the secret is replaced',
    {
      secret: true,
      example: '64 hexadecimal characters',
    },
  ),
  cache_credentials_ttl_seconds: setting(
    integer(1, 86_400),
    '300',
    'How long credentials are remembered at most',
  ),
  batch_max_requests: setting(integer(1, 1000), '25', 'Requests in one batch at most'),
  readonly: setting(boolean, 'false', 'Refuses every write, whatever the settings of collections say', {
    reloads: true,
  }),
  retry_after_seconds: setting(
    integer(1, 86_400),
    '30',
    'Pause that clients are asked to make after a failure',
    { reloads: true },
  ),
  backoff: setting(secondsOrNone(86_400), null, 'Seconds that clients are asked to stay away', {
    example: '60',
    reloads: true,
  }),
  eos: setting(isoDate, null, 'Day or moment when the service ends', {
    example: '2031-12-31',
    reloads: true,
  }),
  eos_message: setting(text, null, 'Tells clients about the end', {
    example: 'The service moves.',
    reloads: true,
  }),
  eos_url: setting(link, null, 'Where clients read about the end', {
    example: 'https://example.org/end',
    reloads: true,
  }),
  cors_origins: setting(origins, '*', 'Origins of web pages that may ask, separated by commas; * for all', {
    reloads: true,
  }),
  cors_max_age_seconds: setting(integer(0, 86_400), '3600', 'How long browsers may remember a preflight', {
    reloads: true,
  }),
  max_request_bytes: setting(integer(1, 8_388_608), '8388608', 'Size of a request body at most'),
  max_concurrent_requests: setting(
    integer(1, 100_000),
    '512',
    'Requests under way at most, in each process; a batch counts as all that are in it',
  ),
  max_concurrent_requests_per_user: setting(
    integer(0, 100_000),
    '8',
    'Lists that are sent to one user at a time, and of all requests while more than 80 % are taken; 0: no limit',
  ),
  max_event_loop_lag_ms: setting(
    integer(0, 60_000),
    '400',
    'Fewer requests are admitted while the process is that late; 0: no matter how late',
  ),
  logging_renderer: setting(choice('json', 'text'), 'json', 'json for machines, text for people'),
  logging_level: setting(
    choice('debug', 'info', 'warning', 'error'),
    'info',
    'debug, info, warning or error',
    { reloads: true },
  ),
  statsd_url: setting(udpAddress, null, 'Where metrics are sent', { example: 'udp://127.0.0.1:8125' }),
  statsd_prefix: setting(prefix, 'sync-bridge', 'Begins every name sent to statsd'),
  metrics_enabled: setting(boolean, 'true', 'Serves Prometheus metrics at /__metrics__'),
  metrics_listen: setting(
    listeningAddress,
    null,
    'Address and port that serve /__metrics__ instead of the public port',
    { example: '127.0.0.1:9100' },
  ),
  docs_enabled: setting(boolean, 'true', 'Serves the API documentation at /docs'),
  explorer_enabled: setting(
    boolean,
    'false',
    "Serves /explore, a page to look at one's own data; it decrypts in the browser",
  ),
  flush_safe_etag: setting(
    boolean,
    'false',
    'Answers an empty list of changes with the ETag asked from, so that kinto.js survives deletions',
  ),
  reuse_port: setting(
    boolean,
    'false',
    'Shares the port with another instance, so that one can take over from the other',
  ),
  shutdown_delay_seconds: setting(
    seconds(3600, 'from 0'),
    '0',
    'How long to go on after SIGTERM while asking clients to close their connections',
  ),
  shutdown_grace_seconds: setting(seconds(3600), '35', 'How long requests may take to end after SIGTERM'),
}

export type SettingName = keyof typeof settingsSchema

/** The two settings that every collection has, `false` unless given. */
export const collectionSettings = {
  put: { form: 'record_<collection>_put_enabled', meaning: 'Lets clients create and change records' },
  delete: { form: 'record_<collection>_delete_enabled', meaning: 'Lets clients delete records' },
} as const

/** The collections that Firefox keeps. */
export const firefoxCollections = [
  'addons',
  'addresses',
  'bookmarks',
  'clients',
  'creditcards',
  'crypto',
  'extension-storage',
  'forms',
  'history',
  'meta',
  'passwords',
  'prefs',
  'tabs',
]

/** The collection, by its canonical name, and the method that a name stands for; null when it is no such setting. */
export function collectionGate(name: string): { collection: string; method: 'put' | 'delete' } | null {
  const match = /^record_(.+)_(put|delete)_enabled$/.exec(name)
  const collection = match ? canonicalCollection(match[1]!) : null
  return collection === null ? null : { collection, method: match![2] as 'put' | 'delete' }
}

function setting<T, Default extends string | null | typeof required>(
  read: Reader<T>,
  initial: Default,
  meaning: string,
  more: Pick<Setting<T, Default>, 'example' | 'secret' | 'refusesEmpty' | 'reloads'> = {},
): Setting<T, Default> {
  return { read, initial, meaning, ...more }
}
