import type { PagePosition } from '../domain/record-storage.ts'
import { timestamp } from '../domain/timestamp.ts'

/** Writes where a page ended as the opaque text that comes back in `_token`. */
export function writePageToken(position: PagePosition): string {
  return Buffer.from(`1.${position.firstTimestamp}.${position.offset}`, 'utf8').toString('base64url')
}

// As long as the longest offset that is taken from a storage.
const tokenForm = /^1\.(\d{1,15})\.([!-~]{1,1024})$/

/** Reads a `_token` that `writePageToken` wrote; null for anything else. */
export function readPageToken(token: string): PagePosition | null {
  if (!/^[\w-]{1,1400}$/.test(token)) return null
  const match = tokenForm.exec(Buffer.from(token, 'base64url').toString('utf8'))
  return match ? { firstTimestamp: timestamp(Number(match[1])), offset: match[2]! } : null
}
