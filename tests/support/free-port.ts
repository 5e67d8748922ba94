import { readFileSync } from 'node:fs'

/** The first port of a block is held as long as this process lives: it marks the others as taken. */
const blockSize = 50
const lowestPort = 10_000

const claims: Bun.TCPSocketListener[] = []
let nextPort = 0
let lastPort = -1

/**
 * A loopback port for a program that needs a fixed one. It stays free until that program uses it, and while that program restarts: the
 * system assigns ports of another range, and other test processes have their own blocks.
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
    // Processes start at different blocks, so that few must be tried.
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

/** The start of the range from which the system assigns ports. */
function lowestSystemPort(): number {
  try {
    return Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t')[0])
  } catch {
    return 32_768
  }
}
