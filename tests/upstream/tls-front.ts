import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

import { freePort } from '../support/free-port.ts'
import { eventually } from '../support/eventually.ts'
import { listens, startProgram, type TemporaryFolder } from '../support/processes.ts'
import type { Certificates } from '../support/certificates.ts'

/** The options of a TLS server in front of a storage. */
export interface FrontOptions {
  folder: TemporaryFolder
  certificates: Certificates
  /** The port of the storage, which gets the protocol of each request in `X-Protocol`. */
  storagePort: number
  http2?: boolean
  /** nginx: the number of requests after which a connection ends, over HTTP/2 with GOAWAY. */
  requestsOfConnection?: number
}

/** A running TLS server. */
export interface Front {
  port: number
  /** Continues with other options. nginx behaves as after `nginx -s reload`, with GOAWAY on its connections; HAProxy restarts. */
  reload(changes: Partial<FrontOptions>): Promise<void>
  stop(): Promise<void>
}

// As root, nginx warns about this line on stderr; without it, its workers run as nobody.
const userDirective = process.getuid?.() === 0 ? 'user root;' : ''

export async function startNginx(options: FrontOptions): Promise<Front> {
  const { folder } = options
  const port = freePort()
  const file = folder.file(`nginx-${port}.conf`)
  const write = (changes: Partial<FrontOptions>) =>
    writeFileSync(file, nginxText({ ...options, ...changes }, port))
  write({})
  const command = ['nginx', '-p', folder.path, '-e', 'stderr', '-c', file] as [string, ...string[]]
  const program = await startProgram(command, () => listens(port))
  return {
    port,
    stop: program.stop,
    async reload(changes) {
      write(changes)
      const count = (text: RegExp) => program.output().match(text)?.length ?? 0
      const exits = count(/exited with code 0/g)
      process.kill(program.pid, 'SIGHUP')
      await eventually('the earlier workers have ended', () => count(/exited with code 0/g) > exits)
    },
  }
}

function nginxText(options: FrontOptions, port: number): string {
  const { folder, certificates, storagePort, http2 = true, requestsOfConnection = 100_000 } = options
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder.file(kind)};`,
  )
  return `daemon off; ${userDirective} worker_processes 1; pid ${folder.file(`${port}.pid`)};
error_log stderr notice; worker_shutdown_timeout 1s;
events { worker_connections 2048; }
http {
  access_log off; ${paths.join(' ')}
  server {
    listen 127.0.0.1:${port} ssl${http2 ? ' http2' : ''};
    ssl_certificate ${certificates.certificatePath};
    ssl_certificate_key ${certificates.keyPath};
    ssl_protocols TLSv1.2;
    http2_max_concurrent_streams 100;
    keepalive_requests ${requestsOfConnection};
    client_max_body_size 10m;
    location / {
      proxy_pass http://127.0.0.1:${storagePort};
      proxy_next_upstream off;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Protocol $server_protocol;
    }
  }
}
`
}

export async function startHaproxy(options: FrontOptions): Promise<Front> {
  const port = freePort()
  const file = options.folder.file(`haproxy-${port}.cfg`)
  const start = (changes: Partial<FrontOptions>) => {
    writeFileSync(file, haproxyText({ ...options, ...changes }, port))
    return startProgram(['haproxy', '-db', '-f', file], () => listens(port))
  }
  let program = await start({})
  return {
    port,
    stop: () => program.stop(),
    async reload(changes) {
      await program.stop()
      program = await start(changes)
    },
  }
}

function haproxyText(options: FrontOptions, port: number): string {
  const { folder, certificates, storagePort, http2 = true } = options
  const pem = folder.file(`haproxy-${port}.pem`)
  const parts = [certificates.certificatePath, certificates.keyPath]
  writeFileSync(pem, parts.map((path) => readFileSync(path, 'utf8')).join(''))
  return `defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend sync
  bind 127.0.0.1:${port} ssl crt ${pem} alpn ${http2 ? 'h2,' : ''}http/1.1
  http-request set-header X-Protocol HTTP/%[req.ver]
  default_backend storage
