import { createHash } from 'node:crypto'
import type { TimedRecord } from './storage.ts'
import { quantumMs } from './timestamps.ts'

/** What made-up records are like. */
export interface SeedOptions {
  /** Size of each payload. @default 400 */
  payloadBytes?: number
  /** How many neighbours share a timestamp, as the records of one upload do. @default 1 */
  recordsPerTimestamp?: number
}

const smallestPayloadBytes = 160

/**
 * Made-up records that look encrypted but aren't. The records of an empty collection have the same ids each time. Their
 * timestamps are 10 ms apart, begin at `earliest` or later, and end at `now` if there is room.
 */
export function* seedRecords(
  count: number,
  { earliest, now }: { earliest: number; now: number },
  { payloadBytes = 400, recordsPerTimestamp = 1 }: SeedOptions = {},
): Generator<TimedRecord> {
  const groups = Math.ceil(count / recordsPerTimestamp)
  const first = Math.max(earliest, now - groups * quantumMs)
  const noise = createNoise(Math.max(payloadBytes, smallestPayloadBytes))
  for (let index = 0; index < count; index += 1) {
    const digest = createHash('sha256').update(`${earliest} ${index}`).digest()
    yield {
      id: digest.subarray(0, 9).toString('base64url'),
      payload: fakePayload(digest, noise, payloadBytes),
      sortindex: digest.readUInt16BE(9) % 10_000,
      modified: first + Math.floor(index / recordsPerTimestamp) * quantumMs,
    }
  }
}

function fakePayload(digest: Buffer, noise: string, payloadBytes: number): string {
  const iv = digest.subarray(0, 16).toString('base64')
  const frame = `{"ciphertext":"","IV":"${iv}","hmac":"${digest.toString('hex')}"}`
  const room = Math.max(0, payloadBytes - frame.length)
  const start = digest.readUInt16BE(16) % 1000
  return `{"ciphertext":"${noise.slice(start, start + room)}","IV":"${iv}","hmac":"${digest.toString('hex')}"}`
}

// One long text that every ciphertext is a piece of, since making each anew would take most of the time.
function createNoise(length: number): string {
  let text = ''
  for (let index = 0; text.length < length + 1000; index += 1) {
    text += createHash('sha512').update(`noise ${index}`).digest('base64').slice(0, 84)
  }
  return text
}
