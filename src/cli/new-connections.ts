import { openCLibrary } from './c-library.ts'

import type { Host } from './host.ts'

/**
 * Leaves new connections to the other processes that listen on our port. Until a listening socket is closed the system
 * hands it its share of them, and those that we have not accepted by then are reset. So our sockets are made deaf to
 * first packets before that: whoever sent one repeats it after a second and meets another process, and who was half in
 * already comes in.
 *
 * False where that is impossible, which is everywhere but on Linux, and where it is needless because the system itself
 * hands such connections over.
 */
export async function leaveNewConnections(host: Pick<Host, 'readFile'>): Promise<boolean> {
  if (process.platform !== 'linux' || areHandedOver(host)) return false
  const library = await openCLibrary({
    getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
    setsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'u32'], returns: 'i32' },
  })
  if (!library) return false
  const { ptr } = await import('bun:ffi')
  const program = new BigUint64Array([BigInt(dropFirstPackets.length), BigInt(ptr(dropFirstPackets))])
  const isListening = (socket: number): boolean => {
    const answer = new Int32Array(1)
    const size = new Int32Array([answer.byteLength])
    return library.getsockopt(socket, socketLevel, acceptsConnections, answer, size) === 0 && answer[0] === 1
  }
  const deaf = (await openFiles()).filter(
    (file) =>
      isListening(file) &&
      library.setsockopt(file, socketLevel, attachFilter, program, program.byteLength) === 0,
  )
  return deaf.length > 0
}

function areHandedOver(host: Pick<Host, 'readFile'>): boolean {
  try {
    return host.readFile('/proc/sys/net/ipv4/tcp_migrate_req').trim() === '1'
  } catch {
    // An old system, or one whose settings are none of our business.
    return false
  }
}

async function openFiles(): Promise<number[]> {
  const { readdirSync } = await import('node:fs')
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch {
    return []
  }
}

// See socket(7) and, for the filter, the kernel's "Linux Socket Filtering".
const socketLevel = 1
const acceptsConnections = 30
const attachFilter = 26

/** `struct sock_filter` four times: load the flags of a TCP header, and when SYN is among them keep 0 bytes, else all. */
const dropFirstPackets = new BigUint64Array([
  instruction(0x30, 0, 0, 13),
  instruction(0x45, 0, 1, 0x02),
  instruction(0x06, 0, 0, 0),
  instruction(0x06, 0, 0, 0xffffffff),
])

function instruction(code: number, whenTrue: number, whenFalse: number, operand: number): bigint {
  return BigInt(code) | (BigInt(whenTrue) << 16n) | (BigInt(whenFalse) << 24n) | (BigInt(operand) << 32n)
}
