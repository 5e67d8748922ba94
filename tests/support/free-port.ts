import { readFileSync } from 'node:fs'

/** The first of a block is held as long as this process lives: it says whose the others are. */
const blockSize = 50
const lowestPort = 10_000

const claims: Bun.TCPSocketListener[] = []
let nextPort = 0
let lastPort = -1

/**
 * A port of the loopback address for a program that has to be told one. It stays free until that program takes it, and
 * while that program is restarted: the system gives out ports of another range, and other test processes have blocks of
 * their own.
 */
export function freePort(): number {
  for (;;) {
    if (nextPort > lastPort) claimBlock()
    const port = nextPort
    nextPort += 1
    const listener = listenOn(port)
    listener?.stop(true)
    if (listener) return port
  }
}

function claimBlock(): void {
  const blocks = Math.floor((lowestSystemPort() - lowestPort) / blockSize)
  for (let turn = 0; turn < blocks; turn += 1) {
    // Processes begin at different blocks, so that few have to be tried.
    const firstPort = lowestPort + ((process.pid + turn) % blocks) * blockSize
    const claim = listenOn(firstPort)
    if (!claim) continue
    claim.unref()
    claims.push(claim)
    nextPort = firstPort + 1
    lastPort = firstPort + blockSize - 1
    return
  }
  throw new Error(`Cannot find free ports: all blocks from ${lowestPort} on are taken`)
}

function listenOn(port: number) {
  try {
    return Bun.listen({ hostname: '127.0.0.1', port, exclusive: true, socket: { data() {} } })
  } catch {
    return null
  }
}

/** Where the range begins of which the system takes a port for whoever asks for any. */
function lowestSystemPort(): number {
  try {
    return Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t')[0])
  } catch {
    return 32_768
  }
}
