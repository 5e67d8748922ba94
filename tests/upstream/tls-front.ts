import { readFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

import type { Certificates } from '../support/certificates.ts'

/** A TLS server in front of a storage, which offers HTTP/2 and HTTP/1.1. */
export async function startTlsFront({ certificatePath, keyPath }: Certificates, storagePort: number) {
  const protocols: string[] = []
  const options = {
    cert: readFileSync(certificatePath),
    key: readFileSync(keyPath),
    ALPNProtocols: ['h2', 'http/1.1'],
    // So that a wire can tell where the handshake ends.
    maxVersion: 'TLSv1.2',
  } as const
  const server = createTlsServer(options, (client) => {
    protocols.push(String(client.alpnProtocol))
    const storage = connect(storagePort, '127.0.0.1')
    for (const socket of [client, storage]) socket.on('error', () => {})
    client.on('close', () => storage.destroy())
    storage.on('close', () => client.destroy())
    client.pipe(storage).pipe(client)
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    /** The protocols that connections have selected. */
    protocols,
    stop: () => void server.close(),
  }
}

export type Wire = Awaited<ReturnType<typeof startWire>>

/** The type of the TLS records that carry requests; earlier ones have other types, up to TLS 1.2. */
const applicationData = 23
const lastRecordType = 24

/** The connection to a server, over TLS or not, which can be cut. */
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

/** Where requests begin in bytes that begin with a request or a TLS record; -1: nowhere. */
function startOfRequests(bytes: Buffer): number {
  if (bytes[0]! > lastRecordType) return 0
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
