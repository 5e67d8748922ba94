import type { RedisEndpoint } from './redis-address.ts'

const slotCount = 16_384

/** The slot of a cluster that a key belongs to; see the Redis cluster specification, "Key distribution model". */
export function keySlot(key: string): number {
  // Keys with the same part in braces share a slot, and the prefix of ours may have one.
  const tag = /^\{([^}]+)\}/.exec(key.slice(firstBrace(key)))
  return crc16(new TextEncoder().encode(tag?.[1] ?? key)) % slotCount
}

/** A run of slots and the server that answers for it. */
export interface SlotRange {
  first: number
  last: number
  master: RedisEndpoint
  replicas: RedisEndpoint[]
}

/**
 * Reads the answer to CLUSTER SLOTS. Servers that don't know their own host name leave it out: it is that of the one
 * who answered. Throws when it isn't such an answer.
 */
export function readSlots(reply: unknown, answeredBy: RedisEndpoint): SlotRange[] {
  const ranges = reply as [number, number, ...[string | null, number][]][]
  return ranges.map(([first, last, ...members]) => {
    const [master, ...replicas] = members.map(([host, port]) => {
      const known = host === null || host === '' ? 'host' in answeredBy && answeredBy.host : host
      if (!known || known === '?') throw new Error('A member of the cluster has no address')
      return { host: known, port }
    })
    if (!master) throw new Error('A range of slots has no master')
    return { first, last, master, replicas }
  })
}

function firstBrace(key: string): number {
  return Math.max(0, key.indexOf('{'))
}

/** CRC-16/XMODEM. */
function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
    crc &= 0xffff
  }
  return crc
}
