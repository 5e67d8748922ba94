import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cores, familyOf, freePort, start, untilAnswered } from './processes.ts'
import { listSizes, recordId } from './sample-data.ts'

/** Something that is measured: where one resource is asked for, and the processes that answer. */
export interface Subject {
  name: string
  url: string
  headers: Record<string, string>
  /** Empty where only answers count, not what they cost. */
  pids: number[]
  /** Loaded over so many connections, other than its neighbours. */
  connections?: number
  /** Asked by so many users in turn. */
  users?: number
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

/** A server under measurement, and its subjects by what is asked of it. */
export interface Server {
  process: Bun.Subprocess
  pids: number[]
  of(sample: Sample): Subject
}

/** nginx with fixed answers, as token server and storage, so that it is never what is measured. */
export async function startUpstream(
  folder: string,
  core: string = cores.load,
): Promise<Server & { origin: string }> {
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const token = { id: 'i'.repeat(180), key: 'k'.repeat(43), api_endpoint: `${origin}/1.5/1`, uid: 1 }
  writeFileSync(join(folder, `token-${port}`), JSON.stringify({ ...token, duration: 86_400 }))
  const file = (name: string, type: string, more = '') =>
    `alias ${folder}/${name}; default_type ${type}; add_header X-Last-Modified 1763700000.12; add_header X-Weave-Timestamp 1763700001.00; ${more}`
  const lists = Object.entries(listSizes).map(
    ([name, count]) =>
      `location = /1.5/1/storage/${name} { ${file(name, 'application/newlines', `add_header X-Weave-Records ${count};`)} }`,
  )
  const nginx = startNginx(folder, `upstream-${port}`, core, [
    `server { listen 127.0.0.1:${port} backlog=4096;`,
    `location = /1.0/sync/1.5 { ${file(`token-${port}`, 'application/json')} }`,
    `location = ${storagePaths.record} { ${file('record', 'application/json')} }`,
    ...lists,
    '}',
  ])
  await untilAnswered(origin + storagePaths.record)
  return { origin, ...serverOf('storage directly', nginx, origin, storagePaths, []) }
}

/** nginx between client and upstream, with connections kept alive on both sides. */
export async function startNginxProxy(folder: string, upstream: string): Promise<Server> {
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const nginx = startNginx(folder, 'proxy', cores.measured, [
    `upstream storage { server ${new URL(upstream).host}; keepalive 300; keepalive_requests 1000000000; }`,
    `server { listen 127.0.0.1:${port} backlog=4096; location / { proxy_pass http://storage;`,
    'proxy_http_version 1.1; proxy_set_header Connection ""; } }',
  ])
  await untilAnswered(origin + storagePaths.record)
  return serverOf('nginx proxy_pass', nginx, origin, storagePaths)
}

function startNginx(folder: string, name: string, core: string, servers: string[]): Bun.Subprocess {
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

/** One of our own peers, compiled as the bridge is. */
export async function startPeer(name: string, executable: string, upstream: string): Promise<Server> {
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const peer = start([executable], {
    core: cores.measured,
    environment: { PORT: String(port), UPSTREAM: upstream },
  })
  await untilAnswered(origin + storagePaths.record)
  return serverOf(name, peer, origin, storagePaths)
}

/** The peer that answers one record the straight way; see `peers/straight.ts`. */
export async function startStraight(executable: string, upstream: string): Promise<Server> {
  const port = freePort()
  const origin = `http://127.0.0.1:${port}`
  const peer = start([executable], {
    core: cores.measured,
    environment: { PORT: String(port), UPSTREAM: upstream },
  })
  await untilAnswered(origin + bridgePaths.record, clientHeaders)
  return serverOf('straight', peer, origin, bridgePaths)
}

export interface BridgeOptions {
  name?: string
  core?: string
  /** More settings, by name without `service.`. */
  settings?: Record<string, string>
  /** Warnings alone when left out, because the peers log nothing. */
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
    environment: bridgeEnvironment(port, tokenServerUrl, { logging_level: logLevel, ...settings }),
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