backend storage
  retries 0
  server storage 127.0.0.1:${storagePort}
`
}

/** Ends a handshake that only offers HTTP/2 with an alert. Each request has its own connection. */
export async function startRefusing({ certificates, storagePort }: FrontOptions): Promise<Front> {
  const server = createTlsServer(
    {
      cert: readFileSync(certificates.certificatePath),
      key: readFileSync(certificates.keyPath),
      ALPNProtocols: ['http/1.1'],
    },
    (client) => {
      const storage = connect(storagePort, '127.0.0.1')
      for (const socket of [client, storage]) socket.on('error', () => {})
      client.pipe(storage).pipe(client)
    },
  )
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    reload: () => Promise.reject(new Error('It has no options')),
    stop: async () => void server.close(),
  }
}

export type Wire = Awaited<ReturnType<typeof startWire>>

/** The type of the TLS records that carry requests; earlier ones have other types, up to TLS 1.2. */
const applicationData = 23

/** The connection to a server, which can be cut. */
export async function startWire(to: number) {
  const pairs = new Set<Pair>()
  let [connections, cuts] = [0, 0]
  let planned: number | null = null
  const server = createServer((client) => {
    connections += 1
    const pair: Pair = { client, server: connect(to, '127.0.0.1'), leftBytes: planned, isSilent: false }
    pairs.add(pair)
    client.on('data', (bytes: Buffer) => {
      if (pair.isSilent) return
      const at = pair.leftBytes === null ? -1 : startOfRequests(bytes)
      if (pair.leftBytes === null || at === -1) return void pair.server.write(bytes)
      if (bytes.length - at < pair.leftBytes) {
        pair.leftBytes -= bytes.length - at
        return void pair.server.write(bytes)
      }
      cuts += 1
      pair.server.end(bytes.subarray(0, at + pair.leftBytes))
      pair.leftBytes = Infinity
      client.resetAndDestroy()
    })
    pair.server.on('data', (bytes) => void (pair.isSilent || client.write(bytes)))
    for (const [socket, other] of [
      [client, pair.server],
      [pair.server, client],
    ] as const) {
      socket.on('error', () => {})
      socket.on('close', () => {
        pairs.delete(pair)
        if (!pair.isSilent) other.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const die = () => {
    for (const { client, server: other } of pairs) {
      client.resetAndDestroy()
      other.destroy()
    }
  }
  return {
    port: (server.address() as AddressInfo).port,
    /** Connections so far. */
    get connections() {
      return connections
    },
    /** The number of them that were cut by a plan. */
    get cuts() {
      return cuts
    },
    /** Ends all open connections. */
    die,
    /** Sends something that is not TLS to the client, on all open connections. */
    garble() {
      for (const { client } of pairs) client.write('nonsense'.repeat(10))
    },
    /** From now on, nothing passes on the open connections, and they stay open. */
    goSilent() {
      for (const pair of pairs) pair.isSilent = true
    },
    /** Ends each connection after that many more bytes of requests; null: none. */
    plan(bytes: number | null) {
      planned = bytes
      for (const pair of pairs) pair.leftBytes = bytes
    },
    async [Symbol.asyncDispose]() {
      server.close()
      die()
    },
  }
}

/** Where requests begin in bytes that begin with a TLS record; -1: nowhere. */
function startOfRequests(bytes: Buffer): number {
  for (let at = 0; at + 5 <= bytes.length; at += 5 + bytes.readUInt16BE(at + 3)) {
    if (bytes[at] === applicationData) return at
  }
  return -1
}

interface Pair {
  client: Socket
  server: Socket
  /** The connection ends after that many more bytes of requests; null: it does not. */
  leftBytes: number | null
  isSilent: boolean
}
