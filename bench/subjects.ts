import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cores, familyOf, freePort, start, untilAnswered } from './processes.ts'
import { listSizes, recordId } from './sample-data.ts'
import { environmentLines } from '../src/cli/service/runtime-environment.ts'
import type { Certificates } from '../tests/support/certificates.ts'

/** A measured subject: the URL of one resource, and the processes that serve it. */
export interface Subject {
  name: string
  url: string
  headers: Record<string, string>
  /** Empty if only responses count, not CPU time. */
  pids: number[]
  /** Number of connections, if it differs from the other subjects. */
  connections?: number
  /** Number of users in turn, or a new user for each request. */
  users?: number | 'each'
}

export type Sample = 'record' | keyof typeof listSizes

const clientState = '0123456789abcdef0123456789abcdef'

/** The headers of one client with an access token. */
export const clientHeaders: Record<string, string> = {
  Authorization: `Bearer ${'t'.repeat(64)}`,
  'X-KeyID': `1763700000-${Buffer.from(clientState, 'hex').toString('base64url')}`,
}

const bridgePaths: Record<Sample, string> = {
  record: `/v1/buckets/${clientState}/collections/bench/records/${recordId}`,
  list100: `/v1/buckets/${clientState}/collections/list100/records`,
  list100k: `/v1/buckets/${clientState}/collections/list100k/records`,
}

const storagePaths: Record<Sample, string> = {
  record: `/1.5/1/storage/bench/${recordId}`,
  list100: '/1.5/1/storage/list100?full=1&sort=newest',
  list100k: '/1.5/1/storage/list100k?full=1&sort=newest',
}

/** The variables that the unit and the image set, for all programs alike. */
const environmentOfAll = Object.fromEntries(environmentLines.map((line) => line.split('='))) as Record<
  string,
  string
>

/** A measured server, and its subjects by kind of request. */
export interface Server {
  process: Bun.Subprocess
  pids: number[]
  of(sample: Sample): Subject
}

/** The addresses of the storage. */
export interface Upstream {
  origin: string
  /** Over TLS, with the certificate authority in this file. */
  caPath?: string
}

/**
 * nginx with fixed responses, as token server and storage, so that upstream is never the bottleneck. The number at the start of the key id
 * identifies users. With a certificate, it also serves TLS.
 */
export async function startUpstream(
  folder: string,
  core: string = cores.load,
  certificates?: Certificates,
): Promise<Server & { origin: string; ports: { plain: number; tls: number } }> {
  const ports = { plain: freePort(), tls: freePort() }
  const origin = `http://127.0.0.1:${ports.plain}`
  const token = `{"id":"${'i'.repeat(180)}","key":"${'k'.repeat(43)}","uid":$user,"duration":86400,"api_endpoint":"$scheme://$http_host/1.5/$user"}`
  const headers = 'add_header X-Last-Modified 1763700000.12; add_header X-Weave-Timestamp 1763700001.00;'
  const list = (name: string, count: number) => `location ~ ^/1\\.5/\\d+/storage/${name}$ {
    alias ${folder}/${name}; default_type application/newlines; add_header X-Weave-Records ${count}; ${headers} }`
  const answers = `location = /1.0/sync/1.5 { default_type application/json; return 200 '${token}'; }
    location ~ ^/1\\.5/\\d+/storage/bench/ { alias ${folder}/record; default_type application/json; ${headers} }
    ${Object.entries(listSizes)
      .map((entry) => list(...entry))
      .join('\n')}`
  const server = (port: number, more = '') =>
    `server { listen 127.0.0.1:${port} backlog=4096 ${more}; ${answers} }`
  const nginx = startNginx(folder, `upstream-${ports.plain}`, core, [
    'map $http_x_keyid $user { default 1; "~^(?<number>[0-9]+)-" $number; }',
    server(ports.plain),
    ...(certificates
      ? [
          `ssl_certificate ${certificates.certificatePath}; ssl_certificate_key ${certificates.keyPath};`,
          'ssl_protocols TLSv1.2 TLSv1.3;',
          server(ports.tls, 'ssl'),
        ]
      : []),
  ])
  await untilAnswered(origin + storagePaths.record)
  return { origin, ports, ...serverOf('storage directly', nginx, origin, storagePaths, []) }
}

/** nginx between client and upstream, with connections kept alive on both sides. */
export async function startNginxProxy(folder: string, upstream: string): Promise<Server> {
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const nginx = startNginx(folder, 'proxy', cores.measured, [
    `upstream storage { server ${new URL(upstream).host}; keepalive 2000; keepalive_requests 1000000000; }`,
    `server { listen 127.0.0.1:${port} backlog=4096; location / { proxy_pass http://storage;`,
    'proxy_http_version 1.1; proxy_set_header Connection ""; } }',
  ])
  await untilAnswered(origin + storagePaths.record)
  return serverOf('nginx proxy_pass', nginx, origin, storagePaths)
}

