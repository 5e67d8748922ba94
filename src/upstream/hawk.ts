import type { Address } from './storage-url.ts'

/** A Hawk key, ready to sign with: keying a hash costs more than using it. */
export type HawkKey = Bun.CryptoHasher

/** Takes the key as the bytes of its text; it is not decoded. */
export function hawkKey(key: string): HawkKey {
  return new Bun.CryptoHasher('sha256', key)
}

/** What a Hawk header vouches for: one request, at one time, by the holder of one key. */
export interface HawkRequest {
  id: string
  key: HawkKey
  method: string
  /** The very address the request is sent to: the storage signs the target as it stood on the wire. */
  url: Address
  timestampSeconds: number
  nonce: string
}

/**
 * The `Authorization` value of a request without payload hash, `ext`, `app` or `dlg`; see Sync 1.5 API,
 * "Authentication", and Hawk 1. The scheme is spelled `Hawk`, because the storage compares it letter by letter.
 */
export function hawkHeader({ id, key, method, url, timestampSeconds, nonce }: HawkRequest): string {
  const port = url.port || defaultPorts[url.protocol]
  const target = url.pathname + url.search
  const signed = `hawk.1.header\n${timestampSeconds}\n${nonce}\n${method.toUpperCase()}\n${target}\n${url.hostname}\n${port}\n\n\n`
  const mac = key.copy().update(signed).digest('base64')
  return `Hawk id="${id}", ts="${timestampSeconds}", nonce="${nonce}", mac="${mac}"`
}

const defaultPorts: Record<string, string> = { 'http:': '80', 'https:': '443' }