export function startNginx(folder: string, name: string, core: string, servers: string[]): Bun.Subprocess {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${folder}/${name}-${kind};`)
    .join(' ')
  const configuration = join(folder, `${name}.conf`)
  writeFileSync(
    configuration,
    `daemon off; worker_processes 1; pid ${folder}/${name}.pid; error_log ${folder}/${name}.log;
events { worker_connections 4096; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600;
open_file_cache max=100; ${temporary}
${servers.join('\n')} }\n`,
  )
  return start(['nginx', '-c', configuration, '-e', join(folder, `${name}.log`)], { core })
}

/** One of our own peers, compiled like the bridge. */
export async function startPeer(
  name: string,
  executable: string,
  upstream: string | Upstream,
  more: Record<string, string> = {},
): Promise<Server> {
  return startOurPeer(name, executable, upstream, {
    paths: storagePaths,
    headers: {},
    environment: more,
  })
}

/** The peer with the minimal code for one record; see `peers/straight.ts`. */
export async function startStraight(
  executable: string,
  upstream: string | Upstream,
  name = 'straight',
): Promise<Server> {
  const asked = { paths: bridgePaths, headers: clientHeaders, environment: {} }
  return startOurPeer(name, executable, upstream, asked)
}

async function startOurPeer(
  name: string,
  executable: string,
  upstream: string | Upstream,
  asked: {
    paths: Record<Sample, string>
    headers: Record<string, string>
    environment: Record<string, string>
  },
): Promise<Server> {
  const { paths, headers } = asked
  const { origin: target, caPath }: Upstream = typeof upstream === 'string' ? { origin: upstream } : upstream
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const environment = {
    ...environmentOfAll,
    ...asked.environment,
    PORT: String(port),
    UPSTREAM: target,
    ...(caPath && { UPSTREAM_CA: caPath }),
  }
  const peer = start([executable], { core: cores.measured, environment })
  await untilAnswered(origin + paths.record, headers)
  return serverOf(name, peer, origin, paths)
}

export interface BridgeOptions {
  name?: string
  core?: string
  /** Additional settings, by name without `service.`. */
  settings?: Record<string, string>
  /** Default: only warnings, because the peers log nothing. */
  logLevel?: string
}

/** The bridge with its memory cache. */
export async function startBridge(
  executable: string,
  tokenServerUrl: string,
  { name = 'Sync Bridge', core = cores.measured, settings = {}, logLevel = 'warning' }: BridgeOptions = {},
): Promise<Server & { origin: string }> {
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const bridge = start([executable, 'serve'], {
    core,
    environment: {
      ...environmentOfAll,
      ...bridgeEnvironment(port, tokenServerUrl, { logging_level: logLevel, ...settings }),
    },
  })
  await untilAnswered(`${origin}/v1/__lbheartbeat__`)
  return { origin, ...serverOf(name, bridge, origin, bridgePaths) }
}

export function bridgeEnvironment(
  port: number,
  tokenServerUrl: string,
  settings: Record<string, string> = {},
): Record<string, string> {
  const all = {
    port: String(port),
    token_server_url: tokenServerUrl,
    cache_backend: 'memory',
    cache_hmac_secret: 'ab'.repeat(32),
    ...settings,
  }
  return Object.fromEntries(
    Object.entries(all).map(([key, value]) => [`SERVICE_${key.toUpperCase()}`, value]),
  )
}

function serverOf(
  name: string,
  subprocess: Bun.Subprocess,
  origin: string,
  paths: Record<Sample, string>,
  pids = familyOf(subprocess.pid),
): Server {
  return {
    process: subprocess,
    pids,
    of: (sample) => ({ name, url: origin + paths[sample], headers: clientHeaders, pids }),
  }
}

/** Compiles one of our peers with the flags of the bridge. */
export async function compilePeer(name: string, folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true })
  const outfile = join(folder, name)
  const flags = ['--compile', '--bytecode', '--format=esm', '--splitting', '--sourcemap=inline']
  const define = ['--define', 'process.env.NODE_ENV="production"']
  const autoload = ['--no-compile-autoload-dotenv', '--no-compile-autoload-bunfig']
  const source = join(import.meta.dir, 'peers', `${name}.ts`)
  await Bun.$`${process.execPath} build ${flags} ${define} ${autoload} --outfile=${outfile} ${source}`.quiet()
  return outfile
}
